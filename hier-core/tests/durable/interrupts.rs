//! Questions: which tasks ask again, and which answer belongs to which question.

use hier_core::graph::NodeDef;
use hier_core::prelude::*;
use serde_json::{Value, json};
use xxhash_rust::xxh3::xxh3_128;

use super::kit::*;

/// `ask` stands between nothing and `z`.
fn one(questions: &'static [&'static str]) -> Bench {
    let mut graph = marks(&["z"]);
    graph = graph.node("ask", asks(questions)).edge(START, "ask").edge("ask", "z");
    Bench::new(graph)
}

#[tokio::test]
async fn nth_interrupt_gets_the_nth_answer() {
    let bench = one(&["q1", "q2"]);
    let first = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let task = bench.state().await.tasks[0].id;
    assert_eq!(first[0].id, format!("{:032x}", xxh3_128(format!("ask:{task}").as_bytes())));
    assert_eq!((&first[0].value, &first[0].path), (&json!("q1"), &vec!["ask".to_owned()]));
    let second = questions(bench.answer("A1").await.unwrap());
    assert_eq!(bench.state().await.tasks[0].id, task, "it is the same task");
    assert_eq!(second[0].id, format!("{:032x}", xxh3_128(format!("ask:{task}|1").as_bytes())));
    assert_eq!((second.len(), &second[0].value), (1, &json!("q2")));
    assert_eq!(log(bench.answer("A2").await.unwrap()), json!(["A1", "A2", "z"]));
    assert_eq!(bench.tally.all(), json!({ "ask": 3, "z": 1 }));
}

/// Decision 12: an answer is not used twice.
#[tokio::test]
async fn continuing_without_an_answer_asks_again() {
    let bench = one(&["q1", "q2"]);
    assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["q1"]);
    assert_eq!(asked(bench.continue_run().await.unwrap()), ["q1"]);
    assert_eq!(asked(bench.answer("A1").await.unwrap()), ["q2"]);
    assert_eq!(asked(bench.continue_run().await.unwrap()), ["q2"]);
    assert_eq!(log(bench.answer("A2").await.unwrap()), json!(["A1", "A2", "z"]));
}

#[tokio::test]
async fn any_value_can_be_an_answer() {
    for answer in [json!(false), json!(0), json!(""), json!([]), json!({}), Value::Null] {
        let bench = one(&["q"]);
        let _ = bench.start(json!({ "x": 1 })).await.unwrap();
        assert_eq!(log(bench.answer(&answer).await.unwrap()), json!([answer, "z"]));
    }
}

/// Two nodes that ask and one that does not, then a join.
fn three() -> Bench {
    let mut graph = marks(&["done", "j"]);
    graph = graph.node("p1", asks(&["ask p1"])).node("p2", asks(&["ask p2"]));
    graph = graph.edge(START, "p1").edge(START, "p2").edge(START, "done").join(["p1", "p2", "done"], "j");
    Bench::new(graph)
}

#[tokio::test]
async fn parallel_questions_are_answered_by_id() {
    let bench = three();
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    assert_eq!(open.iter().map(|question| question.path[0].as_str()).collect::<Vec<_>>(), ["p1", "p2"]);
    let still = questions(bench.command(Command::answers([(&*open[1].id, "2!")])).await.unwrap());
    assert_eq!(still, [open[0].clone()]);
    let live = bench.state().await;
    assert_eq!(log_of(&live), json!(["done", "2!"]), "finished tasks are shown");
    assert_eq!((live.next, live.questions), (vec!["p1".to_owned()], vec![open[0].clone()]));
    assert_eq!(log(bench.answer("1!").await.unwrap()), json!(["done", "1!", "2!", "j"]));
    assert_eq!(bench.tally.all(), json!({ "done": 1, "p1": 2, "p2": 2, "j": 1 }));
}

#[tokio::test]
async fn several_answers_are_accepted_at_once() {
    let bench = three();
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let answers = open.iter().map(|question| (question.id.clone(), format!("to {}", question.path[0])));
    let end = bench.command(Command::answers(answers)).await.unwrap();
    assert_eq!(log(end), json!(["done", "to p1", "to p2", "j"]));
    assert_eq!(bench.tally.all(), json!({ "done": 1, "p1": 2, "p2": 2, "j": 1 }));
}

/// Nothing is stored, and the error lists the pending questions.
#[tokio::test]
async fn answers_without_a_matching_question_are_refused() {
    let bench = three();
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let before = bench.stored().await;
    let none: [(String, Value); 0] = [];
    let refused = [
        Command::resume("whose?"),
        Command::answers(none),
        Command::answers([("0123456789abcdef0123456789abcdef", "nobody's")]),
        Command::answers([(open[0].id.clone(), "fine"), ("p2".to_owned(), "no id")]),
    ];
    for command in refused {
        let error = bench.command(command).await.unwrap_err();
        let RunError::Answer { graph, pending, .. } = &error else { panic!("{error}") };
        assert_eq!((graph.as_str(), pending), ("case", &open));
        let text = error.to_string();
        assert!(open.iter().all(|question| text.contains(&question.id)), "{text}");
    }
    assert_eq!(bench.stored().await, before);
    assert_eq!(bench.tally.of("p1"), 1, "nothing ran");
    // A question with an answer is no longer open.
    let _ = bench.command(Command::answers([(open[0].id.clone(), "1")])).await.unwrap();
    let error = bench.command(Command::answers([(open[0].id.clone(), "2")])).await.unwrap_err();
    assert!(matches!(&error, RunError::Answer { pending, .. } if *pending == [open[1].clone()]), "{error}");
}

/// The update and the target of the command are stored before the node runs again.
#[tokio::test]
async fn answer_can_carry_an_update_and_a_target() {
    let mut graph = marks(&["beside", "z"]);
    let sees = NodeDef::task(|task: NodeTask| async move {
        let answer: Value = task.run().interrupt(&"q").await?;
        task.state().update(json!({ "log": [[answer, task.state().get("x")]] }))
    });
    graph = graph.node("ask", sees).edge(START, "ask").edge("ask", "z");
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let update = bench.update(json!({ "x": 42, "log": ["u"] }));
    let end = bench.command(Command::resume("R").with_update(update).goto("beside")).await.unwrap();
    assert_eq!(log(end), json!(["u", ["R", 42], "beside", "z"]));
    let steps: Vec<i64> = bench.history().await.iter().map(|at| at.step).collect();
    assert_eq!(steps, [-1, 0, 1, 2], "the command is not a separate step");
}

#[tokio::test]
async fn answer_is_kept_when_the_node_fails_after_it() {
    let mut graph = builder();
    let node = NodeDef::task(|task: NodeTask| async move {
        let answer: Value = task.run().interrupt(&"q").await?;
        if task.run().context().hit("answered") == 1 {
            return Err(NodeError::permanent("after"));
        }
        task.state().update(json!({ "log": [answer] }))
    });
    graph = graph.node("ask", node).edge(START, "ask");
    let bench = Bench::new(graph);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let error = bench.answer("ANS").await.unwrap_err();
    assert!(matches!(&error, RunError::Node { node, .. } if node == "ask"), "{error}");
    let open = bench.state().await;
    assert_eq!((open.tasks[0].error.as_deref(), open.questions.len()), (Some("after"), 0));
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["ANS"]));
}

/// Each attempt asks from the beginning and is given the same answers.
#[tokio::test(start_paused = true)]
async fn node_that_is_retried_keeps_its_answers() {
    let mut graph = builder();
    let node = NodeDef::task(|task: NodeTask| async move {
        let one: Value = task.run().interrupt(&"one").await?;
        if task.run().context().hit("attempts") == 1 {
            return Err(NodeError::new("not yet"));
        }
        let two: Value = task.run().interrupt(&"two").await?;
        task.state().update(json!({ "log": [one, two] }))
    });
    graph = graph.node("ask", node.retry(3)).edge(START, "ask");
    let bench = Bench::new(graph);
    assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["one"]);
    assert_eq!(asked(bench.answer(1).await.unwrap()), ["two"], "in the second attempt");
    assert_eq!(log(bench.answer(2).await.unwrap()), json!([1, 2]));
}

#[tokio::test]
async fn new_input_replaces_the_question() {
    let bench = three();
    let open = questions(bench.start(json!({ "x": 1 })).await.unwrap());
    let again = questions(bench.start(json!({ "x": 2 })).await.unwrap());
    assert_eq!(bench.tally.of("done"), 2, "the earlier results are dropped");
    assert!(again.iter().all(|question| !open.contains(question)), "they are new questions");
    let answers = again.iter().map(|question| (question.id.clone(), 0));
    let end = bench.command(Command::answers(answers)).await.unwrap();
    assert_eq!(end.state().to_value(), json!({ "x": 2, "log": ["done", 0, 0, "j"] }));
}

/// A question that was answered shows in the record of its checkpoint, and is marked.
#[tokio::test]
async fn record_shows_its_questions() {
    let bench = one(&["q"]);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let _ = bench.answer("A").await.unwrap();
    let record = &bench.history().await[1];
    assert_eq!((record.next.as_slice(), record.questions.len()), (&["ask".to_owned()][..], 1));
    assert!(record.questions[0].answered && record.questions[0].value == "q");
    assert_eq!(bench.state().await.questions, []);
}

#[tokio::test]
async fn answer_on_a_finished_thread_is_refused() {
    let bench = one(&["q"]);
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let _ = bench.answer("A").await.unwrap();
    let before = bench.history().await.len();
    assert_eq!(log(bench.answer("B").await.unwrap()), json!(["A", "z"]));
    assert_eq!((bench.history().await.len(), bench.tally.of("ask")), (before, 2));
}

#[tokio::test]
async fn continuing_without_a_saver_is_refused() {
    let mut graph = builder();
    graph = graph.node("ask", asks(&["q"])).edge(START, "ask");
    let graph = compile(graph);
    let input = graph.update(json!({ "x": 1 })).unwrap();
    let stopped = graph.invoke(input).context(Tally::default()).await.unwrap();
    assert_eq!(asked(stopped), ["q"]);
    let error = graph.invoke(Command::resume("A")).context(Tally::default()).await.unwrap_err();
    assert!(matches!(error, RunError::NoCheckpointer { .. }), "{error}");
}

#[tokio::test]
async fn interrupt_without_a_checkpointer_is_not_resumable() {
    let builder = || {
        let mut builder = strict();
        builder = builder.node("ask", asks(&["who?"]));
        builder = builder.edge(START, "ask").edge("ask", END);
        builder
    };
    let input = schema().update(json!({ "x": 1 })).unwrap();
    let alone = compile(builder()).invoke(input).thread("t").context(Tally::default()).await.unwrap();
    let kept = Bench::new(builder()).start(json!({ "x": 1 })).await.unwrap();
    for (outcome, resumable) in [(alone, false), (kept, true)] {
        let Outcome::Interrupted(asked) = outcome else { panic!("{outcome:?}") };
        assert_eq!((asked.questions[0].parse::<String>().unwrap().as_str(), asked.resumable), ("who?", resumable));
        assert!(asked.questions[0].parse::<u32>().is_err());
    }
}
