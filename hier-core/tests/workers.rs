//! What happens beside a run that a worker does.

use std::sync::Arc;
use std::time::Duration;

use hier_core::CancellationToken;
use hier_core::prelude::*;
use hier_core::runs::{MemoryRuns, NewRun, Request, RunStatus, RunStore};
use hier_core::worker::Worker;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    n: u64,
}

/// Keeps its thread to itself, as one that calculates.
async fn step(count: &Count) -> CountUpdate {
    std::thread::sleep(Duration::from_millis(250));
    Count::update().n(count.n + 1)
}

fn more(count: &Count) -> bool {
    count.n < 24
}

graph! { Busy<Count> = Graph {
    nodes: [step],
    edges: [START >> step >> if more { step } else { END }],
} }

/// Such a run never waits for anything, so that what is polled beside it does not get its turn: its lease ran out, it was begun again
/// and again, and failed with `AttemptsExceeded`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_run_that_never_waits_keeps_its_lease() {
    let store = Arc::new(MemoryRuns::new());
    let stop = CancellationToken::new();
    let mut working = Vec::new();
    for name in ["one", "two"] {
        let worker = Worker::new(store.clone()).graph("busy", Busy::compile().erase(|_| Ok(())));
        let worker = worker.holder(name).lease(Duration::from_secs(3)).poll(Duration::from_millis(100));
        working.push(tokio::spawn(worker.run_until(stop.clone())));
    }
    let mut changes = store.bell().thread("t");
    let new = NewRun::new("t", "busy", Request::input(json!({ "n": 0 }))).create_thread();
    let run = store.create_run(new).await.expect("a run").id;
    let ended = loop {
        let row = store.run(run).await.expect("the store").expect("the run");
        if !row.status.is_live() {
            break row;
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), changes.rung()).await;
    };
    assert_eq!((ended.status, ended.attempts), (RunStatus::Success, 1), "{:?}", ended.error);
    stop.cancel();
    for worker in working {
        worker.await.expect("it stops");
    }
}
