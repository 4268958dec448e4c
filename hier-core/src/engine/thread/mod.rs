//! Reads threads, and updates them while they do not run.

pub(in crate::engine) mod branch;
pub(in crate::engine) mod detached;
pub(in crate::engine) mod erased;
pub(in crate::engine) mod revise;
pub(in crate::engine) mod snapshot;
pub(in crate::engine) mod update;
