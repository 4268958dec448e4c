//! Runs deeply nested subgraphs as separate tasks. A graph polls its subgraphs on the stack of its thread, and this
//! stack is limited.

use futures_core::future::BoxFuture;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument;

use crate::error::NodeError;

/// Number of levels after which a nested subgraph runs as a separate task.
pub(crate) const LEVELS: usize = 16;

/// Runs the work as a separate task. Without a runtime, runs it in place. Dropping the future cancels the task.
pub(crate) async fn apart<T: Send + 'static>(
    tracker: &TaskTracker,
    work: BoxFuture<'static, Result<T, NodeError>>,
) -> Result<T, NodeError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work.await };
    let task = runtime.spawn(tracker.track_future(work).in_current_span());
    match AbortOnDropHandle::new(task).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(payload) => std::panic::resume_unwind(payload),
            Err(_) => Err(NodeError::permanent("the tokio runtime shut down before the task had finished")),
        },
    }
}
