//! One task: calls the node with its options, resolves commands and routes, and records and reports the result.

pub(in crate::engine) mod exec;
pub(in crate::engine) mod record;
pub(in crate::engine) mod report;
pub(in crate::engine) mod resolve;
pub(in crate::engine) mod route;
pub(in crate::engine) mod stored;
