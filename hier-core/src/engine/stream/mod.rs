//! Streams of events, the queue in which they wait, and the outcome of a run.

pub(in crate::engine) mod emitter;
pub(in crate::engine) mod event;
pub(in crate::engine) mod outcome;
pub(in crate::engine) mod ring;
pub(in crate::engine) mod weight;
