//! An answer belongs to its question, and a rejected answer changes nothing.

use std::sync::Arc;

use hier_core::checkpoint::WhenRunning;
use hier_core::graph::NodeDef;
use hier_core::prelude::*;
use hier_core::state::{DynState, DynUpdate, Schema};
use hier_core::{Durability, StateSnapshot};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::kit::*;

/// A node that asks, pays, and asks about more.
fn pays(reached: &Arc<Notify>, paid: &Arc<Notify>) -> Node {
    let (reached, paid) = (reached.clone(), paid.clone());
    NodeDef::task(move |task: NodeTask| {
        let (reached, paid) = (reached.clone(), paid.clone());
        async move {
            let one: Value = task.run().interrupt(&"pay 1?").await?;
            task.run().context().hit("pay");
            reached.notify_one();
            paid.notified().await;
            let two: Value = task.run().interrupt(&"pay 1000000?").await?;
            task.state().update(json!({ "log": [one, two] }))
        }
    })
}

fn reason(error: &RunError) -> String {
    let RunError::Answer { .. } = error else { panic!("no refusal of an answer: {error}") };
    error.to_string()
}

/// A double click, whatever the second call may do with a thread that is being run.
#[tokio::test]
async fn repeated_answer_answers_one_question() {
    for when in [None, Some(WhenRunning::TakeOver), Some(WhenRunning::Reject)] {
        for by_id in [false, true] {
            let (reached, paid) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
            let mut graph = builder();
            graph = graph.node("ask", pays(&reached, &paid)).edge(START, "ask");
            let mut bench = Bench::new(graph);
            if let Some(when) = when {
                bench.config = bench.config.when_running(when);
            }
            let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
            let click = || {
                bench.command(if by_id { Command::answers([(&*open[0].id, "yes")]) } else { Command::resume("yes") })
            };
            let (first, second) = tokio::join!(click(), async {
                reached.notified().await;
                let second = click().await;
                paid.notify_one();
                second
            });
            let text = reason(&second.unwrap_err());
            assert!(text.contains("thread `t`"), "{text}");
            assert_eq!(asked(first.unwrap()), ["pay 1000000?"], "{when:?} {by_id}");
            assert_eq!(bench.tally.of("pay"), 1, "{when:?} {by_id}");
        }
    }
}

/// The node fails after its first answer; the client sends that answer once more.
#[tokio::test]
async fn answer_repeated_after_a_failure_does_not_answer_the_next_question() {
    let mut graph = builder();
    let node = NodeDef::task(|task: NodeTask| async move {
        let one: Value = task.run().interrupt(&"one").await?;
        if task.run().context().hit("answered") == 1 {
            return Err(NodeError::permanent("the line broke"));
        }
        let two: Value = task.run().interrupt(&"two").await?;
        task.state().update(json!({ "log": [one, two] }))
    });
    graph = graph.node("ask", node).edge(START, "ask");
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    bench.answer("yes").await.unwrap_err();
    let before = bench.stored().await;
    let text = reason(&bench.answer("yes").await.unwrap_err());
    assert!(text.contains("thread `t`") && text.contains("have been answered"), "{text}");
    assert_eq!(bench.stored().await, before);
    assert_eq!(asked(bench.continue_run().await.unwrap()), ["two"]);
    assert_eq!(log(bench.answer("no").await.unwrap()), json!(["yes", "no"]));
}

/// All of a command is checked before anything of it is stored.
#[tokio::test]
async fn refused_command_does_not_consume_its_answer() {
    let mut graph = builder();
    graph = graph.node("ask", asks(&["one", "two"])).edge(START, "ask");
    let bench = Bench::new(graph);
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let before = bench.stored().await;
    let refused = [
        Command::resume("yes").goto("typo"),
        Command::answers([(open[0].id.clone(), "yes")]).send("typo", 1),
        Command::answers([(open[0].id.clone(), "yes"), (open[0].id.clone(), "no")]),
    ];
    for command in refused {
        bench.command(command).await.unwrap_err();
        assert_eq!(bench.stored().await, before);
    }
    assert_eq!(asked(bench.command(Command::resume("yes").goto("ask")).await.unwrap()), ["two"]);
}

/// An update that a reducer refuses is refused before the answer with it is stored.
#[tokio::test]
async fn mismatched_update_keeps_the_question_open() {
    let mut graph = over(
        Schema::new()
            .last("x")
            .reduced("log", hier_core::state::Builtin::Append)
            .reduced("sum", hier_core::state::Builtin::Sum),
    );
    graph = graph.node("ask", asks(&["one"])).edge(START, "ask");
    let bench = Bench::new(graph);
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let before = bench.stored().await;
    let update = bench.update(json!({ "sum": "no number" }));
    bench.command(Command::resume("yes").with_update(update)).await.unwrap_err();
    assert_eq!((bench.stored().await, bench.state().await.questions), (before, open));
}

/// Two tasks stop at a breakpoint and get one answer. The one that asks first takes it, for good.
#[tokio::test]
async fn waiting_answer_is_consumed_once() {
    let mut graph = marks(&["a"]);
    let late = NodeDef::task(|task: NodeTask| async move {
        if task.run().context().hit("late") == 1 {
            return Err(NodeError::permanent("not yet"));
        }
        let answer: Value = task.run().interrupt(&"late?").await?;
        task.state().update(json!({ "log": [answer] }))
    });
    graph = graph.node("early", asks(&["early?"])).node("late", late);
    graph = graph.edge(START, "a").edge("a", "early").edge("a", "late").interrupt_before(["early"]);
    let bench = Bench::new(graph);
    assert!(matches!(bench.start(json!({ "x": 1 })).await.unwrap(), Outcome::Stopped(_)));
    bench.answer("first").await.unwrap_err();
    reason(&bench.answer("again").await.unwrap_err());
    assert_eq!(asked(bench.continue_run().await.unwrap()), ["late?"]);
    assert_eq!(log(bench.answer("second").await.unwrap()), json!(["a", "first", "second"]));
}

/// One of two open questions is answered. The task with the other one waits, whatever happens to the first.
#[tokio::test]
async fn node_with_an_open_question_waits_for_its_answer() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let mut graph = marks(&["j"]);
        let node = NodeDef::task(|task: NodeTask| async move {
            let answer: Value = task.run().interrupt(&"one").await?;
            if task.run().context().hit("one") == 1 {
                return Err(NodeError::permanent("after its answer"));
            }
            task.state().update(json!({ "log": [answer] }))
        });
        graph = graph.node("one", node).node("two", asks(&["two"]));
        graph = graph.edge(START, "one").edge(START, "two").join(["one", "two"], "j");
        let mut bench = Bench::new(graph);
        bench.config = bench.config.durability(durability);
        let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
        bench.command(Command::answers([(&*open[0].id, "1!")])).await.unwrap_err();
        let left = questions(bench.continue_run().await.unwrap());
        assert_eq!(left, [open[1].clone()], "it stays as it was shown");
        assert_eq!(bench.tally.of("two"), 1, "{durability:?}: it has not run again");
        assert_eq!(bench.state().await.questions, left);
        assert_eq!(log(bench.answer("2!").await.unwrap()), json!(["1!", "2!", "j"]));
        assert_eq!(bench.tally.of("two"), 2, "{durability:?}");
    }
}

/// As above, inside nested graphs, at each level.
#[tokio::test]
async fn nodes_inside_subgraphs_wait_for_their_own_answers() {
    let mut inner = builder();
    inner = inner.node("p", asks(&["p?"])).node("q", asks(&["q?"])).edge(START, "p").edge(START, "q");
    let mut middle = builder();
    middle = middle.subgraph("inner", &compile(inner)).node("m", asks(&["m?"])).edge(START, "inner").edge(START, "m");
    let mut outer = builder();
    outer = outer.subgraph("middle", &compile(middle)).node("o", asks(&["o?"])).edge(START, "middle").edge(START, "o");
    let bench = Bench::new(outer);
    let mut open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(
        open.iter().map(|question| question.value.as_str().unwrap()).collect::<Vec<_>>(),
        ["p?", "q?", "m?", "o?"]
    );
    for (answer, runs) in [("q", [1, 2, 1, 1]), ("o", [1, 2, 1, 2]), ("m", [1, 2, 2, 2])] {
        let place = open.iter().position(|question| question.value == json!(format!("{answer}?"))).unwrap();
        let left = questions(bench.command(Command::answers([(&*open[place].id, answer)])).await.unwrap());
        open.remove(place);
        assert_eq!(left, open);
        assert_eq!(["p", "q", "m", "o"].map(|node| bench.tally.of(node)), runs, "after the answer to {answer}");
    }
    assert_eq!(log(bench.answer("p").await.unwrap()), json!(["p", "q", "m", "o"]));
}

/// A thread that asks nothing says so, and is not changed.
#[tokio::test]
async fn answers_without_a_question_are_refused_with_the_thread() {
    let mut graph = strict();
    graph = graph.node("ask", asks(&["q"])).edge(START, "ask").edge("ask", END);
    let bench = Bench::new(graph);
    let nothing = bench.answer("yes").await.unwrap_err();
    assert!(reason(&nothing).contains("thread `t`") && reason(&nothing).contains("nothing is stored"), "{nothing}");
    let update = bench.update(json!({ "x": 1 }));
    reason(&bench.command(Command::resume("yes").with_update(update)).await.unwrap_err());
    reason(&bench.command(Command::answers([("0123", "yes")])).await.unwrap_err());
    assert_eq!(bench.stored().await, None);
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(log(bench.answer("yes").await.unwrap()), json!(["yes"]));
    let before = bench.stored().await;
    for command in [Command::resume("again"), Command::answers([(&*open[0].id, "again")])] {
        let text = reason(&bench.command(command).await.unwrap_err());
        assert!(text.contains("thread `t` has finished (superstep 1)"), "{text}");
    }
    assert_eq!(bench.stored().await, before);
}

/// A lenient graph drops an answer to a finished thread, and starts an unknown one, as LangGraph does.
#[tokio::test]
async fn lenient_graph_accepts_answers_without_a_question() {
    let bench = Bench::new(row(&["a"]));
    assert_eq!(log(bench.answer("yes").await.unwrap()), json!(["a"]));
    let before = bench.stored().await;
    assert_eq!(log(bench.answer("yes").await.unwrap()), json!(["a"]));
    assert_eq!(bench.stored().await, before);
}

/// An old checkpoint whose question has its answer takes no other; a replay asks again.
#[tokio::test]
async fn question_of_the_past_is_answered_once() {
    let mut graph = strict();
    graph = graph.node("ask", asks(&["q"])).edge(START, "ask").edge("ask", END);
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let open = bench.state().await.config;
    let _ = bench.answer("yes").await.unwrap();
    let again: Command<DynState> = Command::resume("no");
    let error = bench.graph.invoke(again).config(open.clone()).context(bench.tally.clone()).await.unwrap_err();
    assert!(reason(&error).contains("has continued from this checkpoint"), "{error}");
    assert_eq!(asked(bench.continue_from(open).await.unwrap()), ["q"]);
    assert_eq!(log(bench.answer("no").await.unwrap()), json!(["no"]));
}

/// A handler's questions are its own, also where the node had asked, in several attempts or without.
#[tokio::test(start_paused = true)]
async fn handler_does_not_receive_answers_of_its_node() {
    for retries in [1, 2] {
        let mut graph = builder();
        let node = NodeDef::task(|task: NodeTask| async move {
            task.run().context().hit("node");
            let _: Value = task.run().interrupt(&"send the money?").await?;
            let attempt = task.run().context().hit("asked once");
            if attempt == 1 {
                let _: Value = task.run().interrupt(&"really?").await?;
            }
            Err::<DynUpdate, _>(NodeError::new("the bank refused"))
        });
        let handler = |task: NodeTask| async move {
            let first: Value = task.run().interrupt(&"write it off?").await?;
            let second: Value = task.run().interrupt(&"tell the boss?").await?;
            if task.run().context().hit("handler") == 1 {
                return Err(NodeError::permanent("the handler too"));
            }
            task.state().update(json!({ "log": [first, second] }))
        };
        graph = graph.node("ask", node.retry(retries).on_error(handler)).edge(START, "ask");
        let bench = Bench::new(graph);
        let _ = bench.start(json!({ "x": 1 })).await.unwrap();
        assert_eq!(asked(bench.answer("YES SEND").await.unwrap()), ["really?"]);
        assert_eq!(asked(bench.answer("YES REALLY").await.unwrap()), ["write it off?"]);
        assert_eq!(asked(bench.answer("no, never").await.unwrap()), ["tell the boss?"]);
        let runs = bench.tally.of("node");
        let error = bench.answer("no").await.unwrap_err();
        assert!(error.to_string().contains("the handler too"), "{error}");
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["no, never", "no"]));
        assert_eq!(bench.tally.of("node"), runs, "only the handler ran again");
    }
}

/// If an old superstep runs again, its tasks store another result.
#[tokio::test]
async fn last_result_of_a_task_replaces_its_earlier_result() {
    let mut graph = strict().node("mark", mark()).node("one", asks(&["1"])).node("two", asks(&["2"]));
    for node in ["mark", "one", "two"] {
        graph = graph.edge(START, node).edge(node, END);
    }
    let bench = Bench::new(graph);
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let old = bench.state().await.config;
    let _ = bench.start(json!({ "x": 2 })).await.unwrap();
    let one = open.iter().find(|question| question.value == "1").unwrap().id.clone();
    let answers = Command::<DynState>::answers([(one, "yes")]);
    let _ = bench.graph.invoke(answers).config(old.clone()).context(bench.tally.clone()).await.unwrap();
    assert_eq!(bench.tally.of("mark"), 3);
    let StateSnapshot { values: mut state, tasks, .. } = bench.graph.state(old).await.unwrap();
    let result = tasks.into_iter().find(|task| task.node == "mark").unwrap().result.expect("it has finished");
    result.into_writes().into_iter().for_each(|write| state.reduce(write).unwrap());
    assert_eq!(state.get("log"), Some(&json!(["mark"])));
}

#[tokio::test]
async fn replayed_step_is_not_a_question() {
    let work = NodeDef::task(|task: NodeTask| async move {
        let run = task.run().context().hit("work");
        if run == 3 {
            return Err(NodeError::permanent("boom"));
        }
        task.run().step("pay", async || Ok(run)).await?;
        if run < 3 {
            return Err(NodeError::permanent("boom"));
        }
        let answer: Value = task.run().interrupt(&"q").await?;
        task.state().update(json!({ "log": [answer] }))
    });
    let bench = Bench::new(strict().node("work", work).edge(START, "work").edge("work", END));
    bench.start(json!({ "x": 1 })).await.unwrap_err();
    // The first run without an input copies the checkpoint, and the second one replays the copy.
    for _ in 0..2 {
        bench.continue_from(bench.state().await.config).await.unwrap_err();
    }
    assert_eq!(log(bench.answer("yes").await.unwrap()), json!(["yes"]));
}
