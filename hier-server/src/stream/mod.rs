//! The events of a run in the runs API: server-sent events named after stream modes.

pub(crate) mod assembler;
mod chunk;
mod runnables;
pub(crate) mod translate;
