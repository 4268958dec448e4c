//! In which order tasks run, and their writes are applied.

use hier_core::graph::Task;
use hier_core::prelude::*;
use hier_core::state::DynState;
use serde_json::{Value, json};

use super::{Builder, input, mark, marks, payloads, run, tells, writes};

#[tokio::test]
async fn writes_are_applied_by_name() {
    let mut graph = marks(&["zeta", "alpha", "mid"]);
    graph = graph.edge(START, "zeta").edge(START, "alpha").edge(START, "mid");
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": ["alpha", "mid", "zeta"] }));
}

#[tokio::test]
async fn sends_come_after_edges_in_the_order_they_were_sent() {
    let mut graph = marks(&["src", "pull"]);
    graph = graph.node("w", tells(|task| json!(format!("w{}", input(task)["i"]))));
    graph = graph.edge(START, "src").edge("src", "pull");
    graph = graph.each("src", "items", "w", |_: &DynState| [json!({ "i": 2 }), json!({ "i": 1 })]);
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": ["src", "pull", "w2", "w1"] }));
}

#[tokio::test]
async fn sends_are_ordered_by_number_not_text() {
    let mut graph = marks(&[]);
    graph = graph.node("w", tells(|task| input(task)["i"].clone()));
    graph = graph.each(START, "items", "w", |_: &DynState| (0..12).map(|i| json!({ "i": i })));
    let log: Vec<i32> = (0..12).collect();
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": log }));
}

#[tokio::test]
async fn sends_of_several_nodes_are_ordered_by_the_senders_name() {
    let mut graph = marks(&["b2", "a1"]);
    graph = graph.node("w", tells(|task| input(task)["i"].clone()));
    graph = graph.edge(START, "b2").edge(START, "a1");
    graph = graph.each("b2", "items", "w", |_: &DynState| [json!({ "i": "fromb" })]);
    graph = graph.each("a1", "items", "w", |_: &DynState| [json!({ "i": "froma" })]);
    assert_eq!(run(graph, json!({ "x": 1 })).await, json!({ "x": 1, "log": ["a1", "b2", "froma", "fromb"] }));
}

#[tokio::test]
async fn diamond_meets_once() {
    let mut graph = marks(&["a", "b", "c", "d"]);
    graph = graph.edge(START, "a").edge("a", "b").edge("a", "c").edge("b", "d").edge("c", "d");
    assert_eq!(run(graph, json!({ "x": 0 })).await["log"], json!(["a", "b", "c", "d"]));
}

/// a → {b → b2, c}.
fn uneven() -> Builder {
    let mut graph = marks(&["a", "b", "b2", "c", "d"]);
    graph = graph.edge(START, "a").edge("a", "b").edge("a", "c").edge("b", "b2");
    graph
}

#[tokio::test]
async fn plain_edges_of_uneven_branches_meet_twice() {
    let mut graph = uneven();
    graph = graph.edge("b2", "d").edge("c", "d");
    assert_eq!(run(graph, json!({ "x": 0 })).await["log"], json!(["a", "b", "c", "b2", "d", "d"]));
}

#[tokio::test]
async fn join_waits_for_all() {
    let mut graph = uneven();
    graph = graph.join(["b2", "c"], "d");
    assert_eq!(run(graph, json!({ "x": 0 })).await["log"], json!(["a", "b", "c", "b2", "d"]));
}

#[tokio::test]
async fn deferred_node_runs_when_nothing_else_is_left() {
    let mut graph = uneven();
    graph = graph.edge("b2", "d").edge("c", "d").defer("d");
    assert_eq!(run(graph, json!({ "x": 0 })).await["log"], json!(["a", "b", "c", "b2", "d"]));
}

#[tokio::test]
async fn deferred_node_does_not_wait_for_sends() {
    let mut graph = marks(&["a", "w2", "d"]);
    graph = graph.node("w", mark("w")).edge("w", "w2").edge(START, "a").edge("a", "d").defer("d");
    graph = graph.each("a", "items", "w", |_: &DynState| [json!({}), json!({})]);
    let updates = payloads(&super::compile(graph), json!({ "x": 0 }), StreamMode::Updates).await;
    let nodes: Vec<&String> = updates.iter().filter_map(Value::as_object).flat_map(serde_json::Map::keys).collect();
    assert_eq!(nodes, ["a", "w", "w", "d", "w2"]);
}

#[tokio::test]
async fn join_without_one_of_its_sources_never_fires() {
    let mut graph = marks(&["a", "b", "c"]);
    graph = graph.edge(START, "a").join(["a", "b"], "c");
    assert_eq!(run(graph, json!({ "x": 0 })).await, json!({ "x": 0, "log": ["a"] }));
}

#[tokio::test]
async fn goto_adds_to_the_edges() {
    let mut graph = marks(&["b", "c"]);
    graph = graph.node("a", async |task: Task<DynState>| -> hier_core::Result<Command<DynState>> {
        Ok(Command::update(task.state().update(json!({ "log": ["a"] }))?).goto("c"))
    });
    graph = graph.edge(START, "a").edge("a", "b");
    assert_eq!(run(graph, json!({ "x": 0 })).await["log"], json!(["a", "b", "c"]));
}

#[tokio::test]
async fn two_writers_of_a_plain_channel_conflict() {
    let mut graph = marks(&[]);
    graph = graph.node("a", writes(json!({ "x": 1 }))).node("b", writes(json!({ "x": 1 })));
    graph = graph.edge(START, "a").edge(START, "b");
    let error = super::error(graph, json!({ "x": 0 })).await;
    assert!(matches!(&error, RunError::Conflict { channel, .. } if channel == "x"), "{error}");
}
