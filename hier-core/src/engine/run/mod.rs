//! Drives a thread: begins a run or takes it up, runs superstep after superstep, stores each, and ends it.

pub(in crate::engine) mod hooks;
pub(in crate::engine) mod piece;
pub(in crate::engine) mod recall;
pub(in crate::engine) mod resume;
pub(in crate::engine) mod resume_subgraph;
pub(in crate::engine) mod runner;
pub(in crate::engine) mod several;
pub(in crate::engine) mod start;
pub(in crate::engine) mod store;
pub(in crate::engine) mod subgraph;
