//! The parts of a runtime that a batch uses.

pub(super) use tokio::runtime::Handle;
pub(super) use tokio::task::AbortHandle;

pub(super) fn current() -> Option<Handle> {
    Handle::try_current().ok()
}

pub(super) fn workers(runtime: &Handle) -> usize {
    runtime.metrics().num_workers()
}

pub(super) fn spawn(runtime: &Handle, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    runtime.spawn(work).abort_handle()
}
