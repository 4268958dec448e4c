//! Runs that a worker does, and that a second worker finishes after the first was killed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hier_core::CancellationToken;
use hier_core::checkpoint::{Checkpointer, ListQuery, ThreadAdmin};
use hier_core::graph::NodeDef;
use hier_core::prelude::*;
use hier_core::runs::{MemoryRuns, NewRun, Request, Run as RunRow, RunStatus, RunStore};
use hier_worker::Worker;
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::kit::*;

/// A subgraph that asks. After the answer its node can hang.
fn asking(hangs: &Arc<AtomicBool>) -> Compiled {
    let hangs = hangs.clone();
    let mut inner = marks(&["i"]);
    let asks = NodeDef::task(move |task: NodeTask| {
        let hangs = hangs.clone();
        async move {
            let answer: Value = task.run().interrupt(&"q?").await?;
            task.run().context().hit("answered");
            if hangs.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            task.state().update(json!({ "log": [answer] }))
        }
    });
    inner = inner.node("asks", asks).edge(START, "i").edge("i", "asks");
    let mut outer = marks(&["a", "z"]);
    outer = outer.subgraph("sub", &compile(inner)).edge(START, "a").edge("a", "sub").edge("sub", "z");
    compile(outer)
}

struct Desk {
    store: Arc<MemoryRuns>,
    hangs: Arc<AtomicBool>,
    tally: Tally,
}

impl Desk {
    fn new() -> Self {
        Self { store: Arc::new(MemoryRuns::new()), hangs: Arc::default(), tally: Tally::default() }
    }

    /// A worker, which is killed when this is dropped.
    fn works(&self) -> tokio_util::task::AbortOnDropHandle<()> {
        let tally = self.tally.clone();
        let graph = asking(&self.hangs).erase(move |_| Ok(tally.clone()));
        let worker = Worker::new(self.store.clone()).graph("desk", graph);
        let worker = worker.lease_duration(Duration::from_millis(200)).poll_interval(Duration::from_millis(10));
        tokio_util::task::AbortOnDropHandle::new(tokio::spawn(worker.run_until(CancellationToken::new())))
    }

    async fn ended(&self, run: Uuid) -> RunRow {
        loop {
            let row = self.store.driver().run(run).await.expect("the store").expect("the run");
            if !row.status.is_live() {
                return row;
            }
            sleep(Duration::from_millis(5)).await;
        }
    }
}

#[tokio::test]
async fn answer_to_a_subgraph_is_consumed_once_across_kills() {
    let desk = Desk::new();
    let first = desk.works();
    let new = NewRun::new("t", "desk", Request::input(json!({ "x": 1 }))).create_thread();
    let asked = desk.store.driver().create_run(new).await.expect("a run").id;
    desk.ended(asked).await;
    let listed = desk.store.list(ListQuery { namespace: None, ..ListQuery::thread("t") }).await.expect("a list");
    let call = listed.into_iter().find(|listed| listed.namespace.starts_with("sub:")).expect("a call");

    desk.hangs.store(true, Ordering::SeqCst);
    let mut request = Request::command(json!({ "resume": "yes" }));
    request.checkpoint = Some(call.checkpoint.id);
    request.checkpoint_ns = call.namespace.to_string();
    let answer = desk.store.driver().create_run(NewRun::new("t", "desk", request)).await.expect("a run").id;
    while desk.tally.of("answered") == 0 {
        sleep(Duration::from_millis(5)).await;
    }
    drop(first);
    desk.hangs.store(false, Ordering::SeqCst);
    let _second = desk.works();
    let ended = desk.ended(answer).await;
    assert_eq!((ended.status, ended.error), (RunStatus::Success, None));
    let log = ended.output.map(|output| output["values"]["log"].clone());
    assert_eq!(log, Some(json!(["a", "i", "yes", "z"])));
}

#[tokio::test]
async fn metadata_of_callers_does_not_replace_the_engines() {
    let desk = Desk::new();
    let _worker = desk.works();
    let mut new = NewRun::new("t", "desk", Request::input(json!({ "x": 1 }))).create_thread();
    new.assistant = Some("clerk".to_owned());
    let said = json!({ "run_id": "x", "graph_id": "x", "assistant_id": "x", "own": "y" });
    new.metadata = said.as_object().cloned().expect("an object");
    let run = desk.store.driver().create_run(new).await.expect("a run").id;
    desk.ended(run).await;
    let listed = desk.store.list(ListQuery { namespace: None, ..ListQuery::thread("t") }).await.expect("a list");
    assert!(!listed.is_empty());
    for listed in listed {
        let metadata = &listed.checkpoint.metadata;
        let of = |name: &str| metadata.get(name).cloned().unwrap_or_default();
        let engine = [of("run_id"), of("graph_id"), of("assistant_id"), of("own")];
        assert_eq!(engine, [json!(run.to_string()), json!("desk"), json!("clerk"), json!("y")]);
    }
    desk.store.delete_for_runs(&[run.to_string()]).await.expect("deleted");
    assert!(desk.store.get("t", "", None).await.expect("a checkpoint").is_none());
}
