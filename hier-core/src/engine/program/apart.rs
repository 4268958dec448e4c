//! Work that goes on by itself, on a stack of its own: graphs within graphs are polled within each other, and a thread's
//! stack ends somewhere.

use futures_core::future::BoxFuture;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tracing::Instrument;

use crate::error::NodeError;

/// Every so many levels a graph within a graph goes on apart.
pub(crate) const LEVELS: usize = 16;

/// Does the work as a task of the runtime; dropping the future cancels it. Without a runtime it is done in place.
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
            Err(_) => Err(NodeError::permanent("was cancelled, because the runtime shuts down")),
        },
    }
}
