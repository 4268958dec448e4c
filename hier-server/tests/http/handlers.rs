//! Nodes that fail, and whose error handlers take over.

use std::sync::Arc;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::Result;
use hier_core::checkpoint::Source;
use hier_core::runs::{
    LogEvent, LoggedCheckpoint, MemoryRuns, NewEvent, RunClaim, RunCommit, RunStore, TaskEvent, TaskPhase,
};
use hier_core::store::MemoryStore;
use hier_server::Server;
use reqwest::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::graphs::{Line, LineUpdate};
use crate::support::{Desk, SentEvent, open, said};

graph! {
    /// Fails, and the handler takes over.
    Careful<Line> = Graph { nodes: [risky { on_error: rescue }], edges: [START >> risky >> END] }
}

async fn risky() -> Result<LineUpdate> {
    Err(NodeError::permanent("too risky"))
}

async fn rescue() -> LineUpdate {
    Line::update().log(["rescued".to_owned()])
}

graph! {
    /// Fails, and the handler asks.
    Cautious<Line> = Graph { nodes: [risky { on_error: consult }], edges: [START >> risky >> END] }
}

async fn consult(run: &Run) -> Result<LineUpdate> {
    let answer: String = run.interrupt(&json!("what now?")).await?;
    Ok(Line::update().log([answer]))
}

async fn careful() -> Desk {
    open(Server::new().graph("careful", Careful::compile(), ()).graph("cautious", Cautious::compile(), ())).await
}

fn body(graph: &str, modes: &[&str]) -> Value {
    json!({ "assistant_id": graph, "input": { "n": 1.0 }, "stream_mode": modes })
}

/// Returns the events of tasks: the name, the error, and true at the start.
fn tasks<'a>(events: impl IntoIterator<Item = &'a Value>) -> Vec<(Value, Value, bool)> {
    let task = |task: &Value| (task["name"].clone(), task["error"].clone(), task["triggers"].is_array());
    events.into_iter().map(task).collect()
}

#[tokio::test]
async fn mode_events_reports_the_end_of_a_handler_once() {
    let desk = careful().await;
    let thread = desk.thread().await;
    let events = desk.stream(&thread, body("careful", &["events", "tasks"])).await;
    let tasks = tasks(said(&events, "tasks"));
    let handler = "__error_handler__risky";
    assert_eq!(tasks[0], (json!("risky"), Value::Null, true));
    assert_eq!(tasks[1], (json!("risky"), json!("too risky"), false));
    assert_eq!(tasks[2..], [(json!(handler), Value::Null, false)]);

    let of_nodes: Vec<&Value> =
        said(&events, "events").into_iter().filter(|event| event["parent_ids"] != json!([])).collect();
    let names: Vec<_> = of_nodes.iter().map(|event| (&event["event"], &event["name"])).collect();
    let (start, chunk, end) = (json!("on_chain_start"), json!("on_chain_stream"), json!("on_chain_end"));
    let (risky, handler) = (json!("risky"), json!(handler));
    assert_eq!(names, [(&start, &risky), (&chunk, &handler), (&end, &handler)]);
    let end = of_nodes[2];
    assert_eq!(end["run_id"], of_nodes[0]["run_id"], "the handler ends in place of the node");
    assert_eq!(end["data"], json!({ "input": of_nodes[0]["data"]["input"], "output": { "log": ["rescued"] } }));
    assert_eq!(end["metadata"]["langgraph_triggers"], json!(["branch:to:risky"]));
    desk.stop().await;
}

/// The script `live.mjs` tests how the studio counts these events.
#[tokio::test]
async fn studio_receives_the_end_of_a_handler_once() {
    let desk = careful().await;
    let thread = desk.thread().await;
    let path = format!("/studio/api/threads/{thread}/events?after=0");
    let mut open = desk.send(Method::GET, &path, &Value::Null).await;
    let mut text = String::new();
    let mut task_events = async |ends: usize| {
        let is_end = |event: &&SentEvent| event.data["mode"] == "end";
        let events = desk.until(&mut open, &mut text, |received| received.iter().filter(is_end).count() == ends).await;
        let of_tasks = events.iter().filter(|event| event.data["mode"] == "tasks").map(|event| &event.data["data"]);
        of_tasks.cloned().collect::<Vec<Value>>()
    };
    desk.stream(&thread, body("cautious", &["tasks"])).await;
    let asked = task_events(1).await;
    let resume = json!({ "assistant_id": "cautious", "command": { "resume": "stop" }, "stream_mode": ["tasks"] });
    desk.stream(&thread, resume).await;
    let all = task_events(2).await;
    let (risky, handler) = (json!("risky"), json!("__error_handler__risky"));
    assert_eq!(
        tasks(&asked),
        [
            (risky.clone(), Value::Null, true),
            (risky.clone(), json!("too risky"), false),
            (handler.clone(), Value::Null, false)
        ]
    );
    assert_eq!(asked[2]["interrupts"][0]["value"], "what now?");
    assert_eq!(tasks(&all[3..]), [(risky, Value::Null, true), (handler, Value::Null, false)]);
    let ids: std::collections::BTreeSet<String> = all.iter().map(|task| task["id"].to_string()).collect();
    assert_eq!(ids.len(), 1, "all have the id of the task");
    desk.stop().await;
}

/// The process of the node was killed before the end of the node was stored. In the next process, only the handler runs.
#[tokio::test]
async fn handler_ends_the_subgraph_of_its_node_under_the_name_of_the_node() {
    let store = MemoryRuns::new();
    let served = crate::graphs::server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()));
    let desk = open(served.without_worker()).await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}");
    assert_eq!(desk.post(&format!("{path}/runs"), json!({ "assistant_id": "sub", "input": {} })).await.0, 200);
    let claim = RunClaim::new("a worker", Duration::from_mins(1), ["sub"]);
    let claimed = store.driver().claim_run(claim).await.expect("a store").expect("the run");
    let (run, task) = (claimed.run.id, Uuid::from_u128(1));
    let phase = TaskPhase::Finished { result: json!({}), error: None, interrupts: Vec::new() };
    let ended = TaskEvent { id: task, node: "__error_handler__child".to_owned(), step: 1, phase };
    let checkpoint = LoggedCheckpoint {
        id: task,
        parent: None,
        step: 1,
        source: Source::Loop,
        values: json!({}),
        next: vec!["next".to_owned()],
    };
    let events = vec![
        NewEvent::new(run, LogEvent::Values(json!({ "n": 1 }))).namespace(vec![format!("child:{task}")]),
        NewEvent::new(run, LogEvent::Task(ended)),
        NewEvent::new(run, LogEvent::Checkpoint(checkpoint)),
    ];
    store.driver().commit_run(&claimed.lease, RunCommit::events(events)).await.expect("they are stored");
    let request = json!({ "channels": ["lifecycle", "checkpoints"] });
    let mut open = desk.send(Method::POST, &format!("{path}/stream/events"), &request).await;
    let mut text = String::new();
    let of_child = |received: &[SentEvent]| {
        let lifecycle = said(received, "lifecycle").into_iter().map(|event| &event["params"]);
        let of_child = lifecycle.filter(|params| params["namespace"] != json!([])).map(|params| &params["data"]);
        of_child.map(|data| (data["event"].clone(), data["graph_name"].clone())).collect::<Vec<_>>()
    };
    let received = desk.until(&mut open, &mut text, |received| of_child(received).len() == 2).await;
    let (started, completed, child) = (json!("started"), json!("completed"), json!("child"));
    assert_eq!(of_child(&received), [(started, child.clone()), (completed, child)]);
    desk.stop().await;
}
