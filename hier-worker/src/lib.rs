//! Workers: they claim runs and do them.
//!
//! A worker holds graphs and a [`RunStore`]. It claims runs of its graphs, several at once, and stores with each commit what it
//! tells of the run, and with the last how the run ended. To threads for which a time or a signal has come it adds a run that goes on.
//! Any number of workers, in any number of processes, share a store.
//!
//! ```
//! use std::sync::Arc;
//!
//! use hier_core::prelude::*;
//! use hier_core::runs::{MemoryRuns, NewRun, Request, RunStatus, RunStore};
//! use hier_worker::Worker;
//!
//! # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
//! # struct Filing { accepted: bool }
//! # async fn assess() -> FilingUpdate { Filing::update().accepted(true) }
//! # graph! { Review<Filing> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> std::result::Result<(), hier_core::runs::RunsError> {
//! let store = Arc::new(MemoryRuns::new());
//! let worker = Worker::new(store.clone()).graph("review", Review::compile().erase(|_| Ok(())));
//! let stop = hier_core::CancellationToken::new();
//! let working = tokio::spawn(worker.run_until(stop.clone()));
//!
//! let request = Request::input(serde_json::json!({ "accepted": false }));
//! let run = store.create_run(NewRun::new("case-17", "review", request).create_thread()).await?;
//! let mut changes = store.bell().thread("case-17");
//! while store.run(run.id).await?.is_some_and(|run| run.status.is_live()) {
//!     changes.rung().await;
//! }
//! assert_eq!(store.run(run.id).await?.map(|run| run.status), Some(RunStatus::Success));
//!
//! stop.cancel();
//! working.await.expect("the worker has stopped");
//! # Ok(())
//! # }
//! ```

mod drive;
mod due;
mod ending;
mod guarded;
mod handle;
mod prepare;
mod shared;
mod watch;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};

pub use handle::Handle;
use handle::Running;
use hier_checkpoint::panics;
use hier_core::graph::DynGraph;
use hier_core::runs::{Claimed, Run, RunClaim, RunStore};
use hier_core::store::Store;
use shared::Shared;

/// How many runs a worker claims at once. No more, so that other workers have their part.
const AT_ONCE: usize = 32;
/// How long a worker waits after the store has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// Claims runs and does them.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker(Shared, Handle);

impl Worker {
    /// A worker that does ten runs at once, and has no graphs yet.
    pub fn new(store: Arc<dyn RunStore>) -> Self {
        let shared = Shared {
            store: Arc::new(guarded::Guarded::new(store)),
            graphs: BTreeMap::new(),
            memory: None,
            lasts: Duration::from_secs(30),
            poll: Duration::from_secs(1),
            flush: Duration::from_millis(10),
            attempts: 3,
            max_run_time: Duration::MAX,
            max_steps: usize::MAX,
            ended: None,
            holder: format!("worker {}", std::process::id()),
            concurrency: 10,
        };
        Self(shared, Handle::default())
    }

    /// A handle for whoever adds runs to its store in this process: it begins them at once while it has a free slot.
    pub fn handle(&self) -> Handle {
        self.1.clone()
    }

    /// Does runs of this graph, which rows name so.
    pub fn graph(self, name: impl Into<String>, graph: impl DynGraph) -> Self {
        self.dyn_graph(name, Arc::new(graph))
    }

    /// The same of a graph that others hold too.
    pub fn dyn_graph(mut self, name: impl Into<String>, graph: Arc<dyn DynGraph>) -> Self {
        self.0.graphs.insert(name.into(), graph);
        self
    }

    /// Gives the nodes a memory across threads.
    pub fn memory(mut self, memory: Arc<dyn Store>) -> Self {
        self.0.memory = Some(memory);
        self
    }

    /// How many runs it does at once. At least 1; 10 unless given. A run of which only the end is still to be stored is not counted.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.0.concurrency = runs.max(1);
        self
    }

    /// How long it may be silent before another worker goes on with its runs; 30 seconds unless given. It tells three times as
    /// often that it is alive.
    pub fn lease(mut self, lasts: Duration) -> Self {
        self.0.lasts = lasts.max(Duration::from_millis(100));
        self
    }

    /// How often it looks for runs, and whether its own are to be cancelled, if nobody tells it; 1 second unless given.
    pub fn poll(mut self, every: Duration) -> Self {
        self.0.poll = every.max(Duration::from_millis(1));
        self
    }

    /// For how long events are collected before they are stored, where no commit comes before; 10 milliseconds unless given.
    pub fn flush(mut self, every: Duration) -> Self {
        self.0.flush = every;
        self
    }

    /// Sets how many times a run is started or resumed after its worker died. Then it fails. At least 1; defaults to 3.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.0.attempts = attempts.max(1);
        self
    }

    /// Limits the time of a run without a break. A run that takes longer ends with the status `timeout`, like one that exceeds its
    /// request's own `timeout_ms`. Defaults to no limit.
    pub fn max_run_time(mut self, limit: Duration) -> Self {
        self.0.max_run_time = limit;
        self
    }

    /// Limits the number of supersteps of a run, even if the request has a higher `recursion_limit`. At least 1; defaults to no limit.
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.0.max_steps = steps.max(1);
        self
    }

    /// Who it is, in words for people.
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.0.holder = holder.into();
        self
    }

    /// Tells of each run that has ended here, once that is stored; the next run may have begun by then. It must not wait. A worker that dies between the two tells
    /// nobody: [`RunStore::runs`] has what is true.
    pub fn on_end(mut self, ended: impl Fn(&Run) + Send + Sync + 'static) -> Self {
        self.0.ended = Some(Arc::new(ended));
        self
    }

    /// Works until the token is cancelled: then it hands the runs that it is doing back to the store, and returns. Dropping the
    /// future leaves them to other workers, once their leases have run out.
    pub async fn run_until(self, stop: CancellationToken) {
        panics::note_places();
        let (shared, handle) = (Arc::new(self.0), self.1);
        let (slots, runs) = (Arc::new(Semaphore::new(shared.concurrency)), TaskTracker::new());
        // If this is dropped, so are the runs.
        let lost = CancellationToken::new();
        let _guard = lost.clone().drop_guard();
        let (own, counted) = (shared.clone(), runs.clone());
        let waiting = Arc::new(AtomicBool::new(false));
        let running = Running {
            shared: own,
            slots: slots.clone(),
            waiting: waiting.clone(),
            runs: counted,
            stop: stop.clone(),
            lost: lost.clone(),
        };
        let attached = handle.attach(running);
        let mut bell = shared.store.bell().runs();
        let _waking = AbortOnDropHandle::new(tokio::spawn(due::run_until(shared.clone(), stop.clone())));
        loop {
            let Some(Ok(place)) = stop.run_until_cancelled(slots.clone().acquire_owned()).await else { break };
            if stop.is_cancelled() {
                break;
            }
            // While nobody is known to wait, half of the free slots stay for runs that are begun as they are added.
            let half = slots.available_permits() / 2;
            let more = if waiting.load(Ordering::Relaxed) { AT_ONCE - 1 } else { half.min(AT_ONCE - 1) };
            let free = std::iter::from_fn(|| slots.clone().try_acquire_owned().ok());
            let places: Vec<_> = std::iter::once(place).chain(free.take(more)).collect();
            let claimed = shared.claim(places.len()).await;
            // As many as there were places: there may be more.
            waiting.store(claimed.as_ref().is_ok_and(|claimed| claimed.len() == places.len()), Ordering::Relaxed);
            match claimed {
                Ok(claimed) if claimed.is_empty() => {
                    drop(places);
                    // Whether it rang or time passed: look again.
                    if stop.run_until_cancelled(timeout(shared.poll, bell.rung())).await.is_none() {
                        break;
                    }
                }
                Ok(claimed) => {
                    for (claimed, place) in claimed.into_iter().zip(places) {
                        let (shared, stop, lost) = (shared.clone(), stop.clone(), lost.clone());
                        runs.spawn(async move {
                            lost.run_until_cancelled(drive::drive(&shared, claimed, place, &stop)).await;
                        });
                    }
                }
                Err(error) => {
                    drop(places);
                    tracing::warn!(%error, "a worker cannot claim runs; trying again later");
                    stop.run_until_cancelled(tokio::time::sleep(PAUSE.min(shared.poll))).await;
                }
            }
        }
        drop(attached);
        runs.close();
        runs.wait().await;
    }
}

impl Shared {
    async fn claim(&self, most: usize) -> Result<Vec<Claimed>, hier_core::runs::RunsError> {
        self.store.claim_runs(self.claim_of_one(), most).await
    }

    /// How a run is claimed.
    fn claim_of_one(&self) -> RunClaim {
        RunClaim::new(self.holder.clone(), self.lasts, self.graphs.keys().cloned())
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graphs: Vec<_> = self.0.graphs.keys().collect();
        f.debug_struct("Worker").field("holder", &self.0.holder).field("graphs", &graphs).finish_non_exhaustive()
    }
}
