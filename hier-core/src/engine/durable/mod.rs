//! The stored form of threads.
//!
//! [`journal`] makes the checkpoint of each superstep for the saver. [`stored_graph`] reads all stored data of a graph
//! under the lease, and [`load`] decodes the state, the position and the records of the open superstep ([`pending`]).

pub(in crate::engine) mod answer;
pub(in crate::engine) mod attempts;
pub(in crate::engine) mod check;
pub(in crate::engine) mod clock;
pub(in crate::engine) mod commands;
pub(in crate::engine) mod delta;
pub(in crate::engine) mod due;
pub(in crate::engine) mod heads;
pub(in crate::engine) mod input;
pub(in crate::engine) mod journal;
pub(in crate::engine) mod line;
pub(in crate::engine) mod load;
pub(in crate::engine) mod names;
pub(in crate::engine) mod packed;
pub(in crate::engine) mod pending;
pub(in crate::engine) mod recall;
pub(in crate::engine) mod resumed;
pub(in crate::engine) mod segment;
pub(in crate::engine) mod stored_graph;
pub(in crate::engine) mod thread_reader;
pub(in crate::engine) mod upgrade;
