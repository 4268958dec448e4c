//! Positions of threads: sends of commands, the last node, repeated tasks, and maximal numbers.

use hier_core::StateUpdate;
use hier_core::checkpoint::{Checkpointer, WriteRecord};
use hier_core::prelude::*;
use serde_json::json;

use super::kit::*;

/// A node that logs its payload.
fn takes(name: &'static str) -> Node {
    does(move |task| Ok(json!({ "log": [format!("{name} {}", task.sent::<i64>()?)] })))
}

/// `begin` sends `work` a number, and `ask` asks in parallel.
fn sending(questions: &'static [&'static str]) -> Builder {
    let mut graph = marks(&["begin"]);
    graph = graph.node("work", takes("work")).node("notify", takes("notify")).node("ask", asks(questions));
    graph = graph.edge(START, "begin").edge("begin", "ask").each("begin", "spread", "work", |_| [1_i64]);
    graph
}

#[tokio::test]
async fn sends_of_a_command_run_next_to_earlier_sends() {
    for target in ["notify", "work"] {
        let bench = Bench::new(sending(&["?"]));
        assert_eq!(asked(bench.start(json!({})).await.unwrap()), ["?"]);
        assert_eq!(bench.state().await.values.get("log"), Some(&json!(["begin", "work 1"])), "work is done");
        let log = log(bench.command(Command::resume("yes").send(target, 7_i64)).await.unwrap());
        assert_eq!(log, json!(["begin", "yes", format!("{target} 7")]), "the new one takes the place of the old");
    }
}

#[tokio::test]
async fn finished_send_of_a_command_does_not_run_again() {
    let bench = Bench::new(sending(&["?", "really?"]));
    let _ = bench.start(json!({})).await.unwrap();
    let asked_again = bench.command(Command::resume("yes").send("notify", 7_i64)).await.unwrap();
    assert_eq!(asked(asked_again), ["really?"]);
    assert_eq!(bench.tally.of("notify"), 1);
    let state = bench.state().await;
    assert_eq!(state.next, ["ask"], "notify is done");
    assert_eq!(log(bench.answer("sure").await.unwrap()), json!(["begin", "yes", "sure", "notify 7"]));
    assert_eq!(bench.tally.of("notify"), 1, "it was done before");
}

#[tokio::test]
async fn update_with_an_ambiguous_node_is_refused() {
    // The edge from a and the join trigger c at once: both have the same version in LangGraph.
    let mut both = marks(&["a", "b", "c"]);
    both = both.edge(START, "a").edge(START, "b").edge("a", "c").join(["a", "b"], "c");
    let mut two = marks(&["a", "b"]);
    two = two.edge(START, "a").edge(START, "b");
    for (builder, names) in [(both, vec!["`c`"]), (two, vec!["`a`", "`b`"])] {
        let bench = Bench::new(builder);
        let _ = bench.start(json!({})).await.unwrap();
        let before = bench.stored().await;
        let update = StateUpdate::update(bench.update(json!({ "log": ["u"] })));
        let error = bench.graph.update_state(bench.config.clone(), update).await.unwrap_err();
        assert!(matches!(error, RunError::Update { .. }), "{error}");
        for name in names.into_iter().chain(["as_node"]) {
            assert!(error.to_string().contains(name), "{error}");
        }
        assert_eq!(bench.stored().await, before);
    }
}

#[tokio::test]
async fn update_is_attributed_as_in_langgraph() {
    // If only START has run, an update is attributed to START, even if the graph has one node.
    let mut one = marks(&["a"]);
    one = one.edge(START, "a");
    one = one.interrupt_before(["a"]);
    let bench = Bench::new(one);
    let _ = bench.start(json!({})).await.unwrap();
    let update = || StateUpdate::update(bench.update(json!({ "log": ["u"] })));
    bench.graph.update_state(bench.config.clone(), update()).await.unwrap();
    assert_eq!(bench.state().await.next, ["a"]);

    // A command is newer than the edges of its step.
    let mut commanded = builder();
    commanded = commanded.node("a", asks(&["?"])).node("b", mark()).node("c", mark());
    commanded = commanded.edge(START, "a").edge("b", "c").edge("a", END);
    commanded = commanded.interrupt_before(["c"]);
    let bench = Bench::new(commanded);
    let _ = bench.start(json!({})).await.unwrap();
    let _ = bench.command(Command::resume("x").goto("b")).await.unwrap();
    let update = StateUpdate::update(bench.update(json!({ "log": ["u"] })));
    bench.graph.update_state(bench.config.clone(), update).await.unwrap();
    assert_eq!(bench.state().await.next, ["c"], "as b");

    // Tasks that `finish` drops count as finished.
    let mut dropped = row(&["a", "b", "c"]);
    dropped = dropped.interrupt_before(["b"]);
    let bench = Bench::new(dropped);
    let _ = bench.start(json!({})).await.unwrap();
    bench.graph.update_state(bench.config.clone(), StateUpdate::finish()).await.unwrap();
    let update = StateUpdate::update(bench.update(json!({ "log": ["u"] })));
    bench.graph.update_state(bench.config.clone(), update).await.unwrap();
    assert_eq!(bench.state().await.next, ["c"], "as b");
}

#[tokio::test]
async fn command_from_outside_cannot_send_to_the_end() {
    let bench = Bench::new(sending(&["?"]));
    let _ = bench.start(json!({})).await.unwrap();
    let before = bench.stored().await;
    let error = bench.command(Command::resume("yes").send(END, 1_i64)).await.unwrap_err();
    assert!(error.to_string().contains("sends a payload to END, which accepts none: use `goto(END)`"), "{error}");
    assert_eq!(bench.stored().await, before);
}

/// The first attempt of `a` writes one channel, the second four: later reads see only those of the second.
#[tokio::test]
async fn continuing_twice_from_an_update_keeps_writes_whole() {
    let mut builder = over(schema().last("y"));
    builder = builder.node("before", mark());
    let write = |task: &NodeTask| match task.run().context().of("a") {
        1 => Ok(json!({ "log": ["first"] })),
        _ => Ok(json!({ "x": 1, "log": ["second"], "y": 2 })),
    };
    builder = builder.node("a", does(write)).node("b", asks(&["?", "really?"]));
    builder = builder.edge(START, "before").edge("before", "a").edge("before", "b");
    let bench = Bench::new(builder);
    let mut config = bench.config.clone();
    config = config.interrupt_before(["a"]);
    let input = bench.graph.update(json!({})).unwrap();
    let _ = bench.graph.invoke(input).config(config).context(bench.tally.clone()).await.unwrap();
    let update = StateUpdate::update(bench.update(json!({ "log": ["u"] })));
    let from = bench.graph.update_state(bench.config.clone(), update).await.unwrap();
    assert_eq!(asked(bench.continue_from(from.clone()).await.unwrap()), ["?"]);
    assert_eq!(asked(bench.answer("one").await.unwrap()), ["really?"]);
    let tree = bench.tree().await;

    let outcome = bench.continue_from(from).await.unwrap();
    let second = json!(["before", "u", "second"]);
    assert_eq!((outcome.state().get("log"), outcome.state().get("x")), (Some(&second), Some(&json!(1))));
    assert_eq!(asked(outcome), ["?"], "its answer is gone too");
    assert_eq!(bench.tree().await, tree, "no checkpoint is added, as in the reference");
    let live = bench.state().await;
    assert_eq!((live.values.get("log"), live.values.get("y")), (Some(&second), Some(&json!(2))));
    assert_eq!(asked(bench.answer("two").await.unwrap()), ["really?"], "and not answered by what went before");
    let Outcome::Finished(state) = bench.answer("three").await.unwrap() else { panic!("it ends") };
    assert_eq!(state.get("log"), Some(&json!(["before", "u", "second", "two", "three"])));
    assert_eq!((state.get("x"), state.get("y")), (Some(&json!(1)), Some(&json!(2))));
    assert_eq!(bench.tally.of("a"), 2);
}

#[tokio::test]
async fn maximal_limit_is_unlimited() {
    let bench = Bench::new(row(&["a", "b"]));
    let config = bench.config.clone().recursion_limit(usize::try_from(i64::MAX).unwrap());
    for _ in 0..2 {
        let input = bench.graph.update(json!({})).unwrap();
        let end = bench.graph.invoke(input).config(config.clone()).context(bench.tally.clone()).await.unwrap();
        assert!(end.is_finished());
    }
    assert_eq!(bench.tally.of("b"), 2);
    let all = bench.config.clone().recursion_limit(usize::MAX);
    let input = bench.graph.update(json!({})).unwrap();
    assert!(bench.graph.invoke(input).config(all).context(bench.tally.clone()).await.unwrap().is_finished());
}

#[tokio::test]
async fn maximal_stored_step_is_read_and_ends() {
    for step in [i64::MAX, i64::MAX - 1, i64::MIN] {
        let mut builder = row(&["a", "b", "c"]);
        builder = builder.interrupt_before(["b"]);
        let bench = Bench::new(builder);
        let _ = bench.start(json!({})).await.unwrap();
        let saved = bench.stored().await.unwrap();
        let mut checkpoint = saved.checkpoint.clone();
        (checkpoint.step, checkpoint.parent) = (step, Some(saved.checkpoint.id));
        checkpoint.id = uuid::Uuid::from_u128(saved.checkpoint.id.as_u128() + (1 << 80));
        let lease = bench.saver.acquire("t", hier_core::checkpoint::Claim::default()).await.unwrap();
        let record =
            WriteRecord::Checkpoint { namespace: "".into(), checkpoint: Box::new(checkpoint), pieces: Vec::new() };
        bench.saver.commit(&lease, vec![record].into()).await.unwrap();
        bench.saver.release(&lease).await.unwrap();
        let state = bench.state().await;
        assert_eq!((state.step, &*state.next), (step, &["b".to_owned()][..]));
        match bench.continue_run().await {
            Ok(end) => assert!(end.is_finished() && step < 0),
            Err(error) => assert!(matches!(error, RunError::RecursionLimit { .. }) && step > 0, "{error}"),
        }
        // A new input begins at START, whatever the step is.
        match bench.start(json!({})).await {
            Ok(end) => assert!(!end.is_finished() && step < 0),
            Err(error) => assert!(matches!(error, RunError::RecursionLimit { .. }) && step > 0, "{error}"),
        }
        let update = StateUpdate::update(bench.update(json!({ "log": ["u"] }))).as_node("c");
        bench.graph.update_state(bench.config.clone(), update).await.unwrap();
        assert_eq!(bench.state().await.next, Vec::<String>::new());
    }
}

#[tokio::test]
async fn resume_distinguishes_joins_with_equal_names() {
    let mut builder = marks(&["a", "b+c", "a+b", "c", "d"]);
    for node in ["a", "b+c", "a+b", "c"] {
        builder = builder.edge(START, node);
    }
    builder = builder.join(["a+b", "c"], "d").join(["a", "b+c"], "d");
    builder = builder.node("e", mark()).edge("d", "e");
    builder = builder.interrupt_before(["d"]);
    let bench = Bench::new(builder);
    let _ = bench.start(json!({})).await.unwrap();
    assert_eq!(bench.state().await.next, ["d"]);
    let joins = bench.stored().await.unwrap().checkpoint.agenda.joins;
    let names: Vec<&str> = joins.iter().map(|join| &*join.join).collect();
    assert_eq!(names, ["join:a+b+c:d", "join:a+b+c:d#2"]);
    let log = log(bench.continue_run().await.unwrap());
    assert_eq!(log.as_array().map(Vec::len), Some(6), "{log}");
    let left = bench.stored().await.unwrap().checkpoint.agenda.joins;
    assert_eq!(left, [], "both were used up by d");
}
