//! A recorded call is identified by its number: it gets its own result, whichever calls failed, ended first or ran twice.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use hier_core::checkpoint::{Checkpointer, MemorySaver};
use hier_core::graph::Retry;
use hier_core::prelude::*;
use hier_core::{Durability, Result};
use proptest::prelude::*;
use tokio::time::{Instant, sleep};

use crate::faulty::Faulty;
use crate::kit::{Tally, asked, questions};

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Log {
    #[reducer(append)]
    lines: Vec<String>,
}

fn config() -> Config {
    Config::new().thread("t")
}

async fn fetches(run: &Run<Tally>) -> Result<LogUpdate> {
    let tally = run.context();
    let mut lines = Vec::new();
    for url in ["one", "two", "three"] {
        let fetch = async || match (url, tally.hit(url)) {
            ("one", 1) => Err(NodeError::new("no connection")),
            _ => Ok(format!("page of {url}")),
        };
        if let Ok(page) = run.step("page", fetch).await {
            lines.push(format!("{url}: {page}"));
        }
    }
    let _: bool = run.interrupt(&"go on?").await?;
    Ok(Log::update().lines(lines))
}

graph! { Fetches<Log, Tally> = Graph { nodes: [fetches], edges: [START >> fetches >> END] } }

#[tokio::test]
async fn failed_call_leaves_its_number_empty() {
    let (graph, tally) = (Fetches::compile().checkpointer(MemorySaver::new()), Tally::default());
    asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    let end = graph.invoke(Command::resume(true)).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!(end.state().lines, ["one: page of one", "two: page of two", "three: page of three"]);
    assert_eq!((tally.of("one"), tally.of("two"), tally.of("three")), (2, 1, 1));
}

async fn races(run: &Run<Tally>) -> Result<LogUpdate> {
    let work = |name: &'static str, after: u64| async move {
        sleep(Duration::from_millis(after)).await;
        run.context().hit(name);
        Ok(name.to_owned())
    };
    let (slow, fast) = tokio::join!(
        run.step("fetch", async || work("slow", 20).await),
        run.step("fetch", async || work("fast", 1).await),
    );
    let (slow, fast) = (slow?, fast?);
    // Two sleeps, of which the second is over first.
    let began = Instant::now();
    let nap = async |millis| {
        run.sleep(Duration::from_millis(millis)).await.map(|()| began.elapsed().as_millis() >= u128::from(millis))
    };
    let (long, short) = tokio::join!(nap(3_000), nap(1_000));
    let slept = format!("{} {}", long?, short?);
    let _: bool = run.interrupt(&"go on?").await?;
    Ok(Log::update().lines([slow, fast, slept]))
}

graph! { Races<Log, Tally> = Graph { nodes: [races], edges: [START >> races >> END] } }

#[tokio::test(start_paused = true)]
async fn concurrent_calls_keep_their_own_results() {
    let (graph, tally) = (Races::compile().checkpointer(MemorySaver::new()), Tally::default());
    asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap());
    let end = graph.invoke(Command::resume(true)).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!(end.state().lines[..2], ["slow", "fast"]);
    assert_eq!((tally.of("slow"), tally.of("fast")), (1, 1));
}

async fn loses(run: &Run<Tally>) -> Result<LogUpdate> {
    let tally = run.context();
    // The first call is dropped before it has a result.
    tokio::select! {
        biased;
        _ = run.step("call", async || { sleep(Duration::from_mins(1)).await; Ok("first".to_owned()) }) => {}
        () = sleep(Duration::from_millis(5)) => {}
    }
    tally.hit("calls");
    let second = run.step("call", async || Ok("second".to_owned())).await?;
    if tally.of("calls") == 1 {
        return Err(NodeError::permanent("cut off"));
    }
    Ok(Log::update().lines([second]))
}

graph! { Loses<Log, Tally> = Graph { nodes: [loses], edges: [START >> loses >> END] } }

#[tokio::test(start_paused = true)]
async fn dropped_call_leaves_its_number_empty() {
    let (graph, tally) = (Loses::compile().checkpointer(MemorySaver::new()), Tally::default());
    graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap_err();
    assert_eq!(graph.invoke(()).config(config()).context(tally).await.unwrap().state().lines, ["second"]);
}

async fn nested(run: &Run<Tally>) -> Result<LogUpdate> {
    let count = async |name: &str| {
        let tally = run.context();
        run.step("inner", async || Ok(format!("{name} {}", tally.hit(name)))).await
    };
    let outer = run
        .step("outer", async || {
            let inner = count("within").await?;
            let answer: String = run.interrupt(&"in the step?").await?;
            Ok(format!("{inner} {answer}"))
        })
        .await?;
    let beside = count("beside").await?;
    let answer: String = run.interrupt(&"after the step?").await?;
    Ok(Log::update().lines([outer, beside, answer]))
}

graph! { Nested<Log, Tally> = Graph { nodes: [nested], edges: [START >> nested >> END] } }

/// Steps and questions in the code of a step keep their numbers when that code is not run again.
#[tokio::test]
async fn recorded_step_keeps_the_numbers_of_its_calls() {
    let (graph, tally) = (Nested::compile().checkpointer(MemorySaver::new()), Tally::default());
    assert_eq!(
        asked(graph.invoke(Log::update()).config(config()).context(tally.clone()).await.unwrap()),
        ["in the step?"]
    );
    let next = graph.invoke(Command::resume("yes")).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!(asked(next), ["after the step?"]);
    let end = graph.invoke(Command::resume("no")).config(config()).context(tally.clone()).await.unwrap();
    assert_eq!(end.state().lines, ["within 1 yes", "beside 1", "no"]);
    assert_eq!((tally.of("within"), tally.of("beside")), (1, 1));
}

/// The issued keys, each with its purpose.
#[derive(Clone, Debug, Default)]
struct Keys(Arc<Mutex<Vec<(String, String)>>>);

impl Keys {
    fn note(&self, what: &str, key: String) {
        self.0.lock().expect("no test panics here").push((what.to_owned(), key));
    }

    fn of(&self, what: &str) -> Vec<String> {
        let all = self.0.lock().expect("no test panics here").clone();
        all.into_iter().filter(|(of, _)| of == what).map(|(_, key)| key).collect()
    }
}

async fn pays(run: &Run<Keys>) -> Result<LogUpdate> {
    let keys = run.context();
    keys.note("task", run.idempotency_key());
    for place in 0..2 {
        let pay = async || {
            keys.note(&format!("pay {place}"), run.idempotency_key());
            // It dies before its result is recorded.
            if keys.of("task").len() < 3 { Err(NodeError::new("no connection")) } else { Ok(()) }
        };
        let _ = run.step("pay", pay).await;
    }
    let refund = async |amount: &u32| {
        keys.note(&format!("refund {amount}"), run.idempotency_key());
        let note = async || {
            keys.note("in refund", run.idempotency_key());
            Ok(())
        };
        run.step("note", note).await?;
        Err::<(), _>(NodeError::new("no connection"))
    };
    for amount in [1, 2] {
        let _ = run.step_for("refund", &amount, refund).await;
    }
    match keys.of("task").len() {
        1 => Err(NodeError::new("once more")),
        2 => Err(NodeError::permanent("stopped")),
        _ => Ok(Log::update()),
    }
}

async fn compensates(run: &Run<Keys>) -> Result<LogUpdate> {
    run.context().note("handler", run.idempotency_key());
    let pay = async || {
        run.context().note("handler pays", run.idempotency_key());
        Ok(())
    };
    run.step("pay", pay).await?;
    Err(NodeError::permanent("stopped"))
}

fn retry() -> Retry {
    Retry { interval: Duration::ZERO, ..Retry::attempts(2) }
}

graph! { Pays<Log, Keys> = Graph { nodes: [pays { retry: retry() }], edges: [START >> pays >> END] } }
graph! {
    Handled<Log, Keys> = Graph { nodes: [pays { retry: retry(), on_error: compensates }], edges: [START >> pays >> END] }
}
graph! { Around<Log, Keys> = Graph { nodes: [Pays], edges: [START >> Pays >> END] } }
graph! { Unkept<Log, Keys> = Graph { nodes: [Pays { checkpoints: none }], edges: [START >> Pays >> END] } }

/// The key of a step is the same over retries and processes, and no other call has it.
#[tokio::test]
async fn each_step_has_an_idempotency_key() {
    for graph in [Pays::compile(), Around::compile(), Unkept::compile()] {
        let (graph, keys) = (graph.checkpointer(MemorySaver::new()), Keys::default());
        graph.invoke(Log::update()).config(config()).context(keys.clone()).await.unwrap_err();
        assert!(graph.invoke(()).config(config()).context(keys.clone()).await.unwrap().is_finished());
        let mut all = Vec::new();
        for what in ["task", "pay 0", "pay 1", "refund 1", "refund 2"] {
            let of = keys.of(what);
            assert_eq!(of.len(), 3, "{what}");
            assert!(of.iter().all(|key| *key == of[0]), "{what}: {of:?}");
            all.push(of[0].clone());
        }
        // One for each of the two refunds, recorded once.
        all.extend(keys.of("in refund"));
        assert_eq!(all.len(), 7, "{keys:?}");
        assert!(all.iter().all(|key| key.starts_with("t/") && key.is_ascii()), "{all:?}");
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 7, "{keys:?}");
    }
    let (graph, keys) = (Handled::compile().checkpointer(MemorySaver::new()), Keys::default());
    graph.invoke(Log::update()).config(config()).context(keys.clone()).await.unwrap_err();
    let mut all: Vec<_> =
        ["task", "pay 0", "handler", "handler pays"].iter().map(|what| keys.of(what)[0].clone()).collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4, "{keys:?}");
}

#[tokio::test]
async fn steps_have_idempotency_keys_without_a_checkpointer() {
    let keys = Keys::default();
    Pays::compile().invoke(Log::update()).context(keys.clone()).await.unwrap_err();
    assert_eq!(keys.of("pay 0")[0], keys.of("pay 0")[1]);
    assert_ne!(keys.of("pay 0")[0], keys.of("pay 1")[0]);
    assert_ne!(keys.of("pay 0")[0], keys.of("task")[0]);
}

/// A part of a program that a node runs.
#[derive(Clone, Debug)]
enum Part {
    /// A step with this name, that fails so often; whether its failure ends the node.
    Step { name: u8, fails: usize, ends: bool },
    /// Steps that run at the same time, with such a delay each.
    Together(Vec<(u8, usize, u64)>),
    /// A question.
    Ask,
    /// A question in a step with this name.
    AskInStep(u8),
    /// A wait in place.
    Sleep,
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let step = (0..2_u8, 0..3_usize, any::<bool>()).prop_map(|(name, fails, ends)| Part::Step { name, fails, ends });
    let together = proptest::collection::vec((0..2_u8, 0..2_usize, 0..4_u64), 2..4).prop_map(Part::Together);
    let part = prop_oneof![4 => step, 2 => together, 1 => Just(Part::Ask), 1 => (0..2_u8).prop_map(Part::AskInStep), 1 => Just(Part::Sleep)];
    proptest::collection::vec(part, 1..7)
}

#[derive(Debug)]
struct Program {
    parts: Vec<Part>,
    tally: Tally,
    returned: Tally,
}

/// Runs the parts. Each step returns its place in the program.
async fn interprets(run: &Run<Arc<Program>>) -> Result<LogUpdate> {
    let program = run.context().clone();
    let step = async |name: u8, place: String, fails: usize, delay: u64| {
        let work = async || {
            assert_eq!(program.returned.of(&place), 0, "{place} has a result, and is done again: {program:?}");
            let times = program.tally.hit(&place);
            sleep(Duration::from_millis(delay * (times as u64 % 3))).await;
            if times <= fails { Err(NodeError::new("failed")) } else { Ok(place.clone()) }
        };
        let result = run.step(&format!("step {name}"), work).await;
        if let Ok(result) = &result {
            assert_eq!(*result, place, "{program:?}");
            program.returned.hit(&place);
        }
        result
    };
    for (place, part) in program.parts.iter().enumerate() {
        match part {
            Part::Step { name, fails, ends } => match step(*name, place.to_string(), *fails, 0).await {
                Err(error) if *ends || !is_plain(&error) => return Err(error),
                _ => {}
            },
            Part::Together(steps) => {
                let steps = steps.iter().enumerate();
                let all = steps.map(|(at, (name, fails, delay))| step(*name, format!("{place}.{at}"), *fails, *delay));
                if let Some(error) = join_all(all).await.into_iter().filter_map(Result::err).find(|it| !is_plain(it)) {
                    return Err(error);
                }
            }
            Part::Ask => assert_eq!(run.interrupt::<usize>(&place).await?, place, "{program:?}"),
            Part::AskInStep(name) => {
                let ask = async || run.interrupt::<usize>(&place).await;
                assert_eq!(run.step(&format!("step {name}"), ask).await?, place, "{program:?}");
            }
            Part::Sleep => run.sleep(Duration::from_millis(20)).await?,
        }
    }
    Ok(Log::update().lines(["done"]))
}

fn is_plain(error: &NodeError) -> bool {
    error.to_string() == "failed"
}

graph! { Interprets<Log, Arc<Program>> = Graph { nodes: [interprets], edges: [START >> interprets >> END] } }
graph! { Inside<Log, Arc<Program>> = Graph { nodes: [Interprets { checkpoints: none }], edges: [START >> Interprets >> END] } }

/// Under failures, questions, overlaps and crashes, a recorded call is not made again, and no call gets another's result.
async fn each_call_has_its_own_result(mut parts: Vec<Part>, deaths: Vec<usize>, durability: Durability, inside: bool) {
    if inside {
        // A graph without checkpoints has nowhere to keep answers.
        parts.retain(|part| !matches!(part, Part::Ask | Part::AskInStep(_)));
    }
    let memory = MemorySaver::new();
    let program = Arc::new(Program { parts, tally: Tally::default(), returned: Tally::default() });
    let compile = || if inside { Inside::compile() } else { Interprets::compile() };
    let config = config().durability(durability);
    let mut deaths = deaths.into_iter();
    for _ in 0..60 {
        let commits = deaths.next().unwrap_or(usize::MAX);
        let graph = compile().checkpointer(Arc::new(Faulty::new(&memory, commits)));
        let is_begun = memory.get("t", "", None).await.unwrap().is_some();
        let open = if is_begun { graph.state(config.clone()).await.unwrap().questions } else { Vec::new() };
        let open: Vec<_> = open.into_iter().filter(|question| !question.answered).collect();
        let outcome = if !is_begun {
            graph.invoke(Log::update()).config(config.clone()).context(program.clone()).await
        } else if open.is_empty() {
            graph.invoke(()).config(config.clone()).context(program.clone()).await
        } else {
            let answers = open.into_iter().map(|question| (question.id, question.value));
            graph.invoke(Command::answers(answers)).config(config.clone()).context(program.clone()).await
        };
        match outcome {
            Ok(end) if end.is_finished() => return,
            Ok(asks) => assert!(!questions(asks).is_empty()),
            Err(error) => assert!(!error.to_string().contains("panicked"), "{error}"),
        }
    }
    panic!("it does not end: {program:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_programs_get_each_result_once(
        parts in parts(),
        deaths in proptest::collection::vec(0..6_usize, 0..5),
        is_async in any::<bool>(),
        inside in any::<bool>(),
    ) {
        let durability = if is_async { Durability::Async } else { Durability::Sync };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
        runtime.expect("a runtime").block_on(each_call_has_its_own_result(parts, deaths, durability, inside));
    }
}

async fn naps(run: &Run<()>) -> Result<LogUpdate> {
    run.sleep(Duration::from_millis(900)).await?;
    Ok(Log::update().lines(["rested"]))
}

async fn stumbles(run: &Run<()>) -> Result<LogUpdate> {
    if run.attempt() < 2 {
        return Err(NodeError::new("at first"));
    }
    Ok(Log::update().lines(["rested"]))
}

fn slowly() -> Retry {
    Retry { interval: Duration::from_secs(1), jitter: 0.0, ..Retry::attempts(2) }
}

graph! { Naps<Log> = Graph { nodes: [naps { idle_timeout: 300ms }], edges: [START >> naps >> END] } }
graph! { NapsInside<Log> = Graph { nodes: [Naps { idle_timeout: 200ms }], edges: [START >> Naps >> END] } }
graph! { Stumbles<Log> = Graph { nodes: [stumbles { retry: slowly() }], edges: [START >> stumbles >> END] } }
graph! { StumblesInside<Log> = Graph { nodes: [Stumbles { idle_timeout: 300ms }], edges: [START >> Stumbles >> END] } }

/// A node that waits deliberately does not count as idle.
#[tokio::test(start_paused = true)]
async fn waits_in_place_do_not_count_as_idle() {
    for compile in [Naps::compile, NapsInside::compile, StumblesInside::compile] {
        for (graph, config) in [(compile(), Config::default()), (compile().checkpointer(MemorySaver::new()), config())]
        {
            let began = Instant::now();
            let end = graph.invoke(Log::update()).config(config).await.expect("a sleep is a sign of life");
            assert_eq!(end.state().lines, ["rested"]);
            assert!(began.elapsed() >= Duration::from_millis(800));
        }
    }
}
