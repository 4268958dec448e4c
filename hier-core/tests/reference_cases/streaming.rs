//! Events and their order.

use hier_core::graph::Task;
use hier_core::prelude::*;
use hier_core::state::DynState;
use serde_json::{Value, json};

use super::{compile, events, mark, marks, writes};

/// The events as `[mode, data]`.
fn pairs(events: &[Value]) -> Vec<Value> {
    events.iter().map(|event| json!([event["type"], event["data"]])).collect()
}

#[tokio::test]
async fn values_come_after_the_updates_of_their_step() {
    let mut graph = marks(&["b"]);
    graph = graph.node("a", writes(json!({ "log": ["a"], "x": 2 }))).edge(START, "a").edge("a", "b");
    let modes = [StreamMode::Values, StreamMode::Updates];
    let events = events(&compile(graph), json!({ "x": 1 }), Config::default(), &modes).await;
    let expected = [
        json!(["values", { "x": 1, "log": [] }]),
        json!(["updates", { "a": { "log": ["a"], "x": 2 } }]),
        json!(["values", { "x": 2, "log": ["a"] }]),
        json!(["updates", { "b": { "log": ["b"] } }]),
        json!(["values", { "x": 2, "log": ["a", "b"] }]),
    ];
    assert_eq!(pairs(&events), expected);
}

/// The part of a `tasks` event that does not differ from run to run.
fn task(mut data: Value) -> Value {
    if let Some(object) = data.as_object_mut() {
        object.remove("id");
        object.remove("triggers");
    }
    data
}

/// Without its checkpoints, which need a saver.
#[tokio::test]
async fn all_modes_have_one_order() {
    let mut graph = marks(&["b"]);
    graph = graph.node("a", async |task: Task<DynState>| {
        task.run().emit(json!({ "c": 1 }));
        task.state().update(json!({ "log": ["a"] }))
    });
    graph = graph.edge(START, "a").edge("a", "b");
    let modes = [StreamMode::Values, StreamMode::Updates, StreamMode::Custom, StreamMode::Tasks];
    let events = events(&compile(graph), json!({ "x": 1 }), Config::default(), &modes).await;
    let events: Vec<Value> = events.iter().map(|event| json!([event["type"], task(event["data"].clone())])).collect();
    let result = |name: &str| json!({ "name": name, "error": null, "result": { "log": [name] }, "interrupts": [] });
    let expected = [
        json!(["values", { "x": 1, "log": [] }]),
        json!(["tasks", { "name": "a", "input": { "x": 1, "log": [] } }]),
        json!(["custom", { "c": 1 }]),
        json!(["updates", { "a": { "log": ["a"] } }]),
        json!(["tasks", result("a")]),
        json!(["values", { "x": 1, "log": ["a"] }]),
        json!(["tasks", { "name": "b", "input": { "x": 1, "log": ["a"] } }]),
        json!(["updates", { "b": { "log": ["b"] } }]),
        json!(["tasks", result("b")]),
        json!(["values", { "x": 1, "log": ["a", "b"] }]),
    ];
    assert_eq!(events, expected);
}

#[tokio::test]
async fn node_that_writes_nothing_has_a_null_update_and_no_values() {
    let mut graph = marks(&[]);
    graph = graph.node("n", async |_: Task<DynState>| {}).node("m", writes(json!({}))).edge(START, "n").edge("n", "m");
    let modes = [StreamMode::Values, StreamMode::Updates];
    let events = events(&compile(graph), json!({ "x": 1 }), Config::default(), &modes).await;
    let expected = [
        json!(["values", { "x": 1, "log": [] }]),
        json!(["updates", { "n": null }]),
        json!(["updates", { "m": null }]),
    ];
    assert_eq!(pairs(&events), expected);
}

/// Without `interrupts` next to the values: those are a separate event.
#[tokio::test]
async fn event_as_json_has_type_namespace_and_data() {
    let mut graph = marks(&[]);
    graph = graph.node("a", mark("a")).edge(START, "a");
    let modes = [StreamMode::Values, StreamMode::Updates];
    let events = events(&compile(graph), json!({ "x": 1 }), Config::default(), &modes).await;
    let expected = [
        json!({ "type": "values", "ns": [], "data": { "x": 1, "log": [] } }),
        json!({ "type": "updates", "ns": [], "data": { "a": { "log": ["a"] } } }),
        json!({ "type": "values", "ns": [], "data": { "x": 1, "log": ["a"] } }),
    ];
    assert_eq!(events, expected);
}
