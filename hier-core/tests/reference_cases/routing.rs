//! Routes: the state that they see, and their targets.

use std::sync::{Arc, Mutex};

use hier_core::graph::{EdgeEnd, Task};
use hier_core::prelude::*;
use hier_core::state::DynState;
use serde_json::{Value, json};

use super::{error, input, marks, run, tells, writes};

#[tokio::test]
async fn route_sees_the_writes_of_its_own_node_only() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut graph = marks(&["b"]);
    graph = graph.node("a", writes(json!({ "log": ["a"], "x": 5 }))).edge(START, "a").edge(START, "b");
    let notes = seen.clone();
    graph = graph.route("a", "look", [("end", vec![EdgeEnd::End])], move |state: &DynState| {
        notes.lock().expect("no test panics here").push(state.to_value());
        "end"
    });
    run(graph, json!({ "x": 0 })).await;
    assert_eq!(*seen.lock().expect("no test panics here"), [json!({ "log": ["a"], "x": 5 })]);
}

#[tokio::test]
async fn target_named_twice_runs_once() {
    let mut graph = marks(&["a", "b"]);
    let arm = ("both", vec![EdgeEnd::from("b"), EdgeEnd::from("b"), EdgeEnd::End]);
    graph = graph.edge(START, "a").route("a", "pick", [arm], |_: &DynState| "both");
    assert_eq!(run(graph, json!({ "x": 0 })).await["log"], json!(["a", "b"]));
}

#[tokio::test]
async fn node_reached_by_edges_and_a_send_runs_for_each() {
    let mut graph = marks(&["a"]);
    graph = graph.node("b", tells(|task| input(task)["x"].clone())).edge(START, "a").edge("a", "b");
    graph = graph.route("a", "pick", [("b", vec!["b"])], |_: &DynState| "b");
    graph = graph.each("a", "items", "b", |_: &DynState| [json!({ "x": "sent" })]);
    assert_eq!(run(graph, json!({ "x": 0 })).await["log"], json!(["a", 0, "sent"]));
}

/// Differs: LangGraph ignores a target that is not a node. Here the run fails with an error. Of the other parts, no target
/// at all and a Send to END cannot be written.
#[tokio::test]
async fn route_must_choose_one_of_its_arms() {
    let mut graph = marks(&["a"]);
    graph = graph.edge(START, "a").route("a", "pick", [("q", vec!["a"])], |_: &DynState| "zz");
    let error = error(graph, json!({ "x": 1 })).await;
    assert!(
        error.to_string().contains("the node's route `pick` chose `zz`, which is not an arm of the route"),
        "{error}"
    );
}

/// Differs: an unknown channel is an error. The other parts cannot be written, but for a node that returns nothing.
#[tokio::test]
async fn unknown_channels_are_refused_and_empty_updates_accepted() {
    let mut graph = marks(&[]);
    graph = graph.node("a", writes(json!({ "zz": 1 }))).edge(START, "a");
    let error = error(graph, json!({ "x": 1 })).await;
    assert!(error.to_string().contains("there is no channel `zz`"), "{error}");

    let mut graph = marks(&[]);
    graph = graph.node("a", async |_: Task<DynState>| {}).edge(START, "a");
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": [] }));
}

/// Differs: LangGraph drops the goto with a warning.
#[tokio::test]
async fn goto_must_lead_to_a_node() {
    let mut graph = marks(&["b"]);
    graph = graph.node("a", async |_: Task<DynState>| Command::<DynState>::new().goto("bb")).edge(START, "a");
    let error = error(graph, Value::Null).await;
    assert!(
        error.to_string().contains("the node's command goes to `bb`, which is not a node; did you mean `b`?"),
        "{error}"
    );
}
