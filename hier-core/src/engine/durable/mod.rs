//! Durable runs: what is stored of a step, and how it is read.
//!
//! The way down: the runner hands each step to the journal, a task hands what it has done to the log; both make records and
//! give them to the committer, which gives them to the saver. The way up: `load` reads a checkpoint, and what is stored of the
//! tasks of the step that follows it (`pending`).

pub(in crate::engine) mod answer;
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
