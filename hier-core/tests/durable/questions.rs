//! An answer belongs to its question, in whatever order an attempt asks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use hier_core::Result;
use hier_core::checkpoint::MemorySaver;
use hier_core::graph::Retry;
use hier_core::prelude::*;
use proptest::prelude::*;
use tokio::time::sleep;

use crate::kit::{Tally, asked, questions};

#[derive(State, Clone, Debug, Default, PartialEq)]
struct Log {
    #[reducer(append)]
    lines: Vec<String>,
}

fn config() -> Config {
    Config::new().thread("t")
}

const FILES: [&str; 4] = ["a", "b", "c", "d"];

/// The order in which each attempt asks, and the error that it returns.
type Orders = Arc<Mutex<Vec<([u64; 4], usize)>>>;

async fn deletes(run: &Run<Orders>) -> Result<LogUpdate> {
    let (delays, returned) = run.context().lock().expect("no test panics here").pop().unwrap_or(([0; 4], 0));
    let ask = |file: &'static str, delay| async move {
        sleep(Duration::from_millis(delay)).await;
        run.interrupt::<String>(&format!("delete {file}?")).await
    };
    let mut answers = join_all(FILES.into_iter().zip(delays).map(|(file, delay)| ask(file, delay))).await;
    answers.rotate_left(returned);
    let mut lines = answers.into_iter().collect::<Result<Vec<_>>>()?;
    lines.sort();
    Ok(Log::update().lines(lines))
}

graph! { Deletes<Log, Orders> = Graph { nodes: [deletes], edges: [START >> deletes >> END] } }

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn concurrent_questions_keep_their_answers(
        orders in prop::collection::vec((prop::array::uniform4(0u64..4), 0usize..4), 8),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let graph = Deletes::compile().checkpointer(MemorySaver::new());
            let orders: Orders = Arc::new(Mutex::new(orders));
            let mut outcome = graph.invoke(Log::update()).config(config()).context(orders.clone()).await.unwrap();
            let mut seen = Vec::new();
            while matches!(outcome, Outcome::Interrupted(_)) {
                let question = asked(outcome).remove(0);
                let answer = format!("yes, {question}");
                seen.push(question);
                outcome = graph.invoke(Command::resume(answer)).config(config()).context(orders.clone()).await.unwrap();
            }
            assert_eq!(outcome.state().lines, FILES.map(|file| format!("yes, delete {file}?")));
            seen.sort();
            assert_eq!(seen, FILES.map(|file| format!("delete {file}?")), "each is asked once");
        });
    }
}

async fn drafts(run: &Run<Tally>) -> Result<LogUpdate> {
    let version = run.context().hit("drafts");
    let first: String = run.interrupt(&format!("publish version {version}?")).await?;
    Ok(Log::update().lines([format!("version {version}: {first}")]))
}

graph! { Drafts<Log, Tally> = Graph { nodes: [drafts], edges: [START >> drafts >> END] } }

#[tokio::test]
async fn answer_is_not_used_by_another_question() {
    let (graph, tally) = (Drafts::compile().checkpointer(MemorySaver::new()), Tally::default());
    let first = questions(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap()).remove(0);
    let outcome = graph.invoke(Command::resume("yes")).config(config()).context(tally.clone()).await.unwrap();
    let second = questions(outcome).remove(0);
    assert_eq!((&*second.value.to_string(), second.id == first.id), ("\"publish version 2?\"", false));
    let stale = Command::answers([(first.id.clone(), "no")]);
    let refused = graph.invoke(stale).config(config()).context(tally).await.unwrap_err().to_string();
    assert!(refused.contains(&format!("no open question with the id `{}`", first.id)), "{refused}");
}

async fn counts(run: &Run<Tally>) -> Result<LogUpdate> {
    let waiting = run.context().hit("counts");
    let stop: String = run.interrupt(&format!("{waiting} wait; stop?")).key("stop").await?;
    let sure: String = run.interrupt(&"sure?").await?;
    let again: String = run.interrupt(&"sure?").await?;
    Ok(Log::update().lines([stop, sure, again]))
}

graph! { Counts<Log, Tally> = Graph { nodes: [counts], edges: [START >> counts >> END] } }

#[tokio::test]
async fn keys_identify_questions_whose_values_change() {
    let (graph, tally) = (Counts::compile().checkpointer(MemorySaver::new()), Tally::default());
    let mut outcome = graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap();
    let mut seen = Vec::new();
    for answer in ["one", "two", "three"] {
        seen.extend(asked(outcome));
        outcome = graph.invoke(Command::resume(answer)).config(config()).context(tally.clone()).await.unwrap();
    }
    assert_eq!(seen, ["1 wait; stop?", "sure?", "sure?"]);
    assert_eq!(outcome.state().lines, ["one", "two", "three"]);
}

async fn joins(run: &Run<Tally>) -> Result<LogUpdate> {
    let keys: &[&str] = if run.context().hit("joins") == 1 { &["late"] } else { &["early", "late"] };
    let answers = join_all(keys.iter().map(|key| run.interrupt::<String>(&format!("{key}?")).key(*key))).await;
    Ok(Log::update().lines(answers.into_iter().collect::<Result<Vec<_>>>()?))
}

graph! { Joins<Log, Tally> = Graph { nodes: [joins], edges: [START >> joins >> END] } }

#[tokio::test]
async fn question_with_a_key_does_not_take_the_id_of_another() {
    let (graph, tally) = (Joins::compile().checkpointer(MemorySaver::new()), Tally::default());
    let late = questions(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap()).remove(0);
    let early = questions(graph.invoke(()).config(config()).context(tally.clone()).await.unwrap()).remove(0);
    assert_eq!(late.value, "late?");
    assert_eq!(early.value, "early?");
    assert_ne!(late.id, early.id);
    let stale = Command::answers([(late.id, "yes")]);
    assert!(graph.invoke(stale).config(config()).context(tally).await.is_err(), "it is not open now");
}

async fn precedes(run: &Run<Tally>) -> Result<LogUpdate> {
    let is_first = run.context().hit("precedes") == 1;
    let early: Option<String> = if is_first { None } else { Some(run.interrupt(&"early?").await?) };
    let late: String = run.interrupt(&"late?").key("late").await?;
    Ok(Log::update().lines(early.into_iter().chain([late]).collect::<Vec<_>>()))
}

graph! { Precedes<Log, Tally> = Graph { nodes: [precedes], edges: [START >> precedes >> END] } }

#[tokio::test]
async fn question_without_a_key_does_not_take_the_id_of_one_with_a_key() {
    let (graph, tally) = (Precedes::compile().checkpointer(MemorySaver::new()), Tally::default());
    let late = questions(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap()).remove(0);
    let early = questions(graph.invoke(()).config(config()).context(tally.clone()).await.unwrap()).remove(0);
    assert_eq!((&late.value, &early.value), (&"late?".into(), &"early?".into()));
    assert_ne!(late.id, early.id);
    let stale = Command::answers([(&late.id, "no")]);
    assert!(graph.invoke(stale).config(config()).context(tally.clone()).await.is_err(), "it is not open now");
    let answer = Command::answers([(&early.id, "one")]);
    let outcome = graph.invoke(answer).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!(questions(outcome)[0].id, late.id);
    let answer = Command::answers([(&late.id, "two")]);
    let outcome = graph.invoke(answer).config(config()).context(tally).await.unwrap();
    assert_eq!(outcome.state().lines, ["one", "two"]);
}

async fn guesses(run: &Run<Tally>) -> Result<LogUpdate> {
    let name: String = run.interrupt(&"name?").await?;
    if run.context().hit("guesses") == 1 {
        return Err(NodeError::permanent("no connection"));
    }
    Ok(Log::update().lines([name]))
}

async fn comforts(run: &Run<Tally>) -> Result<LogUpdate> {
    let name: String = run.interrupt(&"name?").await?;
    Ok(Log::update().lines([format!("handled by {name}")]))
}

graph! { Guesses<Log, Tally> = Graph {
    nodes: [guesses { on_error: comforts }],
    edges: [START >> guesses >> END],
} }

#[tokio::test]
async fn handler_asks_the_question_of_its_node_again() {
    let (graph, tally) = (Guesses::compile().checkpointer(MemorySaver::new()), Tally::default());
    assert_eq!(asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap()), ["name?"]);
    let outcome = graph.invoke(Command::resume("ann")).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!(asked(outcome), ["name?"]);
    let end = graph.invoke(Command::resume("bob")).config(config()).context(tally).await.unwrap();
    assert_eq!(end.state().lines, ["handled by bob"]);
}

async fn left(run: &Run<Tally>) -> Result<LogUpdate> {
    run.context().hit("left");
    let count: u32 = run.interrupt(&"how many?").check(small).await?;
    let sure: String = run.interrupt(&"sure?").await?;
    Ok(Log::update().lines([format!("left {count} {sure}")]))
}

fn small(answer: &serde_json::Value) -> Result<(), String> {
    if answer.as_u64().is_some_and(|count| count < 10) { Ok(()) } else { Err("give a number below 10".to_owned()) }
}

async fn right(run: &Run<Tally>) -> Result<LogUpdate> {
    let sure: String = run.interrupt(&"sure?").await?;
    if run.context().hit("right") == 1 {
        return Err(NodeError::new("no connection"));
    }
    Ok(Log::update().lines([format!("right {sure}")]))
}

fn twice() -> Retry {
    Retry { interval: Duration::ZERO, ..Retry::attempts(2) }
}

graph! { Both<Log, Tally> = Graph {
    nodes: [left, right { retry: twice() }],
    edges: [START >> left >> END, START >> right >> END],
} }

graph! { Around<Log, Tally> = Graph { nodes: [Both { checkpoints: none }], edges: [START >> Both >> END] } }

graph! { Outermost<Log, Tally> = Graph { nodes: [Around { checkpoints: none }], edges: [START >> Around >> END] } }

#[tokio::test]
async fn questions_of_graphs_without_checkpoints_are_answered() {
    for depth in 1..=2 {
        let (saver, tally) = (MemorySaver::new(), Tally::default());
        let graph = if depth == 1 { Around::compile() } else { Outermost::compile() }.checkpointer(saver);
        let mut outcome = graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap();
        let mut seen = Vec::new();
        while matches!(outcome, Outcome::Interrupted(_)) {
            let open = questions(outcome);
            assert_eq!(graph.state(config()).await.unwrap().questions, open);
            let answer = |question: &hier_core::Question| match question.value.as_str() {
                Some("how many?") => serde_json::json!(7),
                _ => serde_json::json!(question.path.last()),
            };
            let answers: Vec<_> = open.iter().map(|question| (question.id.clone(), answer(question))).collect();
            seen.extend(open.into_iter().map(|question| question.value));
            outcome = graph.invoke(Command::answers(answers)).config(config()).context(tally.clone()).await.unwrap();
        }
        assert_eq!(seen, ["how many?", "sure?", "sure?"], "{depth}");
        assert_eq!(outcome.state().lines, ["left 7 left", "right right"], "{depth}");
    }
}

#[tokio::test]
async fn mistyped_answer_without_checkpoints_is_not_consumed() {
    let (graph, tally) = (Around::compile().checkpointer(MemorySaver::new()), Tally::default());
    let open = questions(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    let how_many = open.iter().find(|question| question.value == "how many?").unwrap().id.clone();
    let wrong = Command::answers([(how_many.clone(), 70)]);
    let error = graph.invoke(wrong).config(config()).context(tally.clone()).await.unwrap_err().to_string();
    assert!(error.contains("give a number below 10"), "{error}");
    let right = Command::answers([(how_many, 7)]);
    assert_eq!(asked(graph.invoke(right).config(config()).context(tally).await.unwrap()), ["sure?", "sure?"]);
}
