//! Endless runs whose nodes never wait can be stopped and do not block other tasks.

use std::sync::Arc;
use std::time::Duration;

use hier_core::prelude::*;
use hier_core::runs::{Cancel, MemoryRuns, NewRun, Request, Run, RunStatus, RunStore};
use hier_core::{CancellationToken, Durability};
use hier_worker::Worker;
use serde_json::json;
use uuid::Uuid;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    n: u64,
}

/// Never waits for anything.
async fn count(count: &Count) -> CountUpdate {
    Count::update().n(count.n + 1)
}

fn never(count: &Count) -> bool {
    count.n == u64::MAX
}

graph! { Endless<Count> = Graph { nodes: [count], edges: [START >> count >> if never { END } else { count }] } }

async fn ends() {}

graph! { Short<Count> = Graph { nodes: [ends], edges: [START >> ends >> END] } }

/// A request for a run without limits.
fn endless() -> Request {
    let mut request = Request::input(json!({ "n": 0 }));
    request.config.insert("recursion_limit".to_owned(), u32::MAX.into());
    request
}

async fn row(store: &MemoryRuns, run: Uuid) -> Run {
    store.driver().run(run).await.expect("the store").expect("the run")
}

/// Waits until a run has this status.
async fn until(store: &MemoryRuns, run: Uuid, status: RunStatus) -> Run {
    let reached = async {
        loop {
            let row = row(store, run).await;
            if row.status == status {
                break row;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(SOON, reached).await.unwrap_or_else(|_| panic!("it is not {status:?}"))
}

/// The longest that anything of these runs may be waited for.
const SOON: Duration = Duration::from_secs(20);

/// Endless runs that never wait are cancelled, free their slots, and do not delay runs of other threads.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_runs_are_stopped_and_delay_no_others() {
    let store = Arc::new(MemoryRuns::new());
    let stop = CancellationToken::new();
    let worker = Worker::new(store.clone()).concurrency(11).poll_interval(Duration::from_millis(100));
    let worker = worker.graph("endless", Endless::compile().erase(|_| Ok(())));
    let worker = worker.graph("short", Short::compile().erase(|_| Ok(())));
    let working = tokio::spawn(worker.run_until(stop.clone()));
    let mut runs = Vec::new();
    for number in 0..10 {
        let mut request = endless();
        // Every second one is stored only at its end.
        request.durability = if number % 2 == 0 { Durability::Exit } else { Durability::Async };
        let new = NewRun::new(format!("t{number}"), "endless", request).create_thread();
        runs.push(store.driver().create_run(new).await.expect("a run").id);
    }
    for run in &runs {
        until(&store, *run, RunStatus::Running).await;
    }
    let new = NewRun::new("other", "short", Request::input(json!({ "n": 0 }))).create_thread();
    let other = store.driver().create_run(new).await.expect("a run").id;
    until(&store, other, RunStatus::Success).await;
    for (number, run) in runs.iter().enumerate().take(5) {
        store.driver().cancel_runs(&format!("t{number}"), &[*run], Cancel::Interrupt).await.expect("it is cancelled");
        until(&store, *run, RunStatus::Interrupted).await;
    }
    stop.cancel();
    tokio::time::timeout(SOON, working).await.expect("the worker stops").expect("without a panic");
    for run in &runs[5..] {
        assert_eq!(row(&store, *run).await.status, RunStatus::Pending, "it is requeued");
    }
}

#[tokio::test]
async fn worker_limits_steps_and_time_of_a_run() {
    type Bounded = (fn(Worker) -> Worker, RunStatus);
    let bounded: [Bounded; 2] = [
        (|worker| worker.max_steps(100), RunStatus::Error),
        (|worker| worker.max_run_time(Duration::from_millis(200)), RunStatus::Timeout),
    ];
    for (bound, status) in bounded {
        let store = Arc::new(MemoryRuns::new());
        let stop = CancellationToken::new();
        let worker = Worker::new(store.clone()).graph("endless", Endless::compile().erase(|_| Ok(())));
        let working = tokio::spawn(bound(worker).run_until(stop.clone()));
        let new = NewRun::new("t", "endless", endless()).create_thread();
        let run = store.driver().create_run(new).await.expect("a run").id;
        let ended = until(&store, run, status).await;
        let is_limit = ended.error.as_ref().is_some_and(|error| error.error == "GraphRecursionError");
        assert_eq!(is_limit, status == RunStatus::Error, "{:?}", ended.error);
        stop.cancel();
        working.await.expect("it stops");
    }
}
