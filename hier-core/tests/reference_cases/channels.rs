//! Channels: initial values, overwrites and lifetimes.

use std::sync::{Arc, Mutex};

use hier_core::graph::{NodeDef, Task};
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynState, DynUpdate, Overwrite, Schema};
use serde_json::{Value, json};

use super::{error, marks, over, run, writes};

type Seen = Arc<Mutex<Vec<Value>>>;

/// A node that notes the state that it sees, and writes this.
fn notes(seen: &Seen, update: Value) -> NodeDef<DynState> {
    let seen = seen.clone();
    NodeDef::task(move |task: Task<DynState>| {
        seen.lock().expect("no test panics here").push(task.state().to_value());
        let update = task.state().update(update.clone());
        async move { update }
    })
}

fn noted(seen: &Seen) -> Vec<Value> {
    seen.lock().expect("no test panics here").clone()
}

/// Differs: a run in which nothing was written ends with the current state, not with null.
#[tokio::test]
async fn reduced_channels_start_empty_and_plain_ones_without_a_value() {
    let seen = Seen::default();
    let mut graph = over(Schema::new().last("a").reduced("l", Builtin::Append).reduced("i", Builtin::Sum));
    graph = graph.node("n", notes(&seen, json!({}))).edge(START, "n");
    assert_eq!(run(graph, json!({})).await, json!({ "l": [], "i": 0 }));
    assert_eq!(noted(&seen), [json!({ "l": [], "i": 0 })]);
}

fn overwrites(value: Value) -> NodeDef<DynState> {
    NodeDef::task(move |task: Task<DynState>| {
        let update = DynUpdate::default().write(task.state().schema(), "log", Overwrite(value.clone()));
        async move { update }
    })
}

#[tokio::test]
async fn overwrite_voids_the_other_writes_of_its_step() {
    let mut graph = marks(&["a", "m"]);
    graph = graph.node("z", overwrites(json!(["ow"]))).edge(START, "a").edge(START, "z").edge(START, "m");
    assert_eq!(run(graph, json!({ "x": 1, "log": ["i"] })).await, json!({ "x": 1, "log": ["ow"] }));
}

#[tokio::test]
async fn two_overwrites_of_one_channel_conflict() {
    let mut graph = marks(&[]);
    graph = graph.node("a", overwrites(json!([1]))).node("b", overwrites(json!([2]))).edge(START, "a").edge(START, "b");
    let error = error(graph, json!({ "x": 1 })).await;
    assert!(matches!(&error, RunError::Conflict { channel, .. } if channel == "log"), "{error}");
}

#[tokio::test]
async fn ephemeral_channels_and_topics_expire_and_others_last() {
    let seen = Seen::default();
    let schema = Schema::new().untracked("u").ephemeral("e").topic("tp", false).topic("ta", true).last("x");
    let mut graph = over(schema);
    graph = graph.node("u1", notes(&seen, json!({ "u": "U", "e": "E", "tp": ["t1"], "ta": ["q1"] })));
    graph = graph.node("u2", notes(&seen, json!({ "x": 2 })));
    graph = graph.node("u3", notes(&seen, json!({ "ta": ["q2", "q3"] })));
    graph = graph.edge(START, "u1").edge("u1", "u2").edge("u2", "u3");
    let end = run(graph, json!({ "x": 1, "u": "in", "e": "ine" })).await;
    let expected = [
        json!({ "u": "in", "e": "ine", "x": 1 }),
        json!({ "u": "U", "e": "E", "tp": ["t1"], "ta": ["q1"], "x": 1 }),
        json!({ "u": "U", "ta": ["q1"], "x": 2 }),
    ];
    assert_eq!(noted(&seen), expected);
    assert_eq!(end, json!({ "u": "U", "ta": ["q1", "q2", "q3"], "x": 2 }));
}

#[tokio::test]
async fn topics_take_plain_items_and_lists() {
    let schema = Schema::new().topic("tp", false).topic("ta", true).last("x");
    let mut graph = over(schema);
    graph = graph.node("a", writes(json!({ "ta": "q1", "tp": { "k": 1 } }))).node("b", writes(json!({ "ta": ["q2"] })));
    graph = graph.node("c", writes(json!({ "ta": null, "tp": "t1" }))).node("d", writes(json!({ "tp": [[1], "t2"] })));
    graph = graph.edge(START, "a").edge(START, "b").edge("a", "c").edge("a", "d");
    let end = run(graph, json!({ "x": 1, "ta": "q0" })).await;
    assert_eq!(end, json!({ "x": 1, "ta": ["q0", "q1", "q2", null], "tp": ["t1", [1], "t2"] }));
}

#[tokio::test]
async fn empty_step_clears_ephemeral_channels() {
    let seen = Seen::default();
    let mut graph = over(Schema::new().ephemeral("e").last("x"));
    graph = graph.node("a", writes(json!({ "e": 1 }))).node("b", writes(json!({}))).node("c", notes(&seen, json!({})));
    graph = graph.edge(START, "a").edge("a", "b").edge("b", "c");
    run(graph, json!({ "x": 1 })).await;
    assert_eq!(noted(&seen), [json!({ "x": 1 })]);
}
