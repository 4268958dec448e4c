//! What happens in a run, as clients of the first protocol follow it: server-sent events named after stream modes.

mod runnables;
pub(crate) mod speech;
pub(crate) mod sse;
pub(crate) mod translate;
