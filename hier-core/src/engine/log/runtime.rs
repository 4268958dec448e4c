//! The parts of a runtime that the [committer](super::committer) uses.

pub(super) use tokio::runtime::Handle;
pub(super) use tokio::task::JoinHandle;
