//! Graphs as members of an agent: what one says of itself, how it is attached, what it is given and gives back.

pub(super) mod child;
pub(super) mod member;
pub(super) mod policy;
pub(super) mod policy_spec;
pub(super) mod subagent;
