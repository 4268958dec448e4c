//! What happens in a run, as clients of the first protocol follow it: server-sent events named after stream modes.

pub(crate) mod assembler;
mod chunk;
mod runnables;
pub(crate) mod sse;
pub(crate) mod translate;
