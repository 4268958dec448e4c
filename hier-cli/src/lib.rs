//! What the `hier` command does, as a library.

pub mod conformance;
pub mod threads;
