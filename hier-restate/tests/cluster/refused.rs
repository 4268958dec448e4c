//! Requests about cluster runs that a server refuses by itself. They need no Restate server.

use std::sync::Arc;
use std::time::Duration;

use hier_core::CancellationToken;
use hier_core::graph::Runner as _;
use hier_core::prelude::*;
use hier_core::runs::{Cancel, MemoryRuns, NewRun, Request, RunClaim, RunStatus, RunStore};
use hier_restate::{Client, ClusterRunner, Hub};
use hier_worker::Worker;
use serde_json::json;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    n: u64,
}

async fn work(case: &Case) -> CaseUpdate {
    Case::update().n(case.n + 1)
}

graph! { Review<Case> = Graph { nodes: [work], edges: [START >> work >> END] } }

/// A worker has begun the run, so that the cluster may have done some of it, and is lost. The run is cancelled with a rollback.
#[tokio::test]
async fn rollback_of_a_run_on_a_cluster_is_refused_and_the_run_is_interrupted() {
    let store = Arc::new(MemoryRuns::new());
    let new = NewRun::new("t", "review", Request::input(json!({ "n": 1 }))).create_thread();
    let run = store.driver().create_run(new).await.expect("a run").id;
    let claim = RunClaim::new("a worker that is lost", Duration::from_millis(100), ["review"]);
    store.driver().claim_run(claim).await.expect("the store").expect("the run");
    let cancelled = store.driver().cancel_runs("t", &[run], Cancel::Rollback).await.expect("the store");
    assert_eq!(cancelled.len(), 1);

    // Nothing listens there.
    let client = Client::new("http://127.0.0.1:1").patience(Duration::from_millis(100));
    let hub = Hub::listen("127.0.0.1:0").await.expect("a free port");
    let graph = ClusterRunner::new(client, hub).graph("review", Arc::new(Review::compile().erase(|_| Ok(()))));
    let stop = CancellationToken::new();
    let worker = Worker::new(store.clone()).dyn_graph("review", graph).poll_interval(Duration::from_millis(20));
    let working = tokio::spawn(worker.run_until(stop.clone()));
    let ended = async {
        loop {
            let row = store.driver().run(run).await.expect("the store").expect("the run is not deleted");
            if !row.status.is_live() {
                break row;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let row = tokio::time::timeout(Duration::from_secs(30), ended).await.expect("it ends");
    assert_eq!(row.status, RunStatus::Interrupted);
    let failure = row.error.expect("why");
    assert_eq!(failure.error, "RollbackUnsupported");
    assert!(failure.message.contains("was cancelled and not rolled back"), "{}", failure.message);
    assert!(failure.message.contains("cancel such runs with `interrupt`"), "{}", failure.message);
    let thread = store.driver().thread("t").await.expect("the store").expect("the thread");
    assert_eq!(thread.error.map(|error| error.error).as_deref(), Some("RollbackUnsupported"));
    stop.cancel();
    working.await.expect("it stops");
}
