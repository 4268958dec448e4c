//! Graphs that ask a model, and graphs as subagents: their rules, shape and layers.

pub(super) mod check;
pub(super) mod layers;
pub(super) mod shape;
