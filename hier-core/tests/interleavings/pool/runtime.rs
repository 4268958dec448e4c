//! A runtime whose tasks run on threads of the scheduler.

use futures_util::future::{BoxFuture, abortable};
use tokio_util::task::TaskTracker;

pub(crate) use futures_util::future::AbortHandle;

pub(crate) struct Handle;

#[allow(clippy::unnecessary_wraps)] // as the engine's
pub(crate) fn current() -> Option<Handle> {
    Some(Handle)
}

pub(crate) fn workers(_: &Handle) -> usize {
    3
}

/// A task that is aborted is dropped a moment later, as in tokio.
pub(crate) fn spawn(_: &Handle, tracker: &TaskTracker, work: BoxFuture<'static, ()>) -> AbortHandle {
    let (work, handle) = abortable(tracker.track_future(work));
    shuttle::future::spawn(async move {
        let _ = work.await;
    });
    handle
}
