//! Workers, which claim runs from a store and execute them.
//!
//! A [`Worker`] has a [`RunStore`] and graphs. It claims the runs of these graphs and executes several of them at a
//! time. Each commit of a run also stores the run's events, and the last commit stores its result. A worker also adds a
//! run to each thread whose timer is due or whose signal has arrived. Any number of workers, in any number of
//! processes, can share a store.
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
//! let store: Arc<dyn RunStore> = Arc::new(MemoryRuns::new());
//! let worker = Worker::new(store.clone()).graph("review", Review::compile().erase(|_| Ok(())));
//! let stop = hier_core::CancellationToken::new();
//! let working = tokio::spawn(worker.run_until(stop.clone()));
//!
//! let request = Request::input(serde_json::json!({ "accepted": false }));
//! let run = store.create_run(NewRun::new("case-17", "review", request).create_thread()).await?;
//! let mut changes = store.notifier().thread("case-17");
//! while store.run(run.id).await?.is_some_and(|run| run.status.is_live()) {
//!     changes.changed().await;
//! }
//! assert_eq!(store.run(run.id).await?.map(|run| run.status), Some(RunStatus::Success));
//!
//! stop.cancel();
//! working.await.expect("the worker has stopped");
//! # Ok(())
//! # }
//! ```

mod context;
mod detached;
mod drive;
mod due;
mod ending;
mod handle;
mod metrics;
mod prepare;
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

use context::WorkerContext;
pub use handle::Handle;
use handle::RunningWorker;
use hier_checkpoint::panics;
use hier_core::graph::DynGraph;
use hier_core::runs::{Claimed, Run, RunClaim, RunStore};
use hier_core::store::Store;

/// Maximum number of runs in one claim, so that other workers get their share.
const CLAIM_LIMIT: usize = 32;
const PAUSE: Duration = Duration::from_secs(1);

/// A worker, which claims the runs of its graphs from a store and executes them. [`run_until`](Self::run_until) starts
/// it.
#[must_use = "a worker does nothing until it runs"]
pub struct Worker(WorkerContext, Handle);

impl Worker {
    /// Creates a worker without graphs. The worker claims its runs from `store`.
    pub fn new(store: Arc<dyn RunStore>) -> Self {
        let shared = WorkerContext {
            store,
            graphs: BTreeMap::new(),
            memory: None,
            lease_duration: Duration::from_secs(30),
            poll_interval: Duration::from_secs(1),
            flush_interval: Duration::from_millis(10),
            max_attempts: 3,
            max_run_time: Duration::MAX,
            max_steps: usize::MAX,
            on_end: None,
            holder: format!("worker {}", std::process::id()),
            concurrency: 10,
        };
        Self(shared, Handle::default())
    }

    /// Returns a handle with which this process can add runs. If the worker has a free slot, it starts an added run at
    /// once.
    pub fn handle(&self) -> Handle {
        self.1.clone()
    }

    /// Adds a graph. The worker uses the graph for runs whose [`graph`](hier_core::runs::Run::graph) is `name`. Replaces an
    /// earlier graph with this name.
    pub fn graph(self, name: impl Into<String>, graph: impl DynGraph) -> Self {
        self.dyn_graph(name, Arc::new(graph))
    }

    /// Adds a shared graph. The worker uses the graph for runs whose [`graph`](hier_core::runs::Run::graph) is `name`.
    /// Replaces an earlier graph with this name.
    pub fn dyn_graph(mut self, name: impl Into<String>, graph: Arc<dyn DynGraph>) -> Self {
        self.0.graphs.insert(name.into(), graph);
        self
    }

    /// Sets the store of values that threads share. Nodes get the store from [`Run::store`](hier_core::Run::store).
    pub fn store(mut self, memory: Arc<dyn Store>) -> Self {
        self.0.memory = Some(memory);
        self
    }

    /// Sets the maximum number of runs that the worker executes at the same time. When a run has ended, the worker may
    /// start another run before it has stored the end of the first. Defaults to 10. 0 counts as 1.
    pub fn concurrency(mut self, runs: usize) -> Self {
        self.0.concurrency = runs.max(1);
        self
    }

    /// Sets the duration of a lease. If the worker dies, other workers take over its runs after this time. The worker
    /// renews each lease after a third of this time. Defaults to 30 seconds. A shorter time than 100 milliseconds
    /// counts as 100 milliseconds.
    pub fn lease_duration(mut self, duration: Duration) -> Self {
        self.0.lease_duration = duration.max(Duration::from_millis(100));
        self
    }

    /// Sets the interval at which the worker polls the store for new runs, cancellations and due threads. If the store
    /// sends a notification of a run or a cancellation, the worker looks earlier. Defaults to 1 second.
    pub fn poll_interval(mut self, interval: Duration) -> Self {
        self.0.poll_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// Sets the time for which the worker collects events of a run before it stores them together. If the run stores a
    /// checkpoint earlier, the worker stores the collected events with the checkpoint. With the durability `sync`, most
    /// events are stored with a checkpoint. Defaults to 10 milliseconds.
    pub fn flush_interval(mut self, interval: Duration) -> Self {
        self.0.flush_interval = interval;
        self
    }

    /// Sets the maximum number of attempts to execute a run. Defaults to 3. 0 counts as 1. If a worker dies during the
    /// last attempt, the run fails with the error `AttemptsExceeded`. If a worker returns a run to the queue, for
    /// example because the worker stops, the attempt does not count.
    ///
    /// The number also limits the attempts to continue a detached subagent from one checkpoint. An attempt counts if
    /// its worker died. The count includes the attempts of all runs that continue the subagent.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.0.max_attempts = attempts.max(1);
        self
    }

    /// Limits the time for which the worker executes a run. A run that takes longer ends with the status `timeout`. If
    /// another worker continues the run, the time starts again. The request can set a shorter limit with `timeout_ms`.
    /// Defaults to no limit.
    pub fn max_run_time(mut self, limit: Duration) -> Self {
        self.0.max_run_time = limit;
        self
    }

    /// Limits the number of supersteps of a run, even if the request has a higher `recursion_limit`. A run that needs
    /// more supersteps fails. By default, only the request's limit counts, or
    /// [`DEFAULT_RECURSION_LIMIT`](hier_core::DEFAULT_RECURSION_LIMIT) if the request has none. 0 counts as 1.
    pub fn max_steps(mut self, steps: usize) -> Self {
        self.0.max_steps = steps.max(1);
        self
    }

    /// Sets the name of the worker. Errors about the worker's leases contain this name. Defaults to `worker` and the id
    /// of the process.
    pub fn holder(mut self, holder: impl Into<String>) -> Self {
        self.0.holder = holder.into();
        self
    }

    /// Sets a function that the worker calls with each run that it has ended. At that time, the end of the run is
    /// stored, and the next run of the thread may have started. The function must not block.
    ///
    /// The worker does not call the function for a run that was rolled back, because such a run is deleted. If the
    /// worker dies before the call, the call is lost. To find all runs that have ended, use `runs` of [`RunStore`].
    pub fn on_end(mut self, on_end: impl Fn(&Run) + Send + Sync + 'static) -> Self {
        self.0.on_end = Some(Arc::new(on_end));
        self
    }

    /// Executes runs until the token is cancelled. Then the worker returns its runs to the queue and stops.
    ///
    /// If the future is dropped, other workers take over the runs when this worker's leases expire.
    pub async fn run_until(self, stop: CancellationToken) {
        panics::note_places();
        let (shared, handle) = (Arc::new(self.0), self.1);
        let (slots, runs) = (Arc::new(Semaphore::new(shared.concurrency)), TaskTracker::new());
        // If this future is dropped, the runs are dropped, too.
        let lost = CancellationToken::new();
        let _guard = lost.clone().drop_guard();
        let (own, counted) = (shared.clone(), runs.clone());
        let waiting = Arc::new(AtomicBool::new(false));
        let running = RunningWorker {
            shared: own,
            slots: slots.clone(),
            waiting: waiting.clone(),
            runs: counted,
            stop: stop.clone(),
            lost: lost.clone(),
        };
        let attachment = handle.attach(running);
        let mut bell = shared.store.notifier().runs();
        let _resuming = AbortOnDropHandle::new(tokio::spawn(due::run_until(shared.clone(), stop.clone())));
        loop {
            let Some(Ok(slot)) = stop.run_until_cancelled(slots.clone().acquire_owned()).await else { break };
            if stop.is_cancelled() {
                break;
            }
            // If no run is known to wait, half of the free slots stay for runs that start as they are added.
            let half = slots.available_permits() / 2;
            let more = if waiting.load(Ordering::Relaxed) { CLAIM_LIMIT - 1 } else { half.min(CLAIM_LIMIT - 1) };
            let free = std::iter::from_fn(|| slots.clone().try_acquire_owned().ok());
            let taken: Vec<_> = std::iter::once(slot).chain(free.take(more)).collect();
            let claimed = shared.claim(taken.len()).await;
            // If every slot got a run, more runs may wait.
            waiting.store(claimed.as_ref().is_ok_and(|claimed| claimed.len() == taken.len()), Ordering::Relaxed);
            match claimed {
                Ok(claimed) if claimed.is_empty() => {
                    drop(taken);
                    if stop.run_until_cancelled(timeout(shared.poll_interval, bell.changed())).await.is_none() {
                        break;
                    }
                }
                Ok(claimed) => {
                    for (claimed, slot) in claimed.into_iter().zip(taken) {
                        let (shared, stop, lost) = (shared.clone(), stop.clone(), lost.clone());
                        runs.spawn(async move {
                            lost.run_until_cancelled(Box::pin(drive::drive(&shared, claimed, slot, &stop))).await;
                        });
                    }
                }
                Err(error) => {
                    drop(taken);
                    tracing::warn!(%error, "failed to claim runs; trying again later");
                    stop.run_until_cancelled(tokio::time::sleep(PAUSE.min(shared.poll_interval))).await;
                }
            }
        }
        drop(attachment);
        runs.close();
        runs.wait().await;
    }
}

impl WorkerContext {
    async fn claim(&self, most: usize) -> Result<Vec<Claimed>, hier_core::runs::RunsError> {
        self.store.claim_runs(self.claim_of_one(), most).await
    }

    fn claim_of_one(&self) -> RunClaim {
        RunClaim::new(self.holder.clone(), self.lease_duration, self.graphs.keys().cloned())
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let graphs: Vec<_> = self.0.graphs.keys().collect();
        f.debug_struct("Worker").field("holder", &self.0.holder).field("graphs", &graphs).finish_non_exhaustive()
    }
}
