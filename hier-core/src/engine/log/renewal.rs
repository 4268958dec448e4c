//! Renews the lease of a run.

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

/// A separate task that renews a lease even while a node blocks its thread. Dropping this aborts the task.
pub(crate) struct Renewal {
    task: AbortOnDropHandle<SaverError>,
    kept: Arc<Mutex<RenewalState>>,
}

struct RenewalState {
    /// None once the run is over.
    saver: Option<Saver>,
    /// True while the saver is being called.
    renews: bool,
}

impl Renewal {
    /// Starts the renewal. Returns `None` without a runtime, or if leases of this saver do not expire.
    pub(crate) async fn start(committer: &Committer) -> Option<Self> {
        let runtime = Handle::try_current().ok().filter(|_| committer.saver.leases_expire())?;
        let kept = Arc::new(Mutex::new(RenewalState { saver: Some(committer.saver.clone()), renews: false }));
        let own = kept.clone();
        // A run has one renewal.
        let _ = committer.stop_renewal.set(Box::new(move || {
            let mut kept = lock(&own);
            if !kept.renews {
                kept.saver = None;
            }
            !kept.renews
        }));
        let task = AbortOnDropHandle::new(runtime.spawn(keep_alive(kept.clone(), committer.lease.clone())));
        // The task that a worker thread has spawned last waits for this worker, which a node may block from now on.
        tokio::task::yield_now().await;
        Some(Self { task, kept })
    }

    /// Resolves when the lease is lost, with the reason. Cancel safe.
    pub(crate) async fn lost(&mut self) -> Result<SaverError, JoinError> {
        (&mut self.task).await
    }

    /// Stops the renewal and drops its saver. Waits for the task only while it calls the saver.
    pub(crate) async fn end(self) {
        let renews = {
            let mut kept = lock(&self.kept);
            kept.saver = None;
            kept.renews
        };
        if renews && !self.task.is_finished() {
            self.task.abort();
            // It was cancelled, or has ended.
            let _ = self.task.await;
        }
    }
}

/// Renews the lease until that fails, and returns the error.
async fn keep_alive(kept: Arc<Mutex<RenewalState>>, lease: Lease) -> SaverError {
    let pause = (lease.lasts / 3).max(Duration::from_millis(10));
    loop {
        tokio::time::sleep(pause).await;
        let saver = {
            let mut kept = lock(&kept);
            kept.renews = kept.saver.is_some();
            kept.saver.clone()
        };
        // The run is over and will abort this task.
        let Some(saver) = saver else { pending().await };
        let renewed = saver.renew(&lease).await;
        drop(saver);
        lock(&kept).renews = false;
        match renewed {
            Ok(()) => {}
            Err(error @ SaverError::Superseded { .. }) => return error,
            // The lease is still valid for a while. If it is lost, the next commit fails.
            Err(error) => tracing::warn!(thread = %lease.thread, %error, "failed to renew the thread's lease"),
        }
    }
}
