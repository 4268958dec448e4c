//! The tests of the whole contract, for any saver.
