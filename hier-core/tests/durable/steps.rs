//! Durable steps: done once, whatever happens around them.

use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, MemorySaver, SaverError, WhenRunning};
use hier_core::graph::Retry;
use hier_core::prelude::*;
use hier_core::{Durability, NodeErrorKind, Question, Result, StateUpdate};

use crate::kit::Tally;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Log {
    #[reducer(append)]
    lines: Vec<String>,
    #[reducer(append)]
    items: Vec<u64>,
}

/// A step that counts how often it is done.
async fn count(run: &Run<Tally>, name: &str) -> Result<usize> {
    let tally = run.context().clone();
    run.step(name, async || Ok(tally.hit(name))).await
}

async fn asks(run: &Run<Tally>) -> Result<LogUpdate> {
    let place = run.namespace().len();
    let first = count(run, &format!("first {place}")).await?;
    let answer: String = run.interrupt(&"go on?").await?;
    let second = count(run, &format!("second {place}")).await?;
    Ok(Log::update().lines([format!("{first} {answer} {second}")]))
}

async fn beside(run: &Run<Tally>) -> Result<LogUpdate> {
    let place = run.namespace().len();
    Ok(Log::update().lines([format!("beside {}", count(run, &format!("beside {place}")).await?)]))
}

graph! { Plain<Log, Tally> = Graph { nodes: [asks], edges: [START >> asks >> END] } }

graph! { Third<Log, Tally> = Graph { nodes: [asks, beside], edges: [START >> [asks, beside] >> END] } }
graph! { Second<Log, Tally> = Graph { nodes: [early = beside, Third, beside], edges: [START >> early >> [Third, beside] >> END] } }
graph! { First<Log, Tally> = Graph { nodes: [early = beside, Second], edges: [START >> early >> Second >> END] } }

graph! { ThirdKept<Log, Tally> = Graph { nodes: [asks, beside], edges: [START >> [asks, beside] >> END] } }
graph! {
    SecondKept<Log, Tally> = Graph {
        nodes: [early = beside, ThirdKept { checkpoints: per_thread }, beside],
        edges: [START >> early >> [ThirdKept, beside] >> END],
    }
}
graph! { FirstKept<Log, Tally> = Graph { nodes: [SecondKept { checkpoints: per_thread }], edges: [START >> SecondKept >> END] } }

fn asked<S: std::fmt::Debug>(outcome: Outcome<S>) -> Vec<Question> {
    match outcome {
        Outcome::Interrupted(interrupted) => interrupted.questions,
        other => panic!("nothing was asked: {other:?}"),
    }
}

fn config() -> Config {
    Config::new().thread("t")
}

#[tokio::test]
async fn step_runs_once_across_an_interrupt() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let (graph, tally) = (Plain::compile().checkpointer(MemorySaver::new()), Tally::default());
        let config = config().durability(durability);
        let questions = asked(graph.invoke(Log::update()).config(config.clone()).context(tally.clone()).await.unwrap());
        assert_eq!(questions.len(), 1);
        asked(graph.invoke(()).config(config.clone()).context(tally.clone()).await.unwrap());
        let end = graph.invoke(Command::resume("yes")).config(config).context(tally.clone()).await.unwrap();
        assert_eq!(end.state().lines, ["1 yes 1"], "{durability:?}");
        assert_eq!((tally.of("first 0"), tally.of("second 0")), (1, 1));
    }
}

/// LangGraph #6050 and LangGraph.js #2667: the record of an inner graph is lost there when the thread continues.
#[tokio::test]
async fn steps_run_once_three_levels_deep() {
    let (graph, tally) = (First::compile().checkpointer(MemorySaver::new()), Tally::default());
    asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    asked(graph.invoke(()).config(config()).context(tally.clone()).await.unwrap());
    let end = graph.invoke(Command::resume("yes")).config(config()).context(tally.clone()).await.unwrap();
    assert!(end.state().lines.contains(&"1 yes 1".to_owned()), "{end:?}");
    for (name, times) in [("first 2", 1), ("second 2", 1), ("beside 2", 1), ("beside 1", 2), ("beside 0", 1)] {
        assert_eq!(tally.of(name), times, "{name}");
    }

    let (graph, tally) = (FirstKept::compile().checkpointer(MemorySaver::new()), Tally::default());
    asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    asked(graph.invoke(()).config(config()).context(tally.clone()).await.unwrap());
    assert!(graph.invoke(Command::resume("yes")).config(config()).context(tally.clone()).await.unwrap().is_finished());
    for (name, times) in [("first 2", 1), ("second 2", 1), ("beside 2", 1), ("beside 1", 2)] {
        assert_eq!(tally.of(name), times, "{name}");
    }
}

fn at_once(attempts: u32) -> Retry {
    Retry { interval: Duration::ZERO, ..Retry::attempts(attempts) }
}

#[derive(Clone, Debug, Default)]
struct Hangs(Tally);

async fn fails_twice(run: &Run<Hangs>) -> Result<LogUpdate> {
    let tally = run.context().0.clone();
    let done = run.step("inner", async || Ok(tally.hit("inner"))).await?;
    if tally.hit("calls") < 3 {
        return Err(NodeError::new("not yet"));
    }
    Ok(Log::update().lines([format!("inner {done}")]))
}

graph! {
    Unkept<Log, Hangs> = Graph {
        nodes: [fails_twice { retry: at_once(2) }],
        edges: [START >> fails_twice >> END],
    }
}
graph! { AroundUnkept<Log, Hangs> = Graph { nodes: [Unkept { checkpoints: none }], edges: [START >> Unkept >> END] } }
graph! { Outermost<Log, Hangs> = Graph { nodes: [AroundUnkept { checkpoints: none }], edges: [START >> AroundUnkept >> END] } }

/// A graph without checkpoints begins again, and its steps are stored with the nearest task around it that has some.
#[tokio::test]
async fn steps_run_once_without_own_checkpoints() {
    let (graph, context) = (Outermost::compile().checkpointer(MemorySaver::new()), Hangs::default());
    graph.invoke(Log::update()).config(config()).context(context.clone()).await.expect_err("both attempts fail");
    assert_eq!((context.0.of("inner"), context.0.of("calls")), (1, 2));
    let end = graph.invoke(()).config(config()).context(context.clone()).await.unwrap();
    assert_eq!(end.state().lines, ["inner 1"]);
    assert_eq!(context.0.of("inner"), 1);
}

#[tokio::test]
async fn step_without_a_checkpointer_just_runs() {
    let context = Hangs::default();
    context.0.hit("calls");
    let end = Unkept::compile().invoke(Log::update()).context(context.clone()).await.unwrap();
    assert_eq!((end.state().lines.clone(), context.0.of("inner")), (vec!["inner 2".to_owned()], 2));
}

async fn hangs(run: &Run<Hangs>) -> Result<LogUpdate> {
    let tally = run.context().0.clone();
    let done = run.step("before", async || Ok(tally.hit("before"))).await?;
    if tally.hit("calls") < 3 {
        std::future::pending::<()>().await;
    }
    Ok(Log::update().lines([format!("before {done}")]))
}

graph! {
    Slow<Log, Hangs> = Graph {
        nodes: [hangs { timeout: Duration::from_secs(1), retry: at_once(5) }],
        edges: [START >> hangs >> END],
    }
}

#[tokio::test(start_paused = true)]
async fn step_runs_once_across_timeouts_and_dropped_runs() {
    let (graph, context) = (Slow::compile().checkpointer(MemorySaver::new()), Hangs::default());
    let run = graph.invoke(Log::update()).config(config()).context(context.clone());
    assert!(tokio::time::timeout(Duration::from_millis(1500), run).await.is_err(), "it hangs for the second time");
    let end = graph.invoke(()).config(config()).context(context.clone()).await.unwrap();
    assert_eq!((end.state().lines.clone(), context.0.of("before")), (vec!["before 1".to_owned()], 1));
}

async fn calls(run: &Run<Tally>) -> Result<LogUpdate> {
    let tally = run.context();
    let mut lines = Vec::new();
    for page in ["a", "b", "a"] {
        lines.push(run.step_for("page", page, async |page| Ok(format!("{page}{}", tally.hit(page)))).await?);
    }
    let mut tries = 0;
    let done = loop {
        tries += 1;
        let attempt = async || match tally.hit("fails") {
            1 => Err(NodeError::new("not yet")),
            done => Ok(done),
        };
        if let Ok(done) = run.step("fails", attempt).await {
            break done;
        }
    };
    lines.push(format!("{done} after {tries}"));
    let _: bool = run.interrupt(&"go on?").await?;
    Ok(Log::update().lines(lines))
}

graph! { Pages<Log, Tally> = Graph { nodes: [calls], edges: [START >> calls >> END] } }

/// A call that fails leaves its number without a result: a loop around a step makes other calls than the one that failed.
#[tokio::test]
async fn nth_call_gets_nth_result_and_errors_are_not_recorded() {
    let (graph, tally) = (Pages::compile().checkpointer(MemorySaver::new()), Tally::default());
    asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    assert_eq!((tally.of("a"), tally.of("b"), tally.of("fails")), (2, 1, 2));
    let end = graph.invoke(Command::resume(true)).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!(end.state().lines, ["a1", "b1", "a2", "3 after 1"]);
    assert_eq!((tally.of("a"), tally.of("b"), tally.of("fails")), (2, 1, 3), "only what had failed is done again");
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Any {
    kind: u8,
    text: String,
}

async fn typed(state: &Any, run: &Run) -> Result<AnyUpdate> {
    let text = match (state.kind, run.is_resumed()) {
        (0, false) => run.step("x", async || Ok(17_u32)).await?.to_string(),
        (0, true) => run.step("x", async || Ok(String::new())).await?,
        (1, false) => format!("{:?}", run.step("x", async || Ok(())).await?),
        (1, true) => format!("{:?}", run.step("x", async || Ok(Some(1))).await?),
        _ => format!("{:?}", run.step("x", async || Ok(None::<Question>)).await?.is_none()),
    };
    let _: bool = run.interrupt(&"go on?").await?;
    Ok(Any::update().text(text))
}

graph! { Typed<Any> = Graph { nodes: [typed], edges: [START >> typed >> END] } }

#[tokio::test]
async fn result_of_another_type_is_an_error() {
    let graph = Typed::compile().checkpointer(MemorySaver::new());
    for (kind, says) in [
        (0, "has recorded a `u32`, which is not a `alloc::string::String`"),
        (1, "has recorded a `()`, which is not a"),
    ] {
        let config = Config::new().thread(format!("t{kind}"));
        asked(graph.invoke(Any::update().kind(kind)).config(config.clone()).await.unwrap());
        let error =
            graph.invoke(Command::resume(true)).config(config).await.expect_err("it is of another type").to_string();
        assert!(error.contains(says) && error.contains("rename the step"), "{error}");
    }
    asked(graph.invoke(Any::update().kind(2)).config(config()).await.unwrap());
    assert_eq!(graph.invoke(Command::resume(true)).config(config()).await.unwrap().state().text, "true");
}

async fn breaks(run: &Run<Tally>) -> Result<LogUpdate> {
    count(run, "same name").await?;
    Err(NodeError::permanent("broken"))
}

async fn repair(run: &Run<Tally>) -> Result<LogUpdate> {
    let done = count(run, "same name").await?;
    let _: bool = run.interrupt(&"go on?").await?;
    Ok(Log::update().lines([format!("handled {done}")]))
}

graph! { Handled<Log, Tally> = Graph { nodes: [breaks { on_error: repair }], edges: [START >> breaks >> END] } }

#[tokio::test]
async fn handler_has_its_own_steps() {
    let (graph, tally) = (Handled::compile().checkpointer(MemorySaver::new()), Tally::default());
    asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    let end = graph.invoke(Command::resume(true)).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!((end.state().lines.clone(), tally.of("same name")), (vec!["handled 2".to_owned()], 2));
}

async fn spread(Sent(item): Sent<u64>, run: &Run<Tally>) -> Result<LogUpdate> {
    let tally = run.context();
    let done = run.step("item", async || Ok(tally.hit("item"))).await?;
    let _: bool = run.interrupt(&item).await?;
    Ok(Log::update().lines([format!("{item}: {}", done > 0)]))
}

fn items(_: &Log) -> Vec<u64> {
    vec![1, 2, 3]
}

graph! { Wide<Log, Tally> = Graph { nodes: [spread], edges: [START >> for item in items { spread(item) }, spread >> END] } }

#[tokio::test]
async fn parallel_tasks_have_their_own_steps() {
    let (graph, tally) = (Wide::compile().checkpointer(MemorySaver::new()), Tally::default());
    let questions = asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    assert_eq!(questions.len(), 3);
    for question in &questions[..2] {
        asked(
            graph
                .invoke(Command::answers([(&*question.id, true)]))
                .config(config())
                .context(tally.clone())
                .await
                .unwrap(),
        );
    }
    let end = graph.invoke(Command::resume(true)).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!((end.state().lines.len(), tally.of("item")), (3, 3));
}

/// A replayed checkpoint runs all steps again.
#[tokio::test]
async fn replay_runs_steps_again() {
    let (graph, tally) = (Plain::compile().checkpointer(MemorySaver::new()), Tally::default());
    asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    let here = graph.state(config()).await.unwrap().config;
    asked(graph.invoke(()).config(here.clone()).context(tally.clone()).await.unwrap());
    assert_eq!(tally.of("first 0"), 2);
    let copied = graph.update_state(here, StateUpdate::copy()).await.unwrap();
    for times in 3..5 {
        asked(graph.invoke(()).config(copied.clone()).context(tally.clone()).await.unwrap());
        assert_eq!(tally.of("first 0"), times);
    }
    let end = graph.invoke(Command::resume("yes")).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!((end.state().lines.clone(), tally.of("first 0")), (vec!["4 yes 1".to_owned()], 4));
}

async fn overtaken(run: &Run<MemorySaver>) -> Result<LogUpdate> {
    let saver = run.context().clone();
    let stolen = async || {
        let claim = hier_core::checkpoint::Claim { when_running: WhenRunning::TakeOver, ..Default::default() };
        saver.acquire("t", claim).await.map_err(|error| NodeError::permanent(error.to_string()))?;
        Ok(1)
    };
    run.step("late", stolen).await?;
    panic!("the result of a stale writer must not be seen")
}

graph! { Stale<Log, MemorySaver> = Graph { nodes: [overtaken], edges: [START >> overtaken >> END] } }

#[tokio::test]
async fn stale_writer_records_no_step() {
    let saver = MemorySaver::new();
    let graph = Stale::compile().checkpointer(saver.clone());
    let error = graph
        .invoke(Log::update())
        .config(config())
        .context(saver.clone())
        .await
        .expect_err("another holder has the thread");
    assert!(matches!(error, RunError::Saver { error: SaverError::Superseded { .. }, .. }), "{error}");
    let found = saver.get("t", "", None).await.unwrap().unwrap();
    assert!(found.writes.is_empty(), "{:?}", found.writes);
}

async fn enter(run: &Run<Tally>) -> Result<LogUpdate> {
    count(run, "entry").await?;
    Ok(Log::update())
}

async fn nothing() {}

graph! { Entered<Log, Tally> = Graph { nodes: [nothing], edges: [START >> nothing >> END], on_entry: enter } }

#[tokio::test]
async fn entry_hook_cannot_record_steps() {
    let graph = Entered::compile().checkpointer(MemorySaver::new());
    let error = graph
        .invoke(Log::update())
        .config(config())
        .context(Tally::default())
        .await
        .expect_err("it has nowhere to record");
    assert!(error.to_string().contains("move them to a node"), "{error}");
    let RunError::Node { error, .. } = error else { panic!("{error}") };
    assert!(!matches!(error.kind(), NodeErrorKind::Panic(_)));
    assert!(Entered::compile().invoke(Log::update()).context(Tally::default()).await.unwrap().is_finished());
}
