use std::future::pending;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::JoinError;
use tokio_util::task::AbortOnDropHandle;

use super::committer::Committer;
use super::saver::Saver;
use crate::checkpoint::{Lease, SaverError};
use crate::sync::lock;

/// A task that renews the lease of a run, even while a node blocks the thread of the run. A drop aborts the task.
pub(crate) struct Renewal {
    task: AbortOnDropHandle<SaverError>,
    kept: Arc<Mutex<RenewalState>>,
}

struct RenewalState {
    /// None once the run has ended.
    saver: Option<Saver>,
    renews: bool,
}

impl Renewal {
    /// Starts the renewal. Returns `None` without a runtime, or if leases of this saver do not expire.
    pub(crate) async fn start(committer: &Committer) -> Option<Self> {
        let runtime = Handle::try_current().ok().filter(|_| committer.saver.leases_expire())?;
        let kept = Arc::new(Mutex::new(RenewalState { saver: Some(committer.saver.clone()), renews: false }));
        let own = kept.clone();
        // Only this function sets the value, once per run.
        let _ = committer.stop_renewal.set(Box::new(move || {
            let mut kept = lock(&own);
            if !kept.renews {
                kept.saver = None;
            }
            !kept.renews
        }));
        let task = AbortOnDropHandle::new(runtime.spawn(keep_alive(kept.clone(), committer.lease.clone())));
        // A worker thread keeps the task that it spawned last for itself, and a node may block this worker from now on.
        // Yielding lets the renewal start first.
        tokio::task::yield_now().await;
        Some(Self { task, kept })
    }

    /// Waits until the lease is lost, and returns the reason. Cancel safe.
    pub(crate) async fn lost(&mut self) -> Result<SaverError, JoinError> {
        (&mut self.task).await
    }

    /// Stops the renewal. Waits for its task only if a renewal is in progress, so that the task has dropped the saver.
    pub(crate) async fn end(self) {
        let renews = {
            let mut kept = lock(&self.kept);
            kept.saver = None;
            kept.renews
        };
        if renews && !self.task.is_finished() {
            self.task.abort();
            // The task was cancelled, or its renewal has ended.
            let _ = self.task.await;
        }
    }
}

/// Renews the lease until another run takes it, and returns the error.
async fn keep_alive(kept: Arc<Mutex<RenewalState>>, lease: Lease) -> SaverError {
    let pause = (lease.lasts / 3).max(Duration::from_millis(10));
    loop {
        tokio::time::sleep(pause).await;
        let saver = {
            let mut kept = lock(&kept);
            kept.renews = kept.saver.is_some();
            kept.saver.clone()
        };
        // The run has ended, and aborts this task.
        let Some(saver) = saver else { pending().await };
        let renewed = saver.renew(&lease).await;
        drop(saver);
        lock(&kept).renews = false;
        match renewed {
            Ok(()) => {}
            Err(error @ SaverError::Superseded { .. }) => return error,
            // The lease is still valid for a while, so the next renewal may succeed. Otherwise the next commit fails.
            Err(error) => {
                tracing::warn!(thread = %lease.thread, %error, "failed to renew the thread's lease; trying again before the lease expires");
            }
        }
    }
}
