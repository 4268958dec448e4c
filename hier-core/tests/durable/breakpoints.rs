//! Stopping before and after nodes, and going on.

use hier_core::graph::EdgeEnd;
use hier_core::prelude::*;
use hier_core::state::DynState;
use hier_core::{Durability, Event, RunControl, StopReason};
use serde_json::{Value, json};

use super::kit::*;

fn stop(outcome: Outcome<DynState>) -> (StopReason, Vec<String>) {
    match outcome {
        Outcome::Stopped(stopped) => (stopped.reason, stopped.next),
        other => panic!("it has not stopped: {other:?}"),
    }
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// The events of a run in the modes of values and updates.
async fn events_of(bench: &Bench, input: Option<Value>) -> Vec<Value> {
    let (modes, config) = ([StreamMode::Values, StreamMode::Updates], bench.config.clone());
    let mut stream = match input {
        Some(input) => bench.graph.stream(bench.update(input)).config(config).context(bench.tally.clone()).modes(modes),
        None => bench.graph.stream(()).config(config).context(bench.tally.clone()).modes(modes),
    };
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        let event: Event<DynState> = event.unwrap();
        let event = event.to_json().unwrap();
        events.push(json!([event["type"], event["data"]]));
    }
    events
}

#[tokio::test]
async fn run_stops_before_a_node() {
    let mut graph = row(&["a", "b", "c"]);
    graph = graph.interrupt_before(["b"]);
    let bench = Bench::new(graph);
    let expected = json!([
        ["values", { "x": 1, "log": [] }],
        ["updates", { "a": { "log": ["a"] } }],
        ["values", { "x": 1, "log": ["a"] }],
        ["updates", { "__interrupt__": [] }],
    ]);
    assert_eq!(Value::Array(events_of(&bench, Some(json!({ "x": 1 }))).await), expected);
    assert_eq!(bench.state().await.next, ["b"]);
    let expected = json!([
        ["values", { "x": 1, "log": ["a"] }],
        ["updates", { "b": { "log": ["b"] } }],
        ["values", { "x": 1, "log": ["a", "b"] }],
        ["updates", { "c": { "log": ["c"] } }],
        ["values", { "x": 1, "log": ["a", "b", "c"] }],
    ]);
    assert_eq!(Value::Array(events_of(&bench, None).await), expected);
}

#[tokio::test]
async fn run_stops_after_a_node_and_after_the_last_node() {
    let mut graph = row(&["a", "b", "c"]);
    graph = graph.interrupt_after(["b", "c"]);
    let bench = Bench::new(graph);
    let stopped = stop(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(stopped, (StopReason::After(texts(&["b"])), texts(&["c"])));
    let stopped = stop(bench.continue_run().await.unwrap());
    assert_eq!(stopped, (StopReason::After(texts(&["c"])), texts(&[])));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "b", "c"]));
}

#[tokio::test]
async fn breakpoints_after_and_before_adjacent_nodes_are_one_stop() {
    let mut graph = row(&["a", "b"]);
    graph = graph.interrupt_after(["a"]).interrupt_before(["b"]);
    let bench = Bench::new(graph);
    let _ = stop(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(bench.state().await.next, ["b"]);
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "b"]));
}

/// Breakpoints of a run replace those of the graph, even with an empty list.
#[tokio::test]
async fn breakpoints_of_a_run_apply_to_it_only() {
    let mut graph = row(&["a", "b", "c"]);
    graph = graph.interrupt_before(["b"]);
    let mut bench = Bench::new(graph);
    let plain = bench.config.clone();
    bench.config = plain.clone().interrupt_before(["c"]);
    assert_eq!(stop(bench.start(json!({ "x": 1 })).await.unwrap()).1, ["c"]);
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "b", "c"]));
    let none: [&str; 0] = [];
    bench.config = plain.clone().interrupt_before(none);
    assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    bench.config = plain.interrupt_after(["bb"]);
    let error = bench.start(json!({ "x": 1 })).await.unwrap_err();
    assert!(matches!(&error, RunError::Config(text) if text.contains("`bb`") && text.contains("`b`")), "{error}");
}

/// A step stops as a whole, and a loop stops each time.
#[tokio::test]
async fn loop_stops_in_each_iteration() {
    let mut graph = marks(&["a", "sibling"]);
    graph = graph.edge(START, "a").edge(START, "sibling");
    graph = graph.route(
        "a",
        "again",
        [("yes", vec![EdgeEnd::from("a")]), ("no", vec![EdgeEnd::End])],
        |state: &DynState| {
            let done = state.get("log").and_then(Value::as_array).map_or(0, Vec::len);
            if done < 4 { "yes" } else { "no" }
        },
    );
    graph = graph.interrupt_before(["a"]);
    let bench = Bench::new(graph);
    assert_eq!(stop(bench.start(json!({ "x": 1 })).await.unwrap()).1, ["a", "sibling"]);
    assert_eq!(bench.tally.all(), json!({}), "nothing of the step ran");
    assert_eq!(stop(bench.continue_run().await.unwrap()).1, ["a"]);
    assert_eq!(stop(bench.continue_run().await.unwrap()).1, ["a"]);
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "sibling", "a", "a"]));
}

#[tokio::test]
async fn breakpoint_stops_sends() {
    let mut graph = marks(&["seed", "work"]);
    graph = graph.edge(START, "seed").each("seed", "items", "work", |_| [1, 2]).interrupt_before(["work"]);
    let bench = Bench::new(graph);
    assert_eq!(stop(bench.start(json!({ "x": 1 })).await.unwrap()).1, ["work", "work"]);
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["seed", "work", "work"]));
}

/// A breakpoint, an update from outside, another direction.
#[tokio::test]
async fn command_at_a_breakpoint_is_applied() {
    let mut graph = row(&["a", "b"]);
    graph = graph.node("other", mark()).interrupt_before(["b"]);
    let bench = Bench::new(graph);
    let _ = stop(bench.start(json!({ "x": 1 })).await.unwrap());
    let command = Command::update(bench.update(json!({ "x": 5 }))).goto("other");
    let end = bench.command(command).await.unwrap();
    assert_eq!(end.state().to_value(), json!({ "x": 5, "log": ["a", "b", "other"] }));
}

#[tokio::test]
async fn drained_thread_continues() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let control = RunControl::new();
        let drains = control.clone();
        let mut graph = marks(&["n"]);
        graph = graph.node(
            "d",
            does(move |_| {
                drains.request_drain("sig");
                Ok(json!({ "log": ["d"] }))
            }),
        );
        graph = graph.edge(START, "d").edge("d", "n");
        let mut bench = Bench::new(graph);
        let plain = bench.config.clone().durability(durability);
        bench.config = plain.clone().control(control);
        let stopped = stop(bench.start(json!({ "x": 1 })).await.unwrap());
        assert_eq!(stopped, (StopReason::Drained("sig".to_owned()), texts(&["n"])));
        bench.config = plain;
        assert_eq!(bench.state().await.next, ["n"], "{durability:?}");
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["d", "n"]), "{durability:?}");
    }
}

#[tokio::test]
async fn breakpoints_stop_runs_without_a_saver() {
    let mut graph = row(&["a", "b"]);
    graph = graph.interrupt_before(["b"]);
    let graph = compile(graph);
    let input = graph.update(json!({ "x": 1 })).unwrap();
    let outcome = graph.invoke(input).context(Tally::default()).await.unwrap();
    assert_eq!(stop(outcome).1, ["b"]);
}
