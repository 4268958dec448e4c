//! Calls of models and tools. All agents, `tools![…]` nodes and custom nodes make their calls through this module.

mod approve;
mod ids;
mod labels;
mod metrics;
pub(crate) mod model;
pub(crate) mod nesting;
pub(crate) mod pairing;
pub(crate) mod tool;
