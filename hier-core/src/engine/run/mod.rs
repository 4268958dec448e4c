//! Drives a graph: opens it, runs superstep after superstep, stores each, and ends it.
//!
//! [`start`] begins a durable run. It claims the thread ([`lease`]) and opens it ([`resume`], and [`continuation`] if a
//! superstep is open). [`runner`] has the loop, which runs a superstep ([`parallel`]), applies it, and stores it
//! ([`commit`]). [`subgraph`] and [`resume_subgraph`] do the same for a graph that a node runs.

pub(in crate::engine) mod background;
pub(in crate::engine) mod batch_tasks;
pub(in crate::engine) mod begin;
pub(in crate::engine) mod commit;
pub(in crate::engine) mod continuation;
pub(in crate::engine) mod emit;
pub(in crate::engine) mod hooks;
pub(in crate::engine) mod inbox;
pub(in crate::engine) mod lease;
pub(in crate::engine) mod parallel;
pub(in crate::engine) mod partial;
pub(in crate::engine) mod resume;
pub(in crate::engine) mod resume_subgraph;
pub(in crate::engine) mod runner;
pub(in crate::engine) mod start;
pub(in crate::engine) mod subgraph;
