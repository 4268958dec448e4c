//! The kept state of subgraphs follows the history of their thread, including branches, pruning and updates from
//! outside. An update withdraws earlier questions of the subgraph.

use hier_core::checkpoint::{Checkpointer, Claim, ListQuery, Prune, Strategy, ThreadAdmin, WriteRecord};
use hier_core::graph::Checkpoints;
use hier_core::prelude::*;
use hier_core::state::Builtin;
use hier_core::{Durability, StateUpdate};
use serde_json::{Value, json};

use super::kit::*;

const MODES: [Durability; 3] = [Durability::Sync, Durability::Async, Durability::Exit];

/// A graph that counts its calls, and puts the count down.
pub(crate) fn counter() -> Builder {
    let mut inner = over(schema().reduced("own", Builtin::Sum));
    inner = inner.node(
        "count",
        does(|task| {
            let own = task.state().get("own").and_then(Value::as_i64).unwrap_or_default() + 1;
            Ok(json!({ "own": 1, "log": [own] }))
        }),
    );
    inner = inner.edge(START, "count");
    inner
}

/// `first` >> `sub`, a counter. `first` is the argument.
fn counting(first: Node, durability: Durability) -> Bench {
    let mut outer = builder();
    outer = outer.node("first", first).subgraph("sub", &compile(counter())).checkpoints("sub", Checkpoints::PerThread);
    outer = outer.edge(START, "first").edge("first", "sub");
    let mut bench = Bench::new(outer);
    bench.config = bench.config.durability(durability);
    bench
}

async fn runs(bench: &Bench, times: usize) {
    for _ in 0..times {
        assert!(bench.start(json!({ "x": 1 })).await.unwrap().is_finished());
    }
}

/// The checkpoint after the input of this run, from 0.
async fn input_of(bench: &Bench, run: usize) -> Config {
    let history = bench.history().await;
    let inputs: Vec<_> = history.iter().filter(|at| at.next == ["first"]).collect();
    bench.config.clone().checkpoint(inputs[run].checkpoint.unwrap())
}

#[tokio::test]
async fn failed_replay_continues_later() {
    for durability in [Durability::Sync, Durability::Async] {
        let first = does(|task| match task.run().context().of("first") {
            4 => Err(NodeError::permanent("boom")),
            _ => Ok(json!({})),
        });
        let bench = counting(first, durability);
        runs(&bench, 3).await;
        bench.continue_from(input_of(&bench, 1).await).await.unwrap_err();
        assert_eq!(log(bench.continue_run().await.unwrap()), json!([1, 2]), "{durability:?}");
        assert_eq!(log(bench.start(json!({ "x": 1 })).await.unwrap()), json!([1, 2, 3]), "{durability:?}");
    }
}

#[tokio::test]
async fn update_of_an_older_checkpoint_forks() {
    for durability in [Durability::Sync, Durability::Async] {
        for by_config in [false, true] {
            let bench = counting(does(|_| Ok(json!({}))), durability);
            runs(&bench, 3).await;
            let past = input_of(&bench, 1).await;
            let copy = bench.graph.update_state(past, StateUpdate::copy()).await.unwrap();
            let end = if by_config { bench.continue_from(copy).await } else { bench.continue_run().await };
            assert_eq!(log(end.unwrap()), json!([1, 2]), "{durability:?}");
            assert_eq!(log(bench.start(json!({ "x": 1 })).await.unwrap()), json!([1, 2, 3]), "{durability:?}");
        }
    }
}

#[tokio::test]
async fn pruned_thread_keeps_the_state_it_continues_from() {
    let bench = counting(does(|_| Ok(json!({}))), Durability::Sync);
    runs(&bench, 6).await;
    // A fork, whose subgraph has newer checkpoints than the other line.
    let copy = bench.graph.update_state(input_of(&bench, 1).await, StateUpdate::copy()).await.unwrap();
    assert_eq!(log(bench.continue_from(copy).await.unwrap()), json!([1, 2]));
    runs(&bench, 2).await;
    for strategy in [Strategy::Keep(6), Strategy::Keep(3)] {
        bench.saver.prune(Prune { strategy, ..Prune::default() }).await.unwrap();
        let copied = bench.saver.copy_thread("t", "copy").await;
        copied.unwrap();
        let history = bench.history().await;
        let place = history.iter().position(|at| at.next == ["first"] || at.next == ["sub"]).unwrap();
        let config = Config::new().thread("copy").checkpoint(history[place].checkpoint.unwrap());
        let before = log_of(&history[place]).as_array().unwrap().len();
        let ended = log(bench.continue_from(config).await.unwrap());
        let counted: Vec<Value> = (1..=before + 1).map(Value::from).collect();
        assert_eq!(ended, json!(counted), "{strategy:?}");
    }
}

/// Its call is done, and the step is not: it is part of the step when that ends.
#[tokio::test]
async fn call_next_to_a_question_counts() {
    for durability in MODES {
        let mut outer = builder();
        outer = outer.node("ask", asks(&["?"])).subgraph("sub", &compile(counter()));
        outer = outer.checkpoints("sub", Checkpoints::PerThread).edge(START, "ask").edge(START, "sub");
        let mut bench = Bench::new(outer);
        bench.config = bench.config.durability(durability);
        for turn in 1..4 {
            assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["?"]);
            let log = log(bench.answer("yes").await.unwrap());
            assert_eq!(log.as_array().unwrap().last(), Some(&json!(turn)), "{durability:?}");
        }
    }
}

/// A graph that keeps its state: counts, asks, and logs count and answer.
fn asking() -> Builder {
    let mut inner = over(schema().reduced("own", Builtin::Sum));
    inner = inner.node("count", does(|_| Ok(json!({ "own": 1 })))).node("ask", asks(&["?"]));
    inner = inner.node("tell", does(|task| Ok(json!({ "log": [task.state().get("own")] }))));
    inner = inner.edge(START, "count").edge("count", "ask").edge("ask", "tell");
    inner
}

fn with_asking(checkpoints: Checkpoints) -> (Bench, Compiled) {
    let inner = compile(asking());
    let mut outer = builder();
    outer = outer.subgraph("sub", &inner).checkpoints("sub", checkpoints).edge(START, "sub");
    let bench = Bench::new(outer);
    let inner = inner.checkpointer(bench.saver.clone());
    (bench, inner)
}

/// A call that asks, another line of the history that calls too, and then the answer to the first.
#[tokio::test]
async fn answer_reaches_the_asking_call() {
    let (bench, _) = with_asking(Checkpoints::PerThread);
    assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["?"]);
    assert_eq!(log(bench.answer("a").await.unwrap()), json!(["a", 1]));
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let at = bench.state().await.config;
    let fork = bench.graph.update_state(bench.at(1).await, StateUpdate::copy()).await.unwrap();
    assert_eq!(asked(bench.continue_from(fork).await.unwrap()), ["?"]);
    assert_eq!(log(bench.answer("b").await.unwrap()), json!(["b", 1]));
    // As the thread was when it asked. The answer continues its own branch.
    let answer = Command::answers([(open[0].id.clone(), "c")]);
    let end = bench.graph.invoke(answer).config(at).context(bench.tally.clone()).await.unwrap();
    assert_eq!(log(end), json!(["a", 1, "c", 2]));
}

/// A call that a new input interrupts keeps its work, as in LangGraph.
#[tokio::test]
async fn new_input_finds_the_dropped_call() {
    let (bench, _) = with_asking(Checkpoints::PerThread);
    for _ in 0..2 {
        assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["?"]);
    }
    assert_eq!(log(bench.answer("a").await.unwrap()), json!(["a", 2]));
}

/// An update of a kept state reaches the next call, and no call of another branch.
#[tokio::test]
async fn kept_state_can_be_updated() {
    let inner = compile(counter());
    let mut outer = builder();
    outer =
        outer.node("first", does(|_| Ok(json!({})))).subgraph("sub", &inner).checkpoints("sub", Checkpoints::PerThread);
    outer = outer.edge(START, "first").edge("first", "sub");
    let bench = Bench::new(outer);
    let inner = inner.checkpointer(bench.saver.clone());
    runs(&bench, 2).await;
    let place = bench.config.clone().namespace("sub");
    let ten = inner.update(json!({ "own": 10 })).unwrap();
    inner.update_state(place.clone(), StateUpdate::update(ten)).await.unwrap();
    assert_eq!(log(bench.start(json!({ "x": 1 })).await.unwrap()), json!([1, 2, 13]));
    // A branch from before the update does not contain it, and neither do reads of that branch.
    let copy = bench.graph.update_state(input_of(&bench, 1).await, StateUpdate::copy()).await.unwrap();
    assert_eq!(inner.state(place.clone()).await.unwrap().values.get("own"), Some(&json!(1)));
    assert_eq!(log(bench.continue_from(copy).await.unwrap()), json!([1, 2]));
    let hundred = inner.update(json!({ "own": 100 })).unwrap();
    inner.update_state(place, StateUpdate::update(hundred)).await.unwrap();
    assert_eq!(log(bench.start(json!({ "x": 1 })).await.unwrap()), json!([1, 2, 103]));
}

/// Two levels, both of which keep their state.
#[tokio::test]
async fn kept_state_within_kept_state() {
    let leaf = compile(counter());
    let mut middle = builder();
    middle = middle.subgraph("leaf", &leaf).checkpoints("leaf", Checkpoints::PerThread).edge(START, "leaf");
    let mut outer = builder();
    outer = outer.node("first", does(|_| Ok(json!({})))).subgraph("sub", &compile(middle));
    outer = outer.checkpoints("sub", Checkpoints::PerThread).edge(START, "first").edge("first", "sub");
    let bench = Bench::new(outer);
    runs(&bench, 3).await;
    let count = |log: Value| log.as_array().unwrap().last().cloned();
    let copy = bench.graph.update_state(input_of(&bench, 1).await, StateUpdate::copy()).await.unwrap();
    assert_eq!(count(log(bench.continue_from(copy).await.unwrap())), Some(json!(2)));
    let leaf = leaf.checkpointer(bench.saver.clone());
    let ten = leaf.update(json!({ "own": 10 })).unwrap();
    leaf.update_state(bench.config.clone().namespace("sub|leaf"), StateUpdate::update(ten)).await.unwrap();
    bench.saver.prune(Prune::default()).await.unwrap();
    assert_eq!(count(log(bench.start(json!({ "x": 1 })).await.unwrap())), Some(json!(13)));
}

/// A thread of a program that did not record the kept states.
#[tokio::test]
async fn thread_without_kept_heads_is_read() {
    let bench = counting(does(|_| Ok(json!({}))), Durability::Sync);
    runs(&bench, 2).await;
    let lease = bench.saver.acquire("t", Claim::default()).await.unwrap();
    for listed in bench.saver.list(ListQuery::thread("t")).await.unwrap() {
        let mut checkpoint = Box::new(listed.checkpoint);
        assert!(checkpoint.agenda.kept.take().is_some());
        let record = WriteRecord::Checkpoint { namespace: "".into(), checkpoint, pieces: Vec::new() };
        bench.saver.commit(&lease, vec![record].into()).await.unwrap();
    }
    bench.saver.release(&lease).await.unwrap();
    assert_eq!(log(bench.start(json!({ "x": 1 })).await.unwrap()), json!([1, 2, 3]));
}

/// The graph that asked is updated: an answer under way is rejected, and open questions are asked again.
#[tokio::test]
async fn question_of_an_updated_subgraph_is_withdrawn() {
    for checkpoints in [Checkpoints::PerCall, Checkpoints::PerThread] {
        let (bench, inner) = with_asking(checkpoints);
        let shown = questions(bench.start(json!({ "x": 1 })).await.unwrap());
        let place = bench.state().await.tasks[0].state.clone().unwrap();
        let ten = inner.update(json!({ "own": 10 })).unwrap();
        inner.update_state(place, StateUpdate::update(ten).as_node("count")).await.unwrap();
        assert_eq!(bench.state().await.questions, [], "{checkpoints:?}");
        let by_id = bench.command(Command::answers([(shown[0].id.clone(), "late")])).await.unwrap_err().to_string();
        let plain = bench.answer("late").await.unwrap_err().to_string();
        for error in [by_id, plain] {
            assert!(error.contains("thread `t`") && error.contains("`update_state`"), "{error}");
            assert!(error.contains("run the thread with `()`"), "{error}");
        }
        let again = questions(bench.continue_run().await.unwrap());
        assert_eq!((again.len(), again[0].id == shown[0].id), (1, false), "{checkpoints:?}");
        assert_eq!(log(bench.answer("yes").await.unwrap()), json!(["yes", 11]), "{checkpoints:?}");
        assert_eq!(bench.tally.of("tell"), 1);
    }
}

/// Only questions of the updated graph and of its inner graphs are withdrawn. Other questions stay.
#[tokio::test]
async fn questions_of_other_subgraphs_stay_open() {
    let leaf = compile(asking());
    let mut middle = builder();
    middle =
        middle.subgraph("leaf", &leaf).node("asks too", asks(&["middle?"])).edge(START, "leaf").edge(START, "asks too");
    let mut outer = builder();
    outer = outer.subgraph("sub", &compile(middle)).node("root asks", asks(&["root?"]));
    outer = outer.edge(START, "sub").edge(START, "root asks");
    let bench = Bench::new(outer);
    let shown = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(shown.len(), 3);
    let listed = bench.saver.list(ListQuery { namespace: None, ..ListQuery::thread("t") }).await.unwrap();
    let namespace = listed.iter().find(|listed| listed.namespace.contains('|')).unwrap().namespace.to_string();
    let leaf = leaf.checkpointer(bench.saver.clone());
    let place = bench.config.clone().namespace(namespace);
    leaf.update_state(place, StateUpdate::update(leaf.update(json!({ "own": 10 })).unwrap()).as_node("count"))
        .await
        .unwrap();
    let left = |questions: Vec<hier_core::Question>| -> Vec<Value> {
        questions.into_iter().map(|question| question.value).collect()
    };
    let texts = left(bench.state().await.questions);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(!texts.contains(&json!("?")));
    let mut open = asked(bench.continue_run().await.unwrap());
    open.sort();
    assert_eq!(open, ["?", "middle?", "root?"]);
    assert_eq!([bench.tally.of("asks too"), bench.tally.of("root asks"), bench.tally.of("ask")], [1, 1, 2]);
    let answers: Vec<_> =
        bench.state().await.questions.iter().map(|question| (question.id.clone(), question.value.clone())).collect();
    let mut ended: Vec<Value> =
        log(bench.command(Command::answers(answers)).await.unwrap()).as_array().unwrap().clone();
    ended.sort_by_key(Value::to_string);
    assert_eq!(ended, [json!("?"), json!("middle?"), json!("root?"), json!(11)]);
}
