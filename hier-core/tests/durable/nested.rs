//! Questions of graphs inside graphs.

use hier_core::prelude::*;
use hier_core::{Durability, StateUpdate};
use serde_json::json;

use super::kit::*;

/// `outer` runs `middle`, which runs `inner`; each has a node before and one after, and `inner` asks.
fn two_levels(questions: &'static [&'static str]) -> Builder {
    let mut inner = marks(&["i1", "i2"]);
    inner = inner.node("ask", asks(questions)).edge(START, "i1").edge("i1", "ask").edge("ask", "i2");
    let mut middle = marks(&["m1", "m2"]);
    middle = middle.subgraph("inner", &compile(inner)).edge(START, "m1").edge("m1", "inner").edge("inner", "m2");
    let mut outer = marks(&["o1", "o2"]);
    outer = outer.subgraph("middle", &compile(middle)).edge(START, "o1").edge("o1", "middle").edge("middle", "o2");
    outer
}

#[tokio::test]
async fn question_two_levels_down_is_answered_at_the_root() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let mut bench = Bench::new(two_levels(&["q1", "q2"]));
        bench.config = bench.config.durability(durability);
        let first = questions(bench.start(json!({ "x": 1 })).await.unwrap());
        assert_eq!(first[0].path, ["middle", "inner", "ask"]);
        assert_eq!(bench.state().await.questions, first);
        // By value, and then by id.
        let second = questions(bench.answer("A1").await.unwrap());
        assert_eq!((second.len(), &second[0].value, &second[0].path), (1, &json!("q2"), &first[0].path));
        let end = bench.command(Command::answers([(&*second[0].id, "A2")])).await.unwrap();
        assert_eq!(log(end), json!(["o1", "m1", "i1", "A1", "A2", "i2", "m2", "o2"]), "{durability:?}");
        let ran = json!({ "o1": 1, "m1": 1, "i1": 1, "ask": 3, "i2": 1, "m2": 1, "o2": 1 });
        assert_eq!(bench.tally.all(), ran, "{durability:?}");
    }
}

/// Two calls of one graph and a node of the root ask at once.
fn parallel() -> Builder {
    let mut inner = marks(&["i"]);
    inner = inner.node("ask", asks(&["inner"])).edge(START, "i").edge("i", "ask");
    let inner = compile(inner);
    let mut outer = marks(&["j"]);
    outer = outer.subgraph("s1", &inner).subgraph("s2", &inner).node("own", asks(&["own"]));
    outer = outer.edge(START, "s1").edge(START, "s2").edge(START, "own").join(["own", "s1", "s2"], "j");
    outer
}

#[tokio::test]
async fn parallel_subgraphs_are_answered_one_by_one() {
    let bench = Bench::new(parallel());
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let paths: Vec<_> = open.iter().map(|question| question.path.join("/")).collect();
    assert_eq!(paths, ["own", "s1/ask", "s2/ask"]);
    let error = bench.answer("whose?").await.unwrap_err();
    assert!(matches!(&error, RunError::Answer { pending, .. } if pending.len() == 3), "{error}");
    let left = questions(bench.command(Command::answers([(&*open[2].id, "2!")])).await.unwrap());
    assert_eq!(left, open[..2]);
    assert_eq!(bench.state().await.questions, open[..2]);
    let left = questions(bench.command(Command::answers([(&*open[0].id, "0!")])).await.unwrap());
    assert_eq!(left, open[1..2]);
    assert_eq!(log(bench.answer("1!").await.unwrap()), json!(["0!", "i", "1!", "i", "2!", "j"]));
    assert_eq!(bench.tally.all(), json!({ "i": 2, "ask": 4, "own": 2, "j": 1 }));
}

/// Two nodes of one subgraph ask: each is known at the root by its own id.
#[tokio::test]
async fn subgraph_asks_several_questions() {
    let mut inner = marks(&["done", "z"]);
    inner = inner.node("p", asks(&["p"])).node("q", asks(&["q"]));
    inner = inner.edge(START, "p").edge(START, "q").edge(START, "done").join(["p", "q", "done"], "z");
    let mut outer = builder();
    outer = outer.subgraph("sub", &compile(inner)).edge(START, "sub");
    let bench = Bench::new(outer);
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(open.len(), 2);
    let left = questions(bench.command(Command::answers([(&*open[0].id, "p!")])).await.unwrap());
    assert_eq!(left, open[1..]);
    let error = bench.command(Command::answers([(&*open[0].id, "again")])).await.unwrap_err();
    assert!(matches!(&error, RunError::Answer { pending, .. } if *pending == open[1..]), "{error}");
    assert_eq!(log(bench.answer("q!").await.unwrap()), json!(["done", "p!", "q!", "z"]));
    assert_eq!(bench.tally.all(), json!({ "done": 1, "p": 2, "q": 2, "z": 1 }));
}

/// The inner graph of a task can be read separately, with the configuration of the snapshot.
#[tokio::test]
async fn state_inside_is_read_with_the_namespace_of_the_task() {
    let mut inner = marks(&["i1", "i2"]);
    inner = inner.node("ask", asks(&["q"])).edge(START, "i1").edge("i1", "ask").edge("ask", "i2");
    let inner = compile(inner);
    let mut outer = marks(&["o1"]);
    outer = outer.subgraph("sub", &inner).edge(START, "o1").edge("o1", "sub");
    let bench = Bench::new(outer);
    let _ = bench.start(json!({ "x": 1, "log": ["in"] })).await.unwrap();
    let task = bench.state().await.tasks.remove(0);
    let place = task.state.expect("the node is a graph");
    assert_eq!(place.checkpoint_namespace(), format!("sub:{}", task.id));
    let inner = inner.checkpointer(bench.saver.clone());
    let inside = inner.state(place.clone()).await.unwrap();
    assert_eq!(inside.next, ["ask"]);
    assert_eq!(inside.values.to_value(), json!({ "x": 1, "log": ["in", "o1", "i1"] }));
    assert_eq!(inside.questions.len(), 1);
    let history = inner.history(place.clone(), hier_core::checkpoint::ListQuery::default()).await.unwrap();
    let steps: Vec<i64> = history.iter().map(|at| at.step).collect();
    assert_eq!(steps, [1, 0, -1]);
    // The inner update counts when the root continues.
    let update = inner.update(json!({ "log": ["changed"] })).unwrap();
    inner.update_state(place, StateUpdate::update(update).as_node("ask")).await.unwrap();
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["in", "o1", "i1", "changed", "i2"]));
    assert_eq!(bench.tally.all(), json!({ "o1": 1, "i1": 1, "ask": 1, "i2": 1 }));
}

/// A breakpoint of an inner graph stops the outer graphs, and all continue where they stopped.
#[tokio::test]
async fn breakpoint_inside_stops_the_root() {
    let mut inner = marks(&["i1", "i2"]);
    inner = inner.edge(START, "i1").edge("i1", "i2").interrupt_before(["i2"]);
    let mut outer = marks(&["sibling", "o2"]);
    outer = outer.subgraph("sub", &compile(inner)).edge(START, "sub").edge(START, "sibling").edge("sub", "o2");
    let bench = Bench::new(outer);
    let stopped = bench.start(json!({ "x": 1 })).await.unwrap();
    assert!(matches!(&stopped, Outcome::Stopped(_)), "{stopped:?}");
    assert_eq!(bench.state().await.next, ["sub"]);
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["sibling", "i1", "i2", "o2"]));
    assert_eq!(bench.tally.all(), json!({ "i1": 1, "i2": 1, "sibling": 1, "o2": 1 }));
}
