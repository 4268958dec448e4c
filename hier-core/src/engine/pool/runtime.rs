//! The parts of a runtime that a batch uses.

use futures_util::future::BoxFuture;
pub(super) use tokio::runtime::Handle;
pub(super) use tokio::task::AbortHandle;
use tokio_util::task::TaskTracker;

pub(super) fn current() -> Option<Handle> {
    Handle::try_current().ok()
}

pub(super) fn workers(runtime: &Handle) -> usize {
    runtime.metrics().num_workers()
}

/// Spawns tracked work. It is boxed, so that the code of the runtime is not compiled for each state.
pub(super) fn spawn(runtime: &Handle, tracker: &TaskTracker, work: BoxFuture<'static, ()>) -> AbortHandle {
    runtime.spawn(tracker.track_future(work)).abort_handle()
}
