//! Graphs as nodes of others.

use hier_core::Result;
use hier_core::graph::Task;
use hier_core::prelude::*;
use hier_core::state::{DynState, DynUpdate};
use serde_json::{Value, json};

use super::{Compiled, compile, error, events, marks, run};

/// A graph of one node that logs its name.
fn one(name: &str) -> Compiled {
    let mut graph = marks(&[name]);
    graph = graph.edge(START, name);
    compile(graph)
}

/// Differs: the child returns its writes, not its whole state (`p1` occurs once).
#[tokio::test]
async fn child_returns_its_writes() {
    let mut graph = marks(&["p1"]);
    graph = graph.subgraph("sub", &one("s1")).edge(START, "p1").edge("p1", "sub");
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": ["p1", "s1"] }));
}

/// Differs: children that do not write a plain channel do not collide on it.
#[tokio::test]
async fn children_conflict_only_on_common_writes() {
    let mut graph = marks(&[]);
    graph = graph.subgraph("A", &one("s")).subgraph("B", &one("s")).edge(START, "A").edge(START, "B");
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": ["s", "s"] }));
}

#[tokio::test]
async fn command_for_the_parent_drops_the_writes_of_the_child() {
    let mut child = marks(&["first"]);
    child = child.node("s1", async |task: Task<DynState>| -> Result<Command<DynState>> {
        let command = Command::update(task.state().update(json!({ "log": ["up"] }))?).goto("p2");
        Ok(command.parent())
    });
    child = child.edge(START, "first").edge("first", "s1");
    let mut graph = marks(&["p2", "p3"]);
    graph = graph.subgraph("sub", &compile(child)).goto("sub", ["p2"]).edge(START, "sub").edge("sub", "p3");
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": ["up", "p2", "p3"] }));
}

#[tokio::test]
async fn root_has_no_parent() {
    let mut graph = marks(&["b"]);
    graph = graph.node("a", async |_: Task<DynState>| Command::<DynState>::new().goto("b").parent::<DynState>());
    graph = graph.edge(START, "a");
    let error = error(graph, json!({ "x": 1 })).await;
    assert!(matches!(&error, RunError::Parent { node, .. } if node == "a"), "{error}");
}

/// The events' namespaces without the ids of tasks, with their payloads.
fn placed(events: &[Value]) -> Vec<Value> {
    let name = |level: &Value| level.as_str().and_then(|level| level.split(':').next()).map(str::to_owned);
    let namespace = |event: &Value| event["ns"].as_array().into_iter().flatten().filter_map(name).collect::<Vec<_>>();
    events.iter().map(|event| json!([namespace(event), event["data"]])).collect()
}

/// Differs: the update of the child's node has the child's writes, not its whole state.
#[tokio::test]
async fn events_of_subgraphs_have_their_namespace() {
    let mut graph = marks(&["p1"]);
    graph = graph.subgraph("sub", &one("s1")).edge(START, "p1").edge("p1", "sub");
    let config = Config::new().stream_subgraphs(true);
    let events = events(&compile(graph), json!({ "x": 1 }), config, &[StreamMode::Updates]).await;
    let expected = [
        json!([[], { "p1": { "log": ["p1"] } }]),
        json!([["sub"], { "s1": { "log": ["s1"] } }]),
        json!([[], { "sub": { "log": ["s1"] } }]),
    ];
    assert_eq!(placed(&events), expected);
}

#[tokio::test]
async fn question_in_a_subgraph_is_reported_at_each_level() {
    let mut child = marks(&["s1"]);
    child = child.node("s2", async |task: Task<DynState>| -> Result<DynUpdate> {
        let answer: Value = task.run().interrupt(&"sq").await?;
        task.state().update(json!({ "log": [answer] }))
    });
    child = child.edge(START, "s1").edge("s1", "s2");
    let mut graph = marks(&[]);
    graph = graph.subgraph("sub", &compile(child)).edge(START, "sub");
    let config = Config::new().stream_subgraphs(true);
    let events = events(&compile(graph), json!({ "x": 1 }), config, &[StreamMode::Updates]).await;
    let short = |event: &Value| {
        let asked = event[1]["__interrupt__"][0]["value"].clone();
        json!([event[0].as_array().map(Vec::len), if asked.is_null() { event[1].clone() } else { asked }])
    };
    let short: Vec<Value> = placed(&events).iter().map(short).collect();
    assert_eq!(short, [json!([1, { "s1": { "log": ["s1"] } }]), json!([1, "sq"]), json!([0, "sq"])]);
}

/// The payload is the child's input, merged into its own empty state.
#[tokio::test]
async fn child_starts_from_its_payload() {
    let mut child = super::builder();
    child = child.node("i", super::tells(|task| task.state().get("x").cloned().unwrap_or_default())).edge(START, "i");
    let mut graph = marks(&["a"]);
    graph = graph.subgraph("sub", &compile(child)).edge(START, "a");
    graph = graph.each("a", "items", "sub", |_: &DynState| [json!({ "x": 7, "other": 1 }), json!({ "log": ["sent"] })]);
    // LangGraph also returns the payload, hier only the child's writes.
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": ["a", 7, null] }));
}
