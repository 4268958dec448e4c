//! What the `hier` command does, as a library.

pub mod threads;
