//! The events of a run in the runs API, which are server-sent events with the names of stream modes.

pub(crate) mod assembler;
mod chunk;
mod runnables;
pub(crate) mod translate;
