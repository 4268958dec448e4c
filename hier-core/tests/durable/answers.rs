//! Invalid answers, and answers that outlive the process which received them.

use std::sync::Arc;

use hier_core::checkpoint::MemorySaver;
use hier_core::graph::{Checkpoints, NodeDef};
use hier_core::prelude::*;
use hier_core::{Durability, NodeErrorKind};
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::faulty::Faulty;
use super::kit::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Accept { by: String },
    Reject,
}

/// A node that wants a verdict.
fn judge() -> Node {
    NodeDef::task(|task: NodeTask| async move {
        task.run().context().hit(task.run().node());
        let verdict: Verdict = task.run().interrupt(&json!({ "amount": 3 })).await?;
        task.state().update(json!({ "log": [format!("{verdict:?}")] }))
    })
}

fn judged() -> Builder {
    let mut graph = marks(&["sibling", "z"]);
    graph = graph.node("judge", judge()).edge(START, "judge").edge(START, "sibling").edge("judge", "z");
    graph
}

#[tokio::test]
async fn mistyped_answer_is_refused_and_the_question_stays_open() {
    let bench = Bench::new(judged());
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    for wrong in [json!("perhaps"), json!({ "accept": {} }), json!(7)] {
        let error = bench.answer(&wrong).await.unwrap_err();
        let RunError::Node { node, error: inner, .. } = &error else { panic!("{error}") };
        let NodeErrorKind::WrongAnswer { question, .. } = inner.kind() else { panic!("{error}") };
        assert_eq!((node.as_str(), &question.id), ("judge", &open[0].id));
        assert!(error.to_string().contains(&wrong.to_string()), "{error}");
        assert_eq!(bench.state().await.questions, open);
    }
    let end = bench.answer(Verdict::Accept { by: "Ada".to_owned() }).await.unwrap();
    assert_eq!(log(end), json!([r#"Accept { by: "Ada" }"#, "sibling", "z"]));
    assert_eq!(bench.tally.all(), json!({ "judge": 5, "sibling": 1, "z": 1 }));
}

/// The first answer stays when the second is refused.
#[tokio::test]
async fn mistyped_second_answer_keeps_the_first() {
    let mut graph = builder();
    let node = NodeDef::task(|task: NodeTask| async move {
        let name: String = task.run().interrupt(&"name").await?;
        let age: u32 = task.run().interrupt(&"age").await?;
        task.state().update(json!({ "log": [name, age] }))
    });
    graph = graph.node("ask", node).edge(START, "ask");
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    assert_eq!(asked(bench.answer("Ada").await.unwrap()), ["age"]);
    bench.answer("old").await.unwrap_err();
    assert_eq!(asked(bench.continue_run().await.unwrap()), ["age"], "a wrong answer is not kept");
    assert_eq!(log(bench.answer(36).await.unwrap()), json!(["Ada", 36]));
}

/// In a graph inside a graph the question must stay open for the root.
#[tokio::test]
async fn mistyped_answer_in_a_subgraph_can_be_corrected() {
    let mut inner = marks(&["before"]);
    inner = inner.node("judge", judge()).edge(START, "before").edge("before", "judge");
    let mut outer = marks(&["z"]);
    outer = outer.subgraph("sub", &compile(inner)).edge(START, "sub").edge("sub", "z");
    let bench = Bench::new(outer);
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(open[0].path, ["sub", "judge"]);
    let error = bench.answer("perhaps").await.unwrap_err();
    assert!(error.to_string().contains("perhaps"), "{error}");
    let still = bench.state().await.questions;
    assert_eq!(still.iter().map(|question| &question.id).collect::<Vec<_>>(), [&open[0].id]);
    assert_eq!(log(bench.answer(Verdict::Reject).await.unwrap()), json!(["before", "Reject", "z"]));
    assert_eq!(bench.tally.all(), json!({ "before": 1, "judge": 3, "z": 1 }));
}

/// A handler takes over failures, not answers.
#[tokio::test(start_paused = true)]
async fn mistyped_answer_is_neither_handled_nor_retried() {
    let mut graph = builder();
    let handler = |task: NodeTask| {
        let update = task.state().update(json!({ "log": ["handled"] }));
        async move { update }
    };
    graph = graph.node("judge", judge().retry(3).on_error(handler)).edge(START, "judge");
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    bench.answer("perhaps").await.unwrap_err();
    assert_eq!(bench.tally.of("judge"), 2);
    assert_eq!(log(bench.answer(Verdict::Reject).await.unwrap()), json!(["Reject"]));
}

/// The run that received the answer dies while the node runs. The next run continues without another answer.
#[tokio::test]
async fn answer_survives_the_run_that_consumed_it() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let (reached, asleep) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let mut graph = builder();
        let (tell, wait) = (reached.clone(), asleep.clone());
        let node = NodeDef::task(move |task: NodeTask| {
            let (tell, wait) = (tell.clone(), wait.clone());
            async move {
                let answer: Value = task.run().interrupt(&"q").await?;
                if task.run().context().hit("answered") == 1 {
                    tell.notify_one();
                    wait.notified().await;
                }
                task.state().update(json!({ "log": [answer] }))
            }
        });
        graph = graph.node("ask", node).edge(START, "ask");
        let mut bench = Bench::new(graph);
        bench.config = bench.config.durability(durability);
        let _ = bench.start(json!({ "x": 1 })).await.unwrap();
        tokio::select! {
            ended = bench.answer("A") => panic!("{ended:?}"),
            () = reached.notified() => {}
        }
        assert_eq!(bench.state().await.questions, [], "{durability:?}: it is answered");
        assert_eq!(log(bench.continue_run().await.unwrap()), json!(["A"]), "{durability:?}");
    }
}

/// With nothing open, an answer waits for the first question of the step; one call takes it, and no later step.
#[tokio::test]
async fn first_question_after_a_breakpoint_takes_the_answer() {
    let mut graph = marks(&["a"]);
    graph = graph.node("b", asks(&["b1", "b2"])).node("c", asks(&["c1"]));
    graph = graph.edge(START, "a").edge("a", "b").edge("b", "c").interrupt_before(["b"]);
    let bench = Bench::new(graph);
    assert!(matches!(bench.start(json!({ "x": 1 })).await.unwrap(), Outcome::Stopped(_)));
    assert_eq!(asked(bench.answer("first").await.unwrap()), ["b2"]);
    assert_eq!(asked(bench.answer("second").await.unwrap()), ["c1"]);
    assert_eq!(log(bench.answer("third").await.unwrap()), json!(["a", "first", "second", "third"]));
}

/// A failed task keeps its answer, and no other task gets it.
#[tokio::test]
async fn unaddressed_answer_is_consumed_once() {
    let mut graph = marks(&["a"]);
    let node = NodeDef::task(|task: NodeTask| async move {
        let answer: Value = task.run().interrupt(&"b1").await?;
        if task.run().context().hit("answered") == 1 {
            return Err(NodeError::permanent("after"));
        }
        let other: Value = task.run().interrupt(&"b2").await?;
        task.state().update(json!({ "log": [answer, other] }))
    });
    graph = graph.node("b", node).edge(START, "a").edge("a", "b").interrupt_before(["b"]);
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    bench.answer("first").await.unwrap_err();
    assert_eq!(asked(bench.continue_run().await.unwrap()), ["b2"]);
    assert_eq!(asked(bench.continue_run().await.unwrap()), ["b2"], "it does not answer the second question too");
    assert_eq!(log(bench.answer("second").await.unwrap()), json!(["a", "first", "second"]));
}

/// A mistyped answer without a question is not kept.
#[tokio::test]
async fn mistyped_unaddressed_answer_is_dropped() {
    let mut graph = marks(&["a"]);
    graph = graph.node("judge", judge()).edge(START, "a").edge("a", "judge").interrupt_before(["judge"]);
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    bench.answer("perhaps").await.unwrap_err();
    assert_eq!(questions(bench.continue_run().await.unwrap()).len(), 1);
    assert_eq!(log(bench.answer(Verdict::Reject).await.unwrap()), json!(["a", "Reject"]));
}

/// An answer that waits for the first question reaches a question in a subgraph, whether the thread stopped before the subgraph or
/// in it. It is used once.
#[tokio::test]
async fn unaddressed_answer_reaches_subgraphs() {
    for durability in [Durability::Sync, Durability::Exit] {
        for checkpoints in [Checkpoints::PerCall, Checkpoints::PerThread] {
            for (outside, inside) in [(true, false), (false, true), (true, true)] {
                let mut inner = row(&["i", "j"]);
                inner = inner.node("ask", asks(&["1", "2"])).edge("j", "ask");
                if inside {
                    inner = inner.interrupt_before(["j"]);
                }
                let mut middle = builder();
                middle =
                    middle.subgraph("inner", &compile(inner)).checkpoints("inner", checkpoints).edge(START, "inner");
                let mut outer = row(&["o"]);
                outer = outer.subgraph("sub", &compile(middle)).checkpoints("sub", checkpoints).edge("o", "sub");
                if outside {
                    outer = outer.interrupt_before(["sub"]);
                }
                let mut bench = Bench::new(outer);
                bench.config = bench.config.durability(durability);
                assert!(matches!(bench.start(json!({ "x": 1 })).await.unwrap(), Outcome::Stopped(_)));
                let mut end = bench.answer("first").await.unwrap();
                if outside && inside {
                    // It waits at the next stop, too.
                    assert!(matches!(end, Outcome::Stopped(_)), "{end:?}");
                    end = bench.continue_run().await.unwrap();
                }
                assert_eq!(asked(end), ["2"], "{durability:?} {checkpoints:?} {outside} {inside}");
                assert_eq!(asked(bench.continue_run().await.unwrap()), ["2"]);
                assert_eq!(log(bench.answer("second").await.unwrap()), json!(["o", "i", "j", "first", "second"]));
            }
        }
    }
}

/// A process that dies between any two commits leaves the answer with the one question that took it.
#[tokio::test]
async fn unaddressed_answer_is_consumed_once_across_crashes() {
    let graph = || {
        let mut inner = builder();
        inner = inner.node("one", asks(&["1"])).node("two", asks(&["2"])).edge(START, "one").edge("one", "two");
        let mut outer = row(&["o"]);
        outer = outer.subgraph("sub", &compile(inner)).edge("o", "sub").interrupt_before(["sub"]);
        outer
    };
    let mut deaths = 0;
    for commits in 1.. {
        let memory = MemorySaver::new();
        let bench = Bench::on(graph(), memory.clone());
        assert!(matches!(bench.start(json!({ "x": 1 })).await.unwrap(), Outcome::Stopped(_)));
        let mut dying = Bench::on(graph(), Faulty::new(&memory, commits));
        dying.config = dying.config.durability(Durability::Sync);
        let died = dying.answer("first").await;
        deaths += usize::from(died.is_err());
        assert_eq!(asked(bench.continue_run().await.unwrap()), ["2"], "it died after {commits} commits");
        assert_eq!(log(bench.answer("second").await.unwrap()), json!(["o", "first", "second"]));
        if died.is_ok() {
            break;
        }
    }
    assert!(deaths > 2, "it died {deaths} times");
}

/// Two nodes of a graph inside ask at once, in one task of the graph around it.
#[tokio::test]
async fn plain_answer_to_several_questions_of_one_task_is_refused() {
    let mut inner = marks(&[]);
    inner = inner.node("p", asks(&["one?"])).node("q", asks(&["two?"])).edge(START, "p").edge(START, "q");
    let mut outer = marks(&[]);
    outer = outer.subgraph("sub", &compile(inner)).edge(START, "sub");
    let bench = Bench::new(outer);
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(open.len(), 2);
    let before = bench.stored().await;
    let error = bench.answer("yes").await.expect_err("it is for neither");
    let RunError::Answer { reason, pending, .. } = &error else { panic!("{error}") };
    assert!(reason.contains("2 questions are open: answer by id"), "{error}");
    assert_eq!(pending.iter().map(|open| &open.id).collect::<Vec<_>>(), [&open[0].id, &open[1].id]);
    assert!(open.iter().all(|question| error.to_string().contains(&question.id)), "{error}");
    assert_eq!(bench.stored().await, before, "nothing is taken");
    let answers = open.iter().map(|question| (question.id.clone(), question.value.clone()));
    assert_eq!(log(bench.command(Command::answers(answers)).await.unwrap()), json!(["one?", "two?"]));
}
