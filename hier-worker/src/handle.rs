//! Adds runs in the process of a worker. If the worker has a free slot, it claims a run in the transaction that adds
//! the run.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::context::WorkerContext;
use super::drive;
use hier_checkpoint::sync::{Mutex, lock};
use hier_core::checkpoint::SaverError;
use hier_core::runs::{Claimed, NewRun, Run, RunStore, RunsError};

/// A handle that adds runs to the store of a [`Worker`](super::Worker) in the same process. Clones belong to the same
/// worker.
///
/// If the worker has a free slot and no other run waits for a slot, the worker claims the run in the transaction that
/// adds it, and starts the run at once. Otherwise, or if the worker is not running, the run waits in the queue of the
/// store until a worker claims it.
#[derive(Clone, Default)]
pub struct Handle(Arc<Mutex<Option<RunningWorker>>>);

#[derive(Clone)]
pub(super) struct RunningWorker {
    pub(super) shared: Arc<WorkerContext>,
    /// One permit for each concurrent run. The worker's loop also waits for permits, to start the runs that have waited
    /// longest.
    pub(super) slots: Arc<Semaphore>,
    /// True if runs may be waiting for a slot, according to the last claim and the runs that were added after it.
    pub(super) waiting: Arc<AtomicBool>,
    pub(super) runs: TaskTracker,
    pub(super) stop: CancellationToken,
    pub(super) lost: CancellationToken,
}

/// A slot that is in use. The worker does not stop before the slot is dropped.
struct Slot {
    worker: RunningWorker,
    permit: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

/// Detaches the handles of a worker when the worker ends.
pub(super) struct HandleAttachment(Handle);

impl Drop for HandleAttachment {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

impl Handle {
    /// Attaches the worker until the result is dropped.
    pub(super) fn attach(&self, worker: RunningWorker) -> HandleAttachment {
        *lock(&self.0) = Some(worker);
        HandleAttachment(self.clone())
    }

    /// Returns true if the worker is running.
    pub fn is_running(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Takes a slot if one is free and no run waits for one.
    fn try_slot(&self) -> Option<Slot> {
        let worker = lock(&self.0);
        let worker = worker.as_ref().filter(|worker| !worker.stop.is_cancelled())?;
        if worker.waiting.load(Ordering::Relaxed) {
            return None;
        }
        let Ok(permit) = worker.slots.clone().try_acquire_owned() else {
            worker.waiting.store(true, Ordering::Relaxed);
            return None;
        };
        Some(Slot { permit, _counted: worker.runs.token(), worker: worker.clone() })
    }

    /// Adds a run to `store`. The argument `store` must be the worker's store. If the worker has a free slot and no
    /// other run waits for a slot, the worker starts the run at once. Call this method in a tokio runtime.
    ///
    /// Cancel safety: if the future is dropped, the run may still be added and executed.
    pub async fn create_run(&self, store: &Arc<dyn RunStore>, run: NewRun) -> Result<Run, RunsError> {
        let Some(slot) = self.try_slot() else {
            let added = store.create_run(run).await;
            if added.is_err() {
                // The run may have been added although the worker received no notification. This asks the worker to
                // look for runs.
                store.notifier().notify_runs();
            }
            return added;
        };
        let (answer, answered) = oneshot::channel();
        // A separate task executes a claimed run even if the caller disconnects.
        tokio::spawn(async move {
            let claim = slot.worker.shared.claim_of_one();
            let (added, claimed) = match slot.worker.shared.store.create_claimed(run, claim).await {
                Ok(added) => (Ok(added.run), added.claimed),
                Err(error) => (Err(error), None),
            };
            // The caller may have disconnected.
            let _ = answer.send(added);
            if let Some(claimed) = claimed {
                slot.execute(claimed).await;
            }
        });
        answered.await.unwrap_or_else(|_| {
            let reason = std::io::Error::other("the tokio runtime was shut down");
            Err(SaverError::database("adding a run", reason).into())
        })
    }
}

impl Slot {
    async fn execute(self, claimed: Claimed) {
        let RunningWorker { shared, stop, lost, .. } = &self.worker;
        lost.run_until_cancelled(Box::pin(drive::drive(shared, claimed, self.permit, stop))).await;
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("is_running", &self.is_running()).finish()
    }
}
