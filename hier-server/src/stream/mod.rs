//! What happens in a run, as clients of the first protocol follow it: server-sent events named after stream modes.

pub(crate) mod mode;
pub(crate) mod speech;
pub(crate) mod sse;
pub(crate) mod translate;
