//! The saver in memory.

/// Keeps checkpoints in memory.
#[derive(Clone, Debug, Default)]
pub struct MemorySaver {}
