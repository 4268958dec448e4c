//! Graphs that ask a model, and graphs as subagents: syntax, rules and code.

pub(super) mod ast;
pub(super) mod check;
pub(super) mod expand;
pub(super) mod layers;
pub(super) mod secret;
pub(super) mod shape;
