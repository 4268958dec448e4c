//! What can be done with a thread beside running it: it is read, and changed from outside.

pub(in crate::engine) mod branch;
pub(in crate::engine) mod inside;
pub(in crate::engine) mod revise;
pub(in crate::engine) mod snapshot;
pub(in crate::engine) mod update;
