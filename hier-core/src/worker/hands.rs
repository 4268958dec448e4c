//! The free places of a worker, for those who add runs in its process: a run that has one is claimed as it is added.

use std::fmt;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

use super::{Shared, drive};
use crate::checkpoint::SaverError;
use crate::runs::{Claimed, NewRun, Run, RunStore, RunsError};
use crate::sync::{Mutex, lock};

/// A way to the free places of a [`Worker`](super::Worker): a run that is added through it is claimed in the transaction that adds it,
/// and begun at once, if the worker has a place that no run waits for. Otherwise, and while the worker does not run, it is added as by
/// [`RunStore::create_run`]. A clone is a way to the same worker.
#[derive(Clone, Default)]
pub struct Hands(Arc<Mutex<Option<Open>>>);

/// A worker that runs.
#[derive(Clone)]
pub(super) struct Open {
    pub(super) shared: Arc<Shared>,
    /// Whoever waits for a place here comes first: that is the worker itself, for the runs that wait longest.
    pub(super) room: Arc<Semaphore>,
    pub(super) runs: TaskTracker,
    pub(super) stop: CancellationToken,
    pub(super) lost: CancellationToken,
}

/// A place that was taken. Until it is dropped the worker does not return.
struct Place {
    open: Open,
    _permit: OwnedSemaphorePermit,
    _counted: TaskTrackerToken,
}

/// Closes the way again.
pub(super) struct Opened(Hands);

impl Drop for Opened {
    fn drop(&mut self) {
        *lock(&self.0.0) = None;
    }
}

impl Hands {
    /// Opens the way, until what this returns is dropped.
    pub(super) fn open(&self, open: Open) -> Opened {
        *lock(&self.0) = Some(open);
        Opened(self.clone())
    }

    /// Takes a place, if one is free.
    fn place(&self) -> Option<Place> {
        let open = lock(&self.0);
        let open = open.as_ref().filter(|open| !open.stop.is_cancelled())?;
        let place = open.room.clone().try_acquire_owned().ok()?;
        Some(Place { _permit: place, _counted: open.runs.token(), open: open.clone() })
    }

    /// Adds a run to the store of the worker, which is this one, and begins it if there is a place.
    ///
    /// Needs a tokio runtime. It may be dropped: a run that was claimed is done all the same.
    pub async fn create_run(&self, store: &Arc<dyn RunStore>, run: NewRun) -> Result<Run, RunsError> {
        let Some(place) = self.place() else { return store.create_run(run).await };
        let (answer, answered) = oneshot::channel();
        // In a task of its own, which a caller that goes away leaves to its end: who claims has to do what is claimed.
        tokio::spawn(async move {
            let claim = place.open.shared.claim_of_one();
            let (added, claimed) = match place.open.shared.store.create_claimed(run, claim).await {
                Ok((added, claimed)) => (Ok(added), claimed),
                Err(error) => (Err(error), None),
            };
            // Nobody may wait for it any more.
            let _ = answer.send(added);
            if let Some(claimed) = claimed {
                place.work(claimed).await;
            }
        });
        answered.await.unwrap_or_else(|_| {
            let reason = std::io::Error::other("the tokio runtime was shut down");
            Err(SaverError::database("adding a run", reason).into())
        })
    }
}

impl Place {
    async fn work(self, claimed: Claimed) {
        let Open { shared, stop, lost, .. } = &self.open;
        lost.run_until_cancelled(drive::drive(shared, claimed, stop)).await;
    }
}

impl fmt::Debug for Hands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hands").field("is_open", &lock(&self.0).is_some()).finish()
    }
}
