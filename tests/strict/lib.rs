//! The macros in edition 2021, and under the lints that a user may deny.
