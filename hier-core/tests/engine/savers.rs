//! The saver in memory keeps the contract, and so does the store of runs.

use std::sync::Arc;
use std::time::Duration;

use hier_core::Durability;
use hier_core::checkpoint::{Checkpointer, MemorySaver, PendingWrite, slot};
use hier_core::graph::{GraphBuilder, NodeDef, Task};
use hier_core::prelude::*;
use hier_core::runs::{EventBuffering, MemoryRuns, NewRun, Request, RunClaim, RunLog, RunStore};
use hier_core::state::{Builtin, DynState, DynUpdate, Schema};
use hier_testkit::checkpoint as suite;
use serde_json::json;

#[tokio::test]
async fn memory_keeps_the_contract() {
    let report = suite::run_suite(async || Ok(MemorySaver::new())).await;
    assert!(report.passed(), "{report}");
}

/// Graphs hold savers behind an `Arc`.
#[tokio::test]
async fn saver_behind_an_arc_keeps_the_contract() {
    let report = suite::run_suite(async || Ok(Arc::new(MemorySaver::new()) as Arc<dyn Checkpointer>)).await;
    assert!(report.passed(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_memory_keep_the_contract() {
    let report = hier_testkit::runs::run_suite(async || Ok(MemoryRuns::new())).await;
    assert!(report.passed(), "{report}");
}

/// It is a saver too.
#[tokio::test]
async fn runs_in_memory_keep_the_contract_of_savers() {
    let report = suite::run_suite(async || Ok(MemoryRuns::new())).await;
    assert!(report.passed(), "{report}");
}

/// A possibly last commit waits for the end of the run. A failure with a handler is not the last.
#[tokio::test]
async fn failure_is_stored_before_its_handler_begins() {
    let store = Arc::new(MemoryRuns::new());
    let schema = Schema::new().reduced("log", Builtin::Append);
    let mut graph: GraphBuilder<DynState> = GraphBuilder::dynamic("desk", schema);
    let boom = NodeDef::task(|_: Task<DynState>| async move { Err::<DynUpdate, _>(NodeError::permanent("boom")) });
    let reads = store.clone();
    let handler = move |task: Task<DynState>| {
        let reads = reads.clone();
        async move {
            let stored = reads.get("t", "", None).await.expect("memory does not fail").expect("the input");
            let is_error = |write: &PendingWrite| write.slot == slot::ERROR;
            let is_stored = stored.writes.iter().any(|task| task.writes.iter().any(is_error));
            task.state().update(json!({ "log": [is_stored] }))
        }
    };
    graph = graph.node("a", boom.on_error(handler)).edge(START, "a").edge("a", END);
    let run = NewRun::new("t", "desk", Request::default()).create_thread();
    let run = store.driver().create_run(run).await.expect("a run");
    let claim = RunClaim::new("worker", Duration::from_secs(30), ["desk".to_owned()]);
    let claimed = store.driver().claim_run(claim).await.expect("memory does not fail").expect("the run");
    let log = RunLog::new(store.clone(), claimed.lease, Some(run.id), EventBuffering::WithCommits);
    let graph = graph.compile().expect("a graph").checkpointer(Arc::new(log));
    let input = graph.update(json!({ "log": ["in"] })).expect("an input");
    let config = Config::new().thread("t").durability(Durability::Sync);
    let end = graph.invoke(input).config(config).await.expect("the handler's end");
    assert_eq!(end.state().get("log"), Some(&json!(["in", true])));
}
