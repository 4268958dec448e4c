//! Going back in time: replays, forks, updates of the past.

use hier_core::StateUpdate;
use hier_core::graph::Checkpoints;
use hier_core::prelude::*;
use hier_core::state::DynState;
use serde_json::{Value, json};

use super::kept::counter;
use super::kit::*;

/// The history after `a`, `b` and `c`.
fn past() -> Vec<Value> {
    let rows = json!([
        [null, "input", -1, ["__start__"], []],
        [0, "loop", 0, ["a"], []],
        [1, "loop", 1, ["b"], ["a"]],
        [2, "loop", 2, ["c"], ["a", "b"]],
        [3, "loop", 3, [], ["a", "b", "c"]],
    ]);
    rows.as_array().cloned().unwrap_or_default()
}

fn with(more: &Value) -> Vec<Value> {
    past().into_iter().chain(more.as_array().cloned().unwrap_or_default()).collect()
}

async fn finished() -> Bench {
    let bench = Bench::new(row(&["a", "b", "c"]));
    assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    assert_eq!(bench.tree().await, past());
    bench
}

#[tokio::test]
async fn history_lists_two_runs() {
    let bench = finished().await;
    assert!(bench.start(json!({ "x": 2 })).await.unwrap().is_finished());
    let steps: Vec<Value> = bench.tree().await.iter().map(|row| json!([row[1], row[2]])).collect();
    let expected = json!([
        ["input", -1],
        ["loop", 0],
        ["loop", 1],
        ["loop", 2],
        ["loop", 3],
        ["input", 4],
        ["loop", 5],
        ["loop", 6],
        ["loop", 7],
        ["loop", 8],
    ]);
    assert_eq!(Value::Array(steps), expected);
    let ids: Vec<_> = bench.history().await.iter().map(|at| at.checkpoint).collect();
    assert!(ids.is_sorted(), "the order of ids is the order of time");
}

#[tokio::test]
async fn replay_is_a_new_branch() {
    let bench = finished().await;
    let at_b = bench.at(2).await;
    assert_eq!(log(bench.continue_from(at_b.clone()).await.unwrap()), json!(["a", "b", "c"]));
    assert_eq!(bench.tally.all(), json!({ "a": 1, "b": 2, "c": 2 }));
    let branch =
        json!([[2, "fork", 2, ["b"], ["a"]], [5, "loop", 3, ["c"], ["a", "b"]], [6, "loop", 4, [], ["a", "b", "c"]],]);
    assert_eq!(bench.tree().await, with(&branch));
    // The fork of before, addressed while it is not the newest, is forked again.
    let fork = bench.at(5).await;
    assert!(bench.continue_from(fork).await.unwrap().is_finished());
    assert_eq!(bench.tree().await[8], json!([5, "fork", 3, ["b"], ["a"]]));
}

#[tokio::test]
async fn replay_of_the_end_runs_nothing() {
    let bench = finished().await;
    let end = bench.at(4).await;
    assert_eq!(log(bench.continue_from(end).await.unwrap()), json!(["a", "b", "c"]));
    assert_eq!(bench.tree().await, with(&json!([[4, "fork", 4, [], ["a", "b", "c"]]])));
    assert_eq!(bench.tally.all(), json!({ "a": 1, "b": 1, "c": 1 }));
}

#[tokio::test]
async fn replay_of_the_input_applies_it_again() {
    let bench = finished().await;
    let input = bench.at(0).await;
    let end = bench.continue_from(input).await.unwrap();
    assert_eq!(end.state().to_value(), json!({ "x": 1, "log": ["a", "b", "c"] }));
    assert_eq!(bench.tally.all(), json!({ "a": 2, "b": 2, "c": 2 }));
    assert_eq!(bench.tree().await[5], json!([0, "fork", 0, ["__start__"], []]));
}

#[tokio::test]
async fn update_of_an_older_checkpoint_is_a_fork() {
    let bench = finished().await;
    let update = StateUpdate::update(bench.update(json!({ "x": 50 })));
    let fork = bench.graph.update_state(bench.at(2).await, update).await.unwrap();
    let end = bench.continue_from(fork).await.unwrap();
    assert_eq!(end.state().to_value(), json!({ "x": 50, "log": ["a", "b", "c"] }));
    let branch =
        json!(
            [[2, "update", 2, ["b"], ["a"]], [5, "loop", 3, ["c"], ["a", "b"]], [6, "loop", 4, [], ["a", "b", "c"]],]
        );
    assert_eq!(bench.tree().await, with(&branch));
    let old = bench.graph.state(bench.at(4).await).await.unwrap();
    assert_eq!(old.values.get("x"), Some(&json!(1)), "the other branch is as it was");
}

#[tokio::test]
async fn new_input_continues_from_the_addressed_checkpoint() {
    let bench = finished().await;
    let config = bench.at(2).await;
    let input = bench.update(json!({ "x": 7 }));
    let end = bench.graph.invoke(input).config(config).context(bench.tally.clone()).await.unwrap();
    assert_eq!(end.state().to_value(), json!({ "x": 7, "log": ["a", "a", "b", "c"] }));
    assert_eq!(
        bench.tree().await[5..7],
        [json!([2, "input", 2, ["__start__"], ["a"]]), json!([5, "loop", 3, ["a"], ["a"]])]
    );
}

/// A question is answered once and asked again by a replay. An answer to the old checkpoint finds the existing one.
#[tokio::test]
async fn replay_asks_again() {
    let mut graph = marks(&["a", "z"]);
    graph = graph.node("ask", asks(&["q"])).edge(START, "a").edge("a", "ask").edge("ask", "z");
    let bench = Bench::new(graph);
    let first = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let open = bench.state().await.config;
    assert_eq!(log(bench.answer("R1").await.unwrap()), json!(["a", "R1", "z"]));
    let again = questions(bench.continue_from(open.clone()).await.unwrap());
    assert_eq!(again[0].value, "q");
    assert_ne!(again[0].id, first[0].id, "it is another task");
    let command: Command<DynState> = Command::resume("R2");
    let end = bench.graph.invoke(command).config(open).context(bench.tally.clone()).await.unwrap();
    assert_eq!(log(end), json!(["a", "R1", "z"]));
    // The fork is the newest no longer, and still open.
    let fork = bench.history().await.into_iter().rfind(|at| at.source == Some(hier_core::checkpoint::Source::Fork));
    assert_eq!(fork.map(|at| at.questions.len()), Some(1));
}

/// At the newest checkpoint an answer with its id is the same as one without.
#[tokio::test]
async fn answer_to_the_newest_checkpoint_is_accepted() {
    let mut graph = marks(&["done", "z"]);
    graph = graph.node("ask", asks(&["q"])).edge(START, "done").edge(START, "ask").join(["done", "ask"], "z");
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let open = bench.state().await.config;
    let command: Command<DynState> = Command::resume("R");
    let end = bench.graph.invoke(command).config(open).context(bench.tally.clone()).await.unwrap();
    assert_eq!(log(end), json!(["R", "done", "z"]));
    assert_eq!(bench.tally.of("done"), 1);
}

/// A replay does not use results of the open step's tasks.
#[tokio::test]
async fn replay_of_a_failed_step_runs_all_of_it() {
    let mut graph = marks(&["good"]);
    graph = graph.node("bad", fails(1)).edge(START, "good").edge(START, "bad");
    let bench = Bench::new(graph);
    bench.start(json!({ "x": 1 })).await.unwrap_err();
    let open = bench.state().await.config;
    assert_eq!(log(bench.continue_from(open).await.unwrap()), json!(["bad", "good"]));
    assert_eq!(bench.tally.all(), json!({ "bad": 2, "good": 2 }));
}

/// Joins and deferred nodes are part of each checkpoint.
#[tokio::test]
async fn replay_of_joins_deferred_nodes_and_sends() {
    let mut graph = marks(&["a", "b", "c", "late", "seed", "work"]);
    graph = graph.edge(START, "a").edge(START, "b").edge("b", "c").join(["a", "c"], "seed");
    graph = graph.each("seed", "items", "work", |_| [1, 2]).edge("work", "late").edge("a", "late").defer("late");
    let bench = Bench::new(graph);
    let end = bench.start(json!({ "x": 1 })).await.unwrap();
    // Decision 2: `late` is released with the Sends, and set off by them again.
    let expected = log(end);
    assert_eq!(expected, json!(["a", "b", "c", "seed", "late", "work", "work", "late"]));
    let places = bench.history().await.len();
    for place in 0..places {
        let config = bench.at(place).await;
        assert_eq!(log(bench.continue_from(config).await.unwrap()), expected, "from {place}");
    }
}

/// Ephemeral values of a step last until the next one, in a copy too.
#[tokio::test]
async fn ephemeral_values_expire_in_a_fork() {
    let sees = || does(|task| Ok(json!({ "log": [task.state().get("hint")] })));
    let mut graph = over(schema().ephemeral("hint"));
    graph = graph.node("a", does(|_| Ok(json!({ "hint": "look" })))).node("b", sees()).node("c", sees());
    graph = graph.edge(START, "a").edge("a", "b").edge("b", "c");
    let bench = Bench::new(graph);
    let expected = json!(["look", null]);
    assert_eq!(log(bench.start(json!({ "x": 1 })).await.unwrap()), expected);
    let at_b = bench.at(2).await;
    assert_eq!(log(bench.continue_from(at_b.clone()).await.unwrap()), expected, "a replay");
    let copy = bench.graph.update_state(at_b, StateUpdate::copy()).await.unwrap();
    assert_eq!(log(bench.continue_from(copy).await.unwrap()), expected, "a copy");
    let copy = bench.graph.update_state(bench.at(2).await, StateUpdate::copy()).await.unwrap();
    let twice = bench.graph.update_state(copy, StateUpdate::copy()).await.unwrap();
    assert_eq!(bench.graph.state(twice).await.unwrap().values.get("hint"), Some(&json!("look")));
    assert_eq!(log(bench.continue_run().await.unwrap()), expected, "a copy of a copy");
}

/// A graph that keeps its state goes back with the thread.
#[tokio::test]
async fn kept_state_of_a_subgraph_follows_time_travel() {
    let mut graph = builder();
    graph = graph.subgraph("sub", &compile(counter())).checkpoints("sub", Checkpoints::PerThread).edge(START, "sub");
    let bench = Bench::new(graph);
    for _ in 0..3 {
        assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    }
    assert_eq!(log_of(&bench.state().await), json!([1, 2, 3]));
    // The second run again.
    let config = bench.at(4).await;
    assert_eq!(bench.graph.state(config.clone()).await.unwrap().next, ["sub"]);
    assert_eq!(log(bench.continue_from(config).await.unwrap()), json!([1, 2]));
    assert_eq!(log(bench.start(json!({ "x": 1 })).await.unwrap()), json!([1, 2, 3]));
}

#[tokio::test]
async fn missing_checkpoint_is_an_error() {
    let bench = finished().await;
    let nowhere = bench.config.clone().checkpoint(uuid::Uuid::nil());
    let error = bench.continue_from(nowhere.clone()).await.unwrap_err();
    assert!(matches!(&error, RunError::NoCheckpoint { thread, .. } if thread == "t"), "{error}");
    let update = StateUpdate::update(bench.update(json!({ "x": 2 })));
    let error = bench.graph.update_state(nowhere.clone(), update).await.unwrap_err();
    assert!(matches!(error, RunError::NoCheckpoint { .. }), "{error}");
    let empty = bench.graph.state(nowhere).await.unwrap();
    assert_eq!(
        (empty.checkpoint, empty.next.len()),
        (None, 0),
        "a lenient graph reads it as empty, as the reference does"
    );
    assert_eq!(bench.tree().await, past());
    let mut strict = strict();
    strict = strict.node("a", mark());
    strict = strict.edge(START, "a").edge("a", END);
    let strict = compile(strict).checkpointer(bench.saver.clone());
    let error = strict.state(Config::new().thread("t").checkpoint(uuid::Uuid::nil())).await.unwrap_err();
    assert!(matches!(&error, RunError::NoCheckpoint { thread, .. } if thread == "t"), "{error}");
}
