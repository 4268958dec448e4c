//! Calls that fail, that their clients cancel, or that take long.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::checkpoint::{Checkpointer, ListQuery, MemorySaver};
use hier_mcp::McpServer;
use serde_json::{Value, json};

use crate::{Office, Trip, call, post, serve, server};

graph! {
    /// Fails.
    pub(crate) Fail<Trip> = Graph { nodes: [fail], edges: [START >> fail >> END] }
}

async fn fail() -> Result<()> {
    Err("the office is closed".into())
}

/// Records of the jobs that a graph starts outside its process.
#[derive(Clone, Debug, Default)]
pub(crate) struct Jobs {
    pub(crate) begun: Arc<AtomicUsize>,
    cancelled: Arc<AtomicUsize>,
}

graph! {
    /// Waits for a job.
    pub(crate) Print<Trip, Jobs> = Graph { nodes: [print], edges: [START >> print >> END] }
}

async fn print(run: &Run<Jobs>) {
    let cancelled = run.context().cancelled.clone();
    run.context().begun.fetch_add(1, Ordering::SeqCst);
    let cancel = async move { _ = cancelled.fetch_add(1, Ordering::SeqCst) };
    run.with_cleanup(std::future::pending::<()>(), cancel).await;
}

/// Returns the threads that have checkpoints.
pub(crate) async fn threads(saver: &MemorySaver) -> BTreeSet<Arc<str>> {
    let listed = saver.list(ListQuery::default()).await.unwrap();
    listed.into_iter().map(|checkpoint| checkpoint.thread).collect()
}

/// Lets this time pass at once.
pub(crate) async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Waits up to 5 seconds for a condition.
pub(crate) async fn eventually(what: &str, mut is_true: impl AsyncFnMut() -> bool) {
    for _ in 0..1_000 {
        if is_true().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("not within 5 seconds: {what}");
}

/// Calls a tool, and disconnects when the call has begun.
async fn disconnect(url: &str, tool: &str, begun: &AtomicUsize) {
    tokio::select! {
        answer = call(url, json!({"name": tool, "arguments": {}})) => panic!("{answer}"),
        () = eventually("the call has begun", async || begun.load(Ordering::SeqCst) == 1) => {}
    }
}

#[tokio::test]
async fn thread_of_a_call_that_has_ended_is_deleted() {
    let (office, saver) = (Office::default(), MemorySaver::new());
    let url = serve(server(&office).graph("fail", Fail::compile(), ()).saver(saver.clone())).await;
    let failed = call(&url, json!({"name": "fail", "arguments": {}})).await;
    assert!(failed["result"]["content"][0]["text"].as_str().unwrap().contains("the office is closed"), "{failed}");
    assert_eq!(threads(&saver).await, BTreeSet::new());

    // The client does not support questions.
    let refused = post(&url, "tools/call", json!({"name": "book", "arguments": {"place": "Rome"}}), json!({})).await;
    assert_eq!(refused["error"]["code"], -32021, "{refused}");
    assert_eq!(threads(&saver).await, BTreeSet::new());

    office.begun.store(0, Ordering::SeqCst);
    disconnect(&url, "wait", &office.begun).await;
    eventually("the thread is deleted", async || threads(&saver).await.is_empty()).await;

    // The thread of an open question stays.
    call(&url, json!({"name": "book", "arguments": {"place": "Rome"}})).await;
    assert_eq!(threads(&saver).await.len(), 1);
}

#[tokio::test]
async fn cancelled_call_cancels_the_work_of_its_nodes() {
    let jobs = Jobs::default();
    let url = serve(McpServer::new().graph("print", Print::compile(), jobs.clone())).await;
    disconnect(&url, "print", &jobs.begun).await;
    eventually("the job is cancelled", async || jobs.cancelled.load(Ordering::SeqCst) == 1).await;
}

graph! {
    /// Reports its progress.
    Report<Trip> = Graph { nodes: [report, end], edges: [START >> report >> end >> END] }
}

async fn report(run: &Run) {
    for progress in [0, 50, 50, 100] {
        run.emit(json!({"progress": progress, "total": 100}));
    }
}

async fn end() {}

graph! {
    /// Reports the progress of each node.
    Twice<Trip> = Graph { nodes: [first = report, second = report], edges: [START >> first >> second >> END] }
}

#[tokio::test]
async fn progress_continues_when_the_next_node_counts_from_zero() {
    let url = serve(McpServer::new().graph("twice", Twice::compile(), ())).await;
    let events = crate::events(&url, "tools/call", json!({"name": "twice", "arguments": {}}), json!({})).await;
    let progress: Vec<_> = events.iter().map(|event| event["params"]["progress"].as_f64()).collect();
    assert_eq!(progress, [Some(0.0), Some(50.0), Some(100.0), Some(150.0), Some(200.0), None], "{events:?}");
    let totals: Vec<&Value> = events.iter().map(|event| &event["params"]["total"]).collect();
    assert_eq!(totals[2..4], [&json!(100.0), &Value::Null], "the total of one node");
}

#[tokio::test]
async fn progress_increases() {
    let url = serve(McpServer::new().graph("report", Report::compile(), ())).await;
    let events = crate::events(&url, "tools/call", json!({"name": "report", "arguments": {}}), json!({})).await;
    let progress: Vec<&Value> = events.iter().map(|event| &event["params"]["progress"]).collect();
    // The last event is the result.
    assert_eq!(progress, [&json!(0.0), &json!(50.0), &json!(100.0), &Value::Null], "{events:?}");
}
