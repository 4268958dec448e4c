//! The parts of the state and the context that every agent has.

pub(super) mod base;
pub(super) mod budget;
pub(super) mod context;
pub(super) mod counts;
pub(super) mod dynamic;
pub(super) mod frame;
pub(super) mod outcome;
pub(super) mod progress;
pub(super) mod todo;
pub(super) mod turn;
