//! One task: its node is called, with the options of the node, its commands and routes are resolved, and what it did is told and
//! written down.

pub(in crate::engine) mod exec;
pub(in crate::engine) mod record;
pub(in crate::engine) mod report;
pub(in crate::engine) mod resolve;
pub(in crate::engine) mod route;
pub(in crate::engine) mod stored;
