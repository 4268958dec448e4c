//! Updates of a dynamic state that were made with another schema. The engine refuses them before it stores anything.

use hier_core::checkpoint::MemorySaver;
use hier_core::prelude::*;
use hier_core::state::{DynUpdate, Schema};
use hier_core::{RunError, StateUpdate};
use serde_json::json;

use super::kit::*;

/// Returns an update whose first channel has the index of another channel, and one whose channel has an unknown index.
fn foreign() -> [DynUpdate; 2] {
    let schema = Schema::new().last("first").last("second").last("third");
    [json!({ "first": 1 }), json!({ "third": 3 })].map(|object| schema.update(object).expect("an update"))
}

#[track_caller]
fn assert_refused<T>(result: Result<T, RunError>) {
    let error = result.err().expect("the update has another schema").to_string();
    assert!(error.contains("was made with the schema of another state"), "{error}");
}

#[tokio::test]
async fn update_of_another_schema_from_outside_leaves_the_thread_as_it_was() {
    for update in foreign() {
        let bench = Bench::new(row(&["a"]));
        let graph = &bench.graph;
        let tally = Tally::default;
        assert_refused(graph.invoke(update.clone()).thread("t").context(tally()).await);
        assert_refused(graph.invoke(Command::update(update.clone())).thread("t").context(tally()).await);
        let known = graph.update(json!({ "x": 5 })).expect("an update");
        graph.invoke(known.clone()).thread("t").context(tally()).await.map(drop).expect("a run");
        assert_refused(graph.invoke(Command::update(update.clone())).thread("t").context(tally()).await);
        assert_refused(graph.update_state("t", StateUpdate::update(update.clone())).await);
        assert_refused(graph.update_state("t", StateUpdate::update(update.clone()).as_node("__input__")).await);
        let again = graph.invoke(known).thread("t").context(tally()).await.expect("the thread is readable");
        assert_eq!(again.state().to_value(), json!({ "x": 5, "log": ["a", "a"] }));
    }
}

#[tokio::test]
async fn node_with_an_update_of_another_schema_fails() {
    for update in foreign() {
        for nodes in [vec!["wrong"], vec!["wrong", "sibling"]] {
            let update = update.clone();
            let mut graph = builder().node("wrong", move |_: NodeTask| std::future::ready(update.clone()));
            for node in &nodes[1..] {
                graph = graph.node(*node, mark());
            }
            for node in nodes {
                graph = graph.edge(START, node).edge(node, END);
            }
            let graph = graph.compile().expect("a graph").checkpointer(MemorySaver::new());
            let input = || graph.update(json!({ "x": 5 })).expect("an update");
            assert_refused(graph.invoke(input()).thread("t").context(Tally::default()).await);
            assert_refused(graph.invoke(()).thread("t").context(Tally::default()).await);
            let state = graph.state("t").await.expect("the thread is readable");
            assert_eq!(state.values.get("x"), Some(&json!(5)));
        }
    }
}
