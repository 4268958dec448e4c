//! Tasks on other workers that take messages or wait for times.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hier_core::Result;
use hier_core::graph::DynInput;
use hier_core::prelude::*;
use hier_restate::{Error, FanOut};
use serde_json::json;

use crate::limits::until;
use crate::support::serve;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[reducer(append)]
    receipts: Vec<String>,
    #[reducer(append)]
    done: Vec<String>,
}

graph! {
    Pays<Desk> = Graph {
        nodes: [seed, pay],
        edges: [START >> seed >> for item in items { pay(item) }, pay >> END],
    }
}

async fn seed() {}

fn items(_: &Desk) -> Vec<u64> {
    vec![1, 2]
}

async fn pay(Sent(_item): Sent<u64>, run: &Run) -> Result<DeskUpdate> {
    let receipt: String = run.signal("paid").await?;
    Ok(Desk::update().receipts([receipt]))
}

graph! {
    Waits<Desk, Arc<AtomicBool>> = Graph {
        nodes: [nap, fail, rest],
        edges: [START >> [nap, fail, rest] >> END],
    }
}

async fn nap(run: &Run<Arc<AtomicBool>>) -> Result<DeskUpdate> {
    run.sleep(Duration::from_millis(300)).await?;
    Ok(Desk::update().done(["nap"]))
}

/// Fails in its first run.
async fn fail(run: &Run<Arc<AtomicBool>>) -> Result<DeskUpdate> {
    if run.context().swap(true, Ordering::SeqCst) {
        return Ok(Desk::update().done(["fail"]));
    }
    Err(NodeError::permanent("not yet"))
}

async fn rest(run: &Run<Arc<AtomicBool>>) -> Result<DeskUpdate> {
    run.sleep(Duration::from_hours(1)).await?;
    Ok(Desk::update().done(["rest"]))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn one_signal_reaches_one_of_several_remote_tasks() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Pays::compile(), ()).fan_out(FanOut::Remote(2))).await;
    assert!(graph.signal("p", "paid", &"first", None).await.unwrap());
    let run = graph.invoke(DynInput::New(json!({}))).thread("p");
    let end = tokio::time::timeout(Duration::from_mins(1), run).await.expect("the run ends").unwrap();
    assert!(!end.is_finished(), "the second task waits for another signal");
    assert!(graph.signal("p", "paid", &"second", None).await.unwrap());
    until(&graph, "p", |state| state.next.is_empty()).await;
    assert_eq!(graph.state("p").await.unwrap().values["receipts"], json!(["first", "second"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn timer_of_a_remote_task_rings_after_another_task_has_failed() {
    let failed = Arc::new(AtomicBool::new(false));
    let graph = serve(|endpoint, name| endpoint.graph(name, Waits::compile(), failed).fan_out(FanOut::Remote(2))).await;
    let config = Config::new().thread("t").sleep_in_place(Duration::ZERO);
    let error = graph.invoke(DynInput::New(json!({}))).config(config).await.unwrap_err();
    assert!(matches!(&error, Error::Run(failure) if failure.kind == "NodeError"), "{error}");
    until(&graph, "t", |state| state.next == ["rest"]).await;
}
