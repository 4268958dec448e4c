//! Keeps the lease of a run while it runs.

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

/// A task of its own that renews a lease: also while a node keeps its thread. Dropping it ends that.
pub(crate) struct Renewal {
    task: AbortOnDropHandle<SaverError>,
    kept: Arc<Mutex<RenewalState>>,
}

/// What the task needs to renew the lease.
struct RenewalState {
    /// None once the run is over.
    saver: Option<Saver>,
    /// Whether the saver is being called.
    renews: bool,
}

impl Renewal {
    /// Starts it; none if there is no runtime, or leases of this saver do not run out.
    pub(crate) async fn start(committer: &Committer) -> Option<Self> {
        let runtime = Handle::try_current().ok().filter(|_| committer.saver.leases_expire())?;
        let kept = Arc::new(Mutex::new(RenewalState { saver: Some(committer.saver.clone()), renews: false }));
        let own = kept.clone();
        // Nobody else has set it: a run has one.
        let _ = committer.stop_renewal.set(Box::new(move || {
            let mut kept = lock(&own);
            if !kept.renews {
                kept.saver = None;
            }
            !kept.renews
        }));
        let task = AbortOnDropHandle::new(runtime.spawn(keep_alive(kept.clone(), committer.lease.clone())));
        // What a worker of the runtime has spawned last waits for this worker, which a node may keep from now on.
        tokio::task::yield_now().await;
        Some(Self { task, kept })
    }

    /// Why the lease is lost, once it is. Cancel safe.
    pub(crate) async fn lost(&mut self) -> Result<SaverError, JoinError> {
        (&mut self.task).await
    }

    /// Ends it; afterwards it holds the saver no longer. The task is waited for only while it calls the saver.
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

/// Renews the lease for ever; returns what went wrong.
async fn keep_alive(kept: Arc<Mutex<RenewalState>>, lease: Lease) -> SaverError {
    let pause = (lease.lasts / 3).max(Duration::from_millis(10));
    loop {
        tokio::time::sleep(pause).await;
        let saver = {
            let mut kept = lock(&kept);
            kept.renews = kept.saver.is_some();
            kept.saver.clone()
        };
        // The run is over, and ends this task soon.
        let Some(saver) = saver else { pending().await };
        let renewed = saver.renew(&lease).await;
        drop(saver);
        lock(&kept).renews = false;
        match renewed {
            Ok(()) => {}
            Err(error @ SaverError::Superseded { .. }) => return error,
            // The lease runs for another while; the next commit tells.
            Err(error) => tracing::warn!(thread = %lease.thread, %error, "failed to renew the thread's lease"),
        }
    }
}
