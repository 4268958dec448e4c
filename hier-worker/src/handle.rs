//! The handle of a worker, for those who add runs in its process: a run for which it has a free slot is claimed as it is added.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::drive;
use super::shared::Shared;
use hier_checkpoint::sync::{Mutex, lock};
use hier_core::checkpoint::SaverError;
use hier_core::runs::{Claimed, NewRun, Run, RunStore, RunsError};

/// Adds runs to the store of a [`Worker`](super::Worker) in its process: a run is claimed in the transaction that adds it, and begun at
/// once, if the worker has a free slot that no run waits for. Otherwise, and while the worker does not run, it is added as by
/// `create_run` of [`RunStore`]. A clone is a handle of the same worker.
#[derive(Clone, Default)]
pub struct Handle(Arc<Mutex<Option<Running>>>);

/// A worker that runs.
#[derive(Clone)]
pub(super) struct Running {
    pub(super) shared: Arc<Shared>,
    /// A slot for each run at once. Whoever waits for one here comes first: that is the worker itself, for the runs that wait longest.
    pub(super) slots: Arc<Semaphore>,
    /// Whether there may be runs that wait for a slot, as far as the last claim and the runs added since tell.
    pub(super) waiting: Arc<AtomicBool>,
    pub(super) runs: TaskTracker,
    pub(super) stop: CancellationToken,
    pub(super) lost: CancellationToken,
}

/// A slot that was taken. Until it is dropped the worker does not return.
struct Slot {
    worker: Running,
    place: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

/// Detaches the handles of a worker that ends.
pub(super) struct Attached(Handle);

impl Drop for Attached {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

impl Handle {
    /// Attaches the worker, until what this returns is dropped.
    pub(super) fn attach(&self, worker: Running) -> Attached {
        *lock(&self.0) = Some(worker);
        Attached(self.clone())
    }

    /// Whether the worker runs.
    pub fn is_running(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Takes a slot, if one is free and no run waits for it. Otherwise the new one waits, too.
    fn try_slot(&self) -> Option<Slot> {
        let worker = lock(&self.0);
        let worker = worker.as_ref().filter(|worker| !worker.stop.is_cancelled())?;
        if worker.waiting.load(Ordering::Relaxed) {
            return None;
        }
        let Ok(place) = worker.slots.clone().try_acquire_owned() else {
            worker.waiting.store(true, Ordering::Relaxed);
            return None;
        };
        Some(Slot { place, _counted: worker.runs.token(), worker: worker.clone() })
    }

    /// Adds a run to the store of the worker, which is this one, and begins it if there is a free slot.
    ///
    /// Needs a tokio runtime. It may be dropped: a run that was claimed is done all the same.
    pub async fn create_run(&self, store: &Arc<dyn RunStore>, run: NewRun) -> Result<Run, RunsError> {
        let Some(slot) = self.try_slot() else {
            let added = store.create_run(run).await;
            if added.is_err() {
                // Nothing was added that the worker would hear of: it is to see whether there are runs that wait.
                store.notifier().notify_runs();
            }
            return added;
        };
        let (answer, answered) = oneshot::channel();
        // In a task of its own, which a caller that goes away leaves to its end: who claims has to do what is claimed.
        tokio::spawn(async move {
            let claim = slot.worker.shared.claim_of_one();
            let (added, claimed) = match slot.worker.shared.store.create_claimed(run, claim).await {
                Ok(added) => (Ok(added.run), added.claimed),
                Err(error) => (Err(error), None),
            };
            // Nobody may wait for it any more.
            let _ = answer.send(added);
            if let Some(claimed) = claimed {
                slot.work(claimed).await;
            }
        });
        answered.await.unwrap_or_else(|_| {
            let reason = std::io::Error::other("the tokio runtime was shut down");
            Err(SaverError::database("adding a run", reason).into())
        })
    }
}

impl Slot {
    async fn work(self, claimed: Claimed) {
        let Running { shared, stop, lost, .. } = &self.worker;
        lost.run_until_cancelled(drive::drive(shared, claimed, self.place, stop)).await;
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_running", &self.is_running()).finish()
    }
}
