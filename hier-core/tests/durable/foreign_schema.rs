//! Updates of a dynamic state that were made with another schema. The engine refuses them before it stores anything.

use hier_core::checkpoint::MemorySaver;
use hier_core::prelude::*;
use hier_core::state::{Builtin, DynUpdate, Schema};
use hier_core::{RunError, StateUpdate};
use serde_json::{Value, json};

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

/// Schemas whose channel `x` or `log` has the name and the place of the graph's, with the difference in words.
fn similar() -> [(Schema, &'static str, &'static str); 6] {
    let custom = |_: &mut Value, _: Value| Ok(());
    [
        (Schema::new().ephemeral("x"), "x", "channel `x` is ephemeral there, and keeps the last value here"),
        (Schema::new().untracked("x"), "x", "channel `x` is untracked there, and keeps the last value here"),
        (
            Schema::new().reduced("x", Builtin::Sum),
            "x",
            "channel `x` has the reducer `sum` there, and keeps the last value here",
        ),
        (
            Schema::new().last("x").reduced("log", Builtin::Extend),
            "log",
            "channel `log` has the reducer `extend` there, and has the reducer `append` here",
        ),
        (
            Schema::new().last("x").reduced_with("log", json!([]), custom),
            "log",
            "channel `log` has a custom reducer there, and has the reducer `append` here",
        ),
        (Schema::new().last("log"), "log", "channel `log` has another place in the schema here"),
    ]
}

#[tokio::test]
async fn update_of_a_similar_schema_is_refused_with_the_difference() {
    for (schema, channel, difference) in similar() {
        let bench = Bench::new(row(&["a"]));
        let update = schema.update(json!({ channel: [1] })).expect("an update");
        let error = bench.graph.invoke(update.clone()).thread("t").context(Tally::default()).await.unwrap_err();
        assert!(error.to_string().contains(difference), "{error}");
        assert!(bench.history().await.is_empty());
        let graph = builder().node("wrong", move |_: NodeTask| std::future::ready(update.clone()));
        let bench = Bench::new(graph.edge(START, "wrong"));
        let error = bench.start(json!({ "x": 5 })).await.unwrap_err();
        assert!(error.to_string().contains(difference), "{error}");
        assert_eq!(bench.state().await.values.to_value(), json!({ "x": 5, "log": [] }));
    }
    // An equal schema is not another one, also if it was built separately.
    let bench = Bench::new(row(&["a"]));
    let update = schema().update(json!({ "x": 1, "log": ["own"] })).expect("an update");
    let end = bench.graph.invoke(update).thread("t").context(Tally::default()).await.expect("a run");
    assert_eq!(end.state().to_value(), json!({ "x": 1, "log": ["own", "a"] }));
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
