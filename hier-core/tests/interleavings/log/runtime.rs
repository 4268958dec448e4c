//! A runtime whose tasks run on threads of the scheduler.

pub(super) use shuttle::future::JoinHandle;

pub(super) struct Handle;

impl Handle {
    #[allow(clippy::unnecessary_wraps)] // as tokio's
    pub(super) fn try_current() -> Result<Self, ()> {
        Ok(Self)
    }

    #[allow(clippy::unused_self)]
    pub(super) fn spawn<T: Send + 'static>(&self, work: impl Future<Output = T> + Send + 'static) -> JoinHandle<T> {
        shuttle::future::spawn(work)
    }
}
