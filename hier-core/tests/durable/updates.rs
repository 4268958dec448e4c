//! Changing a thread from outside its runs.

use hier_core::prelude::*;
use hier_core::state::{DynState, DynUpdate, Overwrite};
use hier_core::{StateSnapshot, StateUpdate};
use serde_json::{Value, json};

use super::kit::*;

/// The state after an update, as `[values, next, source, step]`.
fn shown(state: &StateSnapshot<DynState>) -> Value {
    json!([state.values.to_value(), state.next, state.source.map(hier_core::checkpoint::Source::name), state.step])
}

impl Bench {
    async fn change(&self, update: StateUpdate<DynState>) -> Value {
        let config = self.graph.update_state(self.config.clone(), update).await.unwrap();
        let state = self.state().await;
        assert_eq!(config.checkpoint_id(), state.checkpoint, "it addresses the new checkpoint");
        shown(&state)
    }

    async fn refused(&self, update: StateUpdate<DynState>) -> String {
        let before = self.stored().await;
        let error = self.graph.update_state(self.config.clone(), update).await.unwrap_err();
        assert!(matches!(error, RunError::Update { .. }), "{error}");
        assert_eq!(self.stored().await, before, "nothing is stored");
        error.to_string()
    }

    fn makes(&self, update: Value) -> StateUpdate<DynState> {
        StateUpdate::update(self.update(update))
    }
}

/// Stopped before `b`.
async fn stopped() -> Bench {
    let mut graph = row(&["a", "b", "c"]);
    graph = graph.interrupt_before(["b"]);
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    bench
}

#[tokio::test]
async fn update_is_attributed_to_its_node() {
    let bench = stopped().await;
    let update = bench.makes(json!({ "x": 7, "log": ["u"] }));
    assert_eq!(bench.change(update).await, json!([{ "x": 7, "log": ["a", "u"] }, ["b"], "update", 2]));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "u", "b", "c"]));

    let bench = stopped().await;
    let update = bench.makes(json!({ "x": 9 })).as_node("c");
    assert_eq!(bench.change(update).await, json!([{ "x": 9, "log": ["a"] }, [], "update", 2]));

    let bench = stopped().await;
    assert_eq!(bench.change(StateUpdate::finish()).await, json!([{ "x": 1, "log": ["a"] }, [], "update", 2]));

    let bench = stopped().await;
    let input = StateUpdate::input(bench.update(json!({ "x": 4 })));
    assert_eq!(bench.change(input).await, json!([{ "x": 1, "log": ["a"] }, ["__start__", "b"], "input", 2]));
    let end = bench.continue_run().await.unwrap();
    assert_eq!(end.state().to_value()["x"], 4, "the input is applied with the step that was open");

    let bench = stopped().await;
    assert_eq!(bench.change(StateUpdate::skip("b")).await, json!([{ "x": 1, "log": ["a"] }, ["c"], "update", 2]));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "c"]));
    assert_eq!(bench.tally.of("b"), 0);
}

#[tokio::test]
async fn impossible_updates_are_refused() {
    let bench = stopped().await;
    let text = bench.refused(bench.makes(json!({ "x": 2 })).as_node("bb")).await;
    assert!(text.contains("`bb`") && text.contains("`b`"), "{text}");
    let text = bench.refused(bench.makes(json!({ "x": 2 })).as_node("__end__")).await;
    assert!(text.contains("`__end__` cannot write channels"), "{text}");
    let text = bench.refused(StateUpdate::command(Command::new().goto("zz"))).await;
    assert!(text.contains("`zz`"), "{text}");
    let none: [[StateUpdate<DynState>; 0]; 0] = [];
    let error = bench.graph.bulk_update_state(bench.config.clone(), none).await.unwrap_err();
    assert!(matches!(error, RunError::Update { .. }), "{error}");
    let none: [[StateUpdate<DynState>; 0]; 1] = [[]];
    let error = bench.graph.bulk_update_state(bench.config.clone(), none).await.unwrap_err();
    assert!(matches!(error, RunError::Update { .. }), "{error}");
    let anonymous = [[bench.makes(json!({ "x": 2 })), bench.makes(json!({ "x": 3 }))]];
    let error = bench.graph.bulk_update_state(bench.config.clone(), anonymous).await.unwrap_err();
    assert!(matches!(error, RunError::Update { .. }), "{error}");
    // Two writers of a plain channel in one superstep.
    let both = [[bench.makes(json!({ "x": 2 })).as_node("a"), bench.makes(json!({ "x": 3 })).as_node("b")]];
    let error = bench.graph.bulk_update_state(bench.config.clone(), both).await.unwrap_err();
    assert!(matches!(error, RunError::Conflict { .. }), "{error}");
    assert_eq!(bench.state().await.next, ["b"]);
}

#[tokio::test]
async fn update_after_several_nodes_must_name_one() {
    let mut graph = marks(&["a", "b", "z"]);
    graph = graph.edge(START, "a").edge(START, "b").join(["a", "b"], "z").interrupt_before(["z"]);
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let text = bench.refused(bench.makes(json!({ "x": 2 }))).await;
    assert!(text.contains("as_node"), "{text}");
    bench.graph.update_state(bench.config.clone(), bench.makes(json!({ "x": 2 })).as_node("a")).await.unwrap();
}

#[tokio::test]
async fn first_update_of_a_thread_is_attributed_to_start() {
    let bench = Bench::new(row(&["a", "b"]));
    let update = bench.makes(json!({ "x": 5 }));
    assert_eq!(bench.change(update).await, json!([{ "x": 5, "log": [] }, ["a"], "update", 0]));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a", "b"]));
    let bench = Bench::new(row(&["a", "b"]));
    let update = bench.makes(json!({ "log": ["as b"] })).as_node("b");
    assert_eq!(bench.change(update).await, json!([{ "log": ["as b"] }, [], "update", 0]));
    let text = Bench::new(row(&["a"])).refused(StateUpdate::copy()).await;
    assert!(text.contains("empty"), "{text}");
}

/// Decision 10: what finished siblings have done is lost, and so is what else was to run.
#[tokio::test]
async fn update_drops_the_open_step() {
    let mut graph = marks(&["a", "z"]);
    graph = graph.node("ask", asks(&["q"])).edge(START, "ask").edge(START, "a").edge("ask", "z");
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    assert_eq!(log_of(&bench.state().await), json!(["a"]));
    let update = bench.makes(json!({ "log": ["manual"] })).as_node("ask");
    assert_eq!(bench.change(update).await, json!([{ "x": 1, "log": ["manual"] }, ["z"], "update", 1]));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["manual", "z"]));
}

#[tokio::test]
async fn finishing_keeps_finished_tasks() {
    let mut graph = marks(&["a", "z"]);
    graph = graph.node("ask", asks(&["q"])).edge(START, "ask").edge(START, "a").edge("ask", "z");
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    assert_eq!(bench.change(StateUpdate::finish()).await, json!([{ "x": 1, "log": ["a"] }, [], "update", 1]));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["a"]));
}

/// A copy has the parent and the tasks of its original, and a run from it is another branch.
#[tokio::test]
async fn copy_keeps_the_state() {
    let bench = stopped().await;
    let original = bench.state().await;
    let config = bench.graph.update_state(bench.config.clone(), StateUpdate::copy()).await.unwrap();
    let copy = bench.graph.state(config.clone()).await.unwrap();
    assert_eq!(
        (copy.parent, copy.next, copy.values.to_value()),
        (original.parent, original.next, original.values.to_value())
    );
    assert_eq!(copy.source, Some(hier_core::checkpoint::Source::Fork));
    assert_eq!(log(bench.continue_from(config).await.unwrap()), json!(["a", "b", "c"]));
}

/// Several supersteps, one of several nodes; routes and maps are followed as if the nodes had run.
#[tokio::test]
async fn several_updates_in_one_call() {
    let mut graph = marks(&["a", "b", "c", "work"]);
    graph = graph.edge(START, "a").edge("a", "b").edge("a", "c").join(["b", "c"], "work");
    graph = graph.each("work", "log", "work", |state: &DynState| {
        state.get("log").and_then(Value::as_array).cloned().unwrap_or_default()
    });
    let bench = Bench::new(graph);
    let by = |node: &str| bench.makes(json!({ "log": [node] })).as_node(node);
    let config = bench
        .graph
        .bulk_update_state(
            bench.config.clone(),
            [vec![bench.makes(json!({ "x": 1 })).as_node("__start__")], vec![by("a")], vec![by("b"), by("c")]],
        )
        .await
        .unwrap();
    let state = bench.graph.state(config).await.unwrap();
    assert_eq!(shown(&state), json!([{ "x": 1, "log": ["a", "b", "c"] }, ["work"], "update", 2]));
    let update = by("work");
    let after = bench.change(update).await;
    assert_eq!(
        after[1],
        json!(["work", "work", "work", "work", "work"]),
        "one Send an item, and the join is still full"
    );
    assert_eq!(bench.tally.all(), json!({}), "no node ran");
}

#[tokio::test]
async fn update_can_overwrite_and_have_a_target() {
    let bench = stopped().await;
    let schema = bench.state().await.values.schema().clone();
    let update = DynUpdate::default().write(&schema, "log", Overwrite(json!(["new"]))).unwrap();
    let update = StateUpdate::command(Command::update(update).goto("c"));
    assert_eq!(bench.change(update).await, json!([{ "x": 1, "log": ["new"] }, ["b", "c"], "update", 2]));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["new", "b", "c", "c"]));
}

/// A command's update on a new thread is its input.
#[tokio::test]
async fn command_on_a_fresh_thread_is_an_input() {
    let bench = Bench::new(row(&["a", "b"]));
    let update = bench.update(json!({ "log": ["u"] }));
    assert_eq!(log(bench.command(Command::update(update)).await.unwrap()), json!(["u", "a", "b"]));
    let bench = Bench::new(row(&["a", "b"]));
    let error = bench.continue_run().await.unwrap_err();
    assert!(matches!(error, RunError::EmptyInput { .. }), "{error}");
    assert!(bench.stored().await.is_none());
}

/// Updates are stored next to the last checkpoint. Two of them add up, and the next run sees both.
#[tokio::test]
async fn commands_on_a_finished_thread_add_up() {
    let bench = Bench::new(row(&["a"]));
    assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    let before = bench.history().await.len();
    for text in ["u1", "u2"] {
        let update = bench.update(json!({ "log": [text] }));
        assert!(bench.command(Command::update(update)).await.unwrap().is_finished());
    }
    assert_eq!(log_of(&bench.state().await), json!(["a", "u1", "u2"]));
    assert_eq!(bench.history().await.len(), before);
    assert_eq!(log(bench.start(json!({ "x": 2 })).await.unwrap()), json!(["a", "u1", "u2", "a"]));
}

/// A command with a target on a finished thread starts it again there.
#[tokio::test]
async fn command_restarts_a_finished_thread() {
    let bench = Bench::new(row(&["a", "b"]));
    assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    assert_eq!(log(bench.command(Command::new().goto("b")).await.unwrap()), json!(["a", "b", "b"]));
    assert_eq!(log(bench.command(Command::new().send("a", json!(1))).await.unwrap()), json!(["a", "b", "b", "a", "b"]));
}
