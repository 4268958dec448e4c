//! Graphs as members of an agent: their declaration, attachment, entry and exit.

mod background;
pub(super) mod child;
pub(super) mod member;
pub(super) mod policy;
pub(super) mod policy_spec;
mod spent;
pub(super) mod subagent;
