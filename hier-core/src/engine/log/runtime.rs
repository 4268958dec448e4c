//! What the [committer](super::committer) takes of a runtime.

pub(super) use tokio::runtime::Handle;
pub(super) use tokio::task::JoinHandle;
