//! The names that the engine reserves in checkpoints.

/// The channel that holds an input until it is applied.
pub(in crate::engine) const START: &str = "__start__";
/// The channel that holds the writes that a subgraph returns.
pub(in crate::engine) const RETURNED: &str = "__returned__";
/// The metadata of a checkpoint of a `per_thread` subgraph. Identifies the call that made the checkpoint.
pub(in crate::engine) const CALL: &str = "__call__";
