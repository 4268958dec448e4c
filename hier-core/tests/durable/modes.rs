//! When checkpoints are stored: each, in the background, once.

use hier_core::Durability;
use hier_core::checkpoint::{Checkpointer, ListQuery, MemorySaver};
use hier_core::graph::Checkpoints;
use hier_core::prelude::*;
use hier_core::state::DynState;
use serde_json::{Value, json};

use super::faulty::Faulty;
use super::kit::*;

#[tokio::test]
async fn exit_durability_stores_one_checkpoint() {
    let mut bench = Bench::new(row(&["a", "b", "c"]));
    bench.config = bench.config.durability(Durability::Exit);
    assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    assert_eq!(bench.tree().await, [json!([null, "loop", 3, [], ["a", "b", "c"]])]);
    assert!(bench.start(json!({ "x": 2 })).await.unwrap().is_finished());
    let both =
        [json!([null, "loop", 3, [], ["a", "b", "c"]]), json!([0, "loop", 8, [], ["a", "b", "c", "a", "b", "c"]])];
    assert_eq!(bench.tree().await, both);
    assert_eq!(bench.state().await.values.to_value()["x"], 2);
}

/// Nothing is stored before the end, and a run that dies has left nothing.
#[tokio::test]
async fn exit_durability_stores_nothing_before_the_end() {
    let saver = MemorySaver::new();
    let mut bench = Bench::on(row(&["a", "b", "c"]), Faulty::new(&saver, 0));
    bench.config = bench.config.durability(Durability::Exit);
    let error = bench.start(json!({ "x": 1 })).await.unwrap_err();
    assert!(error.to_string().contains("the process has died"), "{error}");
    assert_eq!(bench.tally.all(), json!({ "a": 1, "b": 1, "c": 1 }), "all of it ran");
    assert!(bench.stored().await.is_none());
}

/// A synchronous run never proceeds beyond its stored state.
#[tokio::test]
async fn sync_run_stops_at_a_failed_commit() {
    for commits in 1..4 {
        let saver = MemorySaver::new();
        let mut bench = Bench::on(row(&["a", "b", "c"]), Faulty::new(&saver, commits));
        bench.config = bench.config.durability(Durability::Sync);
        bench.start(json!({ "x": 1 })).await.unwrap_err();
        let names: Vec<Value> = ["a", "b", "c"].iter().take(commits).map(|name| json!(name)).collect();
        let ran: Vec<&str> = ["a", "b", "c"].into_iter().filter(|name| bench.tally.of(name) > 0).collect();
        assert_eq!(json!(ran), json!(names), "the step that could not be stored is the last");
        assert_eq!(log_of(&bench.state().await), json!(names[..commits - 1]));
    }
}

/// A graph that keeps its state, or stops, has not returned anything yet: the writes of its steps are kept with it.
#[tokio::test]
async fn exit_durability_keeps_writes_of_subgraphs() {
    for checkpoints in [Checkpoints::PerCall, Checkpoints::PerThread] {
        for durability in [Durability::Sync, Durability::Exit] {
            let mut inner = marks(&["a", "b", "c"]);
            inner = inner.node("ask", asks(&["q"])).edge(START, "a").edge("a", "b").edge("b", "ask").edge("ask", "c");
            let mut outer = marks(&["z"]);
            outer = outer
                .subgraph("sub", &compile(inner))
                .checkpoints("sub", checkpoints)
                .edge(START, "sub")
                .edge("sub", "z");
            let mut bench = Bench::new(outer);
            bench.config = bench.config.durability(durability);
            assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["q"], "{durability:?} {checkpoints:?}");
            let end = bench.answer("yes").await.unwrap();
            assert_eq!(log(end), json!(["a", "b", "yes", "c", "z"]), "{durability:?} {checkpoints:?}");
            let ran = json!({ "a": 1, "b": 1, "ask": 2, "c": 1, "z": 1 });
            assert_eq!(bench.tally.all(), ran, "{durability:?} {checkpoints:?}");
        }
    }
}

/// The error of a node in a subgraph is reported, whatever was stored before.
#[tokio::test]
async fn error_of_an_inner_node_is_reported() {
    for durability in [Durability::Sync, Durability::Exit] {
        let mut inner = marks(&["a", "b"]);
        inner = inner.node("fails", fails(1)).edge(START, "a").edge("a", "b").edge("b", "fails");
        let mut outer = builder();
        outer = outer.subgraph("sub", &compile(inner)).edge(START, "sub");
        let mut bench = Bench::new(outer);
        bench.config = bench.config.durability(durability);
        let error = bench.start(json!({ "x": 1 })).await.unwrap_err();
        assert!(error.to_string().contains("boom"), "{durability:?}: {error}");
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "b", "fails"]), "{durability:?}");
        assert_eq!(bench.tally.all(), json!({ "a": 1, "b": 1, "fails": 2 }), "{durability:?}");
    }
}

/// At the end of a run everything is stored, whatever the mode; and the threads are the same but for their history.
#[tokio::test]
async fn durabilities_store_equal_results() {
    let mut latest = Vec::new();
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let saver = MemorySaver::new();
        let mut graph = marks(&["a", "b", "z"]);
        graph =
            graph.node("ask", asks(&["q"])).edge(START, "a").edge("a", "b").edge("a", "ask").join(["b", "ask"], "z");
        let mut bench = Bench::on(graph, Faulty::new(&saver, usize::MAX));
        bench.config = bench.config.durability(durability);
        let _ = bench.start(json!({ "x": 1, "log": ["in"] })).await.unwrap();
        let open = bench.state().await;
        assert_eq!((open.step, &open.next, log_of(&open)), (1, &vec!["ask".to_owned()], json!(["in", "a", "b"])));
        assert_eq!(log(bench.answer("A").await.unwrap()), json!(["in", "a", "A", "b", "z"]));
        assert_eq!(bench.tally.all(), json!({ "a": 1, "ask": 2, "b": 1, "z": 1 }), "{durability:?}");
        let state = bench.state().await;
        latest.push((state.step, state.source, state.values.to_value(), state.next));
    }
    assert!(latest.iter().all(|state| *state == latest[0]), "{latest:?}");
}

/// A long list that grows over many steps and several runs is read back unchanged in every durability.
#[tokio::test]
async fn long_list_is_stored_in_parts() {
    for durability in [Durability::Sync, Durability::Exit] {
        let mut graph = marks(&[]);
        graph =
            graph.node("grow", does(|task| Ok(json!({ "x": 1, "log": [format!("{:>40}", task.run().superstep())] }))));
        graph = graph.edge(START, "grow");
        graph = graph.route("grow", "again", [("again", vec!["grow"]), ("end", vec![])], |state: &DynState| {
            let length = state.get("log").and_then(Value::as_array).map_or(0, Vec::len);
            if length.is_multiple_of(60) { "end" } else { "again" }
        });
        let mut bench = Bench::new(graph);
        bench.config = bench.config.durability(durability);
        for run in 1..=3 {
            let end = log(bench.start(json!({ "x": 1 })).await.unwrap());
            assert_eq!(end.as_array().map(Vec::len), Some(60 * run));
            assert_eq!(log_of(&bench.state().await), end, "{durability:?}");
        }
        let history = bench.history().await;
        for (place, at) in history.iter().enumerate().skip(1) {
            let (before, now) = (log_of(&history[place - 1]), log_of(at));
            let (before, now) = (before.as_array().cloned().unwrap(), now.as_array().cloned().unwrap());
            assert!(now.starts_with(&before), "{durability:?}: at {place}");
        }
    }
}

#[tokio::test]
async fn durable_run_needs_a_thread() {
    let graph = compile(row(&["a"])).checkpointer(MemorySaver::new());
    let input = graph.update(json!({ "x": 1 })).unwrap();
    let error = graph.invoke(input).context(Tally::default()).await.unwrap_err();
    assert!(matches!(&error, RunError::NoThread { graph } if graph == "case"), "{error}");
    let graph = compile(row(&["a"]));
    let error = graph.state("t").await.unwrap_err();
    assert!(matches!(error, RunError::NoCheckpointer { .. }), "{error}");
    // A durability without a saver is of no effect.
    let input = graph.update(json!({ "x": 1 })).unwrap();
    let config = Config::new().thread("t").durability(Durability::Sync);
    assert!(graph.invoke(input).config(config).context(Tally::default()).await.unwrap().is_finished());
}

/// The metadata of a run is in each of its checkpoints, including those of subgraphs.
#[tokio::test]
async fn run_metadata_is_stored() {
    let mut graph = marks(&["b"]);
    graph = graph.subgraph("sub", &compile(row(&["a"]))).edge(START, "sub").edge("sub", "b");
    let mut bench = Bench::new(graph);
    bench.config = bench.config.clone().run_id("r1").metadata("customer", 7);
    assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    let all = ListQuery { thread: Some("t".to_owned()), ..ListQuery::default() };
    let listed = bench.saver.list(all).await.unwrap();
    assert!(listed.iter().any(|at| !at.namespace.is_empty()));
    for at in listed {
        let metadata = &at.checkpoint.metadata;
        assert_eq!((&metadata["run_id"], &metadata["customer"]), (&json!("r1"), &json!(7)), "{}", at.namespace);
        assert_eq!(at.checkpoint.parents.is_empty(), at.namespace.is_empty());
    }
}
