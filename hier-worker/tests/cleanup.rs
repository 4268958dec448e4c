//! Cleanups of runs that a worker executes: a cancelled run and a deleted one are given up, others continue elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::prelude::*;
use hier_core::runs::{Cancel, MemoryRuns, NewRun, Request, Run as RunRow, RunStore};
use hier_core::{CancellationToken, Result};
use hier_worker::Worker;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    n: u64,
}

#[derive(Default)]
struct Jobs {
    begun: Notify,
    cancelled: AtomicUsize,
}

async fn waits(run: &Run<Arc<Jobs>>) -> Result<CaseUpdate> {
    let jobs = run.context().clone();
    jobs.begun.notify_one();
    let cancel = async move {
        jobs.cancelled.fetch_add(1, Ordering::SeqCst);
    };
    run.with_cleanup(std::future::pending::<()>(), cancel).await;
    Ok(Case::update())
}

graph! { Waits<Case, Arc<Jobs>> = Graph { nodes: [waits], edges: [START >> waits >> END] } }

/// A worker with one run, which waits for a job.
struct Working {
    store: Arc<MemoryRuns>,
    run: RunRow,
    jobs: Arc<Jobs>,
    stop: CancellationToken,
    worker: JoinHandle<()>,
}

impl Working {
    async fn start() -> Self {
        Self::start_with(Duration::from_millis(300)).await
    }

    async fn start_with(lease_duration: Duration) -> Self {
        let (store, stop, jobs) = (Arc::new(MemoryRuns::new()), CancellationToken::new(), Arc::new(Jobs::default()));
        let context = jobs.clone();
        let worker = Worker::new(store.clone())
            .graph("waits", Waits::compile().erase(move |_| Ok(context.clone())))
            .lease_duration(lease_duration);
        let worker = tokio::spawn(worker.run_until(stop.clone()));
        let new = NewRun::new("t", "waits", Request::input(json!({"n": 1}))).create_thread();
        let run = store.driver().create_run(new).await.unwrap();
        jobs.begun.notified().await;
        Self { store, run, jobs, stop, worker }
    }

    /// Stops the worker, and returns the number of jobs that were cancelled.
    async fn end(self) -> usize {
        self.stop.cancel();
        self.worker.await.unwrap();
        self.jobs.cancelled.load(Ordering::SeqCst)
    }

    async fn until_cancelled(&self) {
        while self.jobs.cancelled.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn cancelled_run_is_given_up() {
    for action in [Cancel::Interrupt, Cancel::Rollback] {
        let working = Working::start().await;
        working.store.driver().cancel_runs("t", &[working.run.id], action).await.unwrap();
        working.until_cancelled().await;
        assert_eq!(working.end().await, 1);
    }
}

#[tokio::test]
async fn run_of_a_worker_that_stops_continues_elsewhere() {
    let working = Working::start().await;
    let (store, run) = (working.store.clone(), working.run.id);
    assert_eq!(working.end().await, 0);
    assert!(store.driver().run(run).await.unwrap().unwrap().status.is_live());
}

#[tokio::test]
async fn run_of_a_deleted_thread_is_given_up() {
    // The worker does not wait until it renews the lease.
    for lease_duration in [Duration::from_millis(300), Duration::from_hours(24)] {
        let working = Working::start_with(lease_duration).await;
        assert!(working.store.driver().remove_thread("t").await.unwrap());
        working.until_cancelled().await;
        assert_eq!(working.end().await, 1);
    }
}
