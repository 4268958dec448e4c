//! Refused requests, waits and takeovers.

use std::time::Duration;

use hier_core::Result;
use hier_core::checkpoint::{ListQuery, WhenRunning};
use hier_core::graph::{DynInput, DynSnapshot, DynUpdates};
use hier_core::prelude::*;
use hier_restate::{Error, RemoteGraph, RunFailure};
use serde_json::{Value, json};

use crate::support::serve;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    wanted: u64,
    text: String,
    receipt: String,
    #[reducer(sum)]
    steps: u64,
}

graph! {
    Grows<Desk> = Graph {
        nodes: [before = count, grow],
        edges: [START >> before >> grow >> END],
    }
}

async fn count() -> DeskUpdate {
    Desk::update().steps(1)
}

async fn grow(state: &Desk) -> DeskUpdate {
    Desk::update().text("x".repeat(usize::try_from(state.wanted).unwrap_or(0)))
}

graph! {
    Waits<Desk> = Graph {
        nodes: [rest, paid, done = count],
        edges: [START >> rest >> paid >> done >> END],
    }
}

async fn rest(run: &Run) -> Result<DeskUpdate> {
    run.sleep(Duration::from_millis(300)).await?;
    Ok(Desk::update().steps(1))
}

async fn paid(run: &Run) -> Result<DeskUpdate> {
    let receipt: String = run.signal("paid").await?;
    Ok(Desk::update().receipt(receipt))
}

graph! {
    Slow<Desk> = Graph {
        nodes: [work = take_time],
        edges: [START >> work >> if is_over { END } else { work }],
    }
}

async fn take_time() -> DeskUpdate {
    tokio::time::sleep(Duration::from_millis(60)).await;
    Desk::update().steps(1)
}

fn is_over(state: &Desk) -> bool {
    state.steps >= 50
}

graph! {
    Piles<Pile> = Graph {
        nodes: [write, fan, work, last],
        edges: [
            START >> write >> if is_high { fan } else { write },
            fan >> for item in items { work(item) },
            work >> last >> END,
        ],
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Pile {
    /// The size of the part that a superstep adds.
    size: usize,
    goal: u64,
    /// The sizes of the parts that the tasks add.
    tasks: Vec<usize>,
    error: usize,
    #[reducer(sum)]
    steps: u64,
    #[reducer(append)]
    parts: Vec<String>,
}

async fn write(state: &Pile) -> Result<PileUpdate> {
    if state.error > 0 {
        return Err(NodeError::permanent("x".repeat(state.error)));
    }
    Ok(Pile::update().steps(1).parts(["x".repeat(state.size)]))
}

fn is_high(state: &Pile) -> bool {
    state.steps >= state.goal
}

async fn fan() {}

fn items(state: &Pile) -> Vec<usize> {
    state.tasks.clone()
}

async fn work(Sent(size): Sent<usize>) -> PileUpdate {
    Pile::update().parts(["x".repeat(size)])
}

async fn last() {}

fn failure(error: Error) -> RunFailure {
    let Error::Run(failure) = error else { panic!("{error:?}") };
    failure
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn too_large_payload_is_refused_and_changes_nothing() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Grows::compile(), ()).max_payload(64 << 10)).await;
    let config = || Config::new().thread("large");
    let refused = graph.invoke(DynInput::New(json!({ "wanted": 100_000 }))).config(config()).await.unwrap_err();
    let refused = failure(refused);
    assert_eq!(refused.kind, "PayloadTooLarge");
    assert!(refused.message.contains("65536") && refused.message.contains("max_payload"), "{refused}");
    let state = graph.state(config()).await.unwrap();
    assert_eq!((&state.values["steps"], state.next), (&json!(1), vec!["grow".to_owned()]));
    // With a smaller value, it continues.
    let end = graph.invoke(DynInput::New(json!({ "wanted": 10 }))).config(config()).await.unwrap();
    assert_eq!(end.state()["text"], json!("xxxxxxxxxx"));
    // An input is refused before anything is sent.
    let input = DynInput::New(json!({ "text": "x".repeat(17 << 20) }));
    let error = failure(graph.invoke(input).thread("none").await.unwrap_err());
    assert_eq!(error.kind, "PayloadTooLarge");
    assert_eq!(graph.state("none").await.unwrap().checkpoint, None);
}

/// A graph whose payloads may have 64 KiB.
async fn piles() -> RemoteGraph {
    serve(|endpoint, name| endpoint.graph(name, Piles::compile(), ()).max_payload(64 << 10)).await
}

/// Runs the graph. Without an end, the worker and Restate repeat a message that is too large.
async fn run(graph: &RemoteGraph, config: Config, input: Value) -> std::result::Result<Value, RunFailure> {
    let run = graph.invoke(DynInput::New(input)).config(config);
    let ended = tokio::time::timeout(Duration::from_mins(1), run).await.expect("the run ends");
    ended.map(|end| end.state().clone()).map_err(failure)
}

fn assert_too_large(refused: &RunFailure, what: &str) {
    assert_eq!(refused.kind, "PayloadTooLarge", "{refused}");
    assert!(refused.message.starts_with(what), "{refused}");
    assert!(refused.message.contains("65536") && refused.message.contains("max_payload"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_ends_before_its_state_is_too_large() {
    let graph = piles().await;
    let config = || Config::new().thread("high");
    // The tasks of a superstep read a state that does not fit into their requests.
    let input = json!({ "size": 20_000, "goal": 2, "tasks": [10, 10] });
    assert_eq!(run(&graph, config(), input).await.unwrap()["steps"], json!(2));
    let input = json!({ "size": 20_000, "goal": 9 });
    assert_too_large(&run(&graph, config(), input).await.unwrap_err(), "the state of the thread has ");
    let state = graph.state(config()).await.unwrap();
    assert_eq!((&state.values["steps"], state.next), (&json!(3), vec!["write".to_owned()]));
    let history = |limit| graph.history(config(), ListQuery { limit, ..ListQuery::default() });
    let refused = failure(history(None).await.unwrap_err());
    assert_too_large(&refused, "the answer with the history (a smaller `limit` selects less) has ");
    assert_eq!(history(Some(1)).await.unwrap().len(), 1);
    // The thread can continue with smaller parts.
    let end = run(&graph, config(), json!({ "size": 10, "goal": 0, "tasks": [] })).await.unwrap();
    assert_eq!(end["steps"], json!(4));
    // The same with the default limits of the worker and of Restate.
    let graph = serve(|endpoint, name| endpoint.graph(name, Piles::compile(), ())).await;
    let refused = run(&graph, config(), json!({ "size": 9 << 20, "goal": 5 })).await.unwrap_err();
    assert_eq!(refused.kind, "PayloadTooLarge", "{refused}");
    assert_eq!(graph.state(config()).await.unwrap().values["steps"], json!(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn last_superstep_and_outcome_may_be_large_together() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Grows::compile(), ()).max_payload(64 << 10)).await;
    let end = run(&graph, Config::new().thread("large"), json!({ "wanted": 50_000 })).await.unwrap();
    assert_eq!(end["text"].as_str().map(str::len), Some(50_000));
    run(&graph, Config::new().thread("small"), json!({ "wanted": 10 })).await.unwrap();
    let steps = async |thread: &str| {
        let query = || ListQuery { limit: Some(1), ..ListQuery::default() };
        graph.history(thread, query()).await.unwrap()[0].step
    };
    assert_eq!(steps("large").await, steps("small").await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn each_payload_is_checked() {
    let graph = piles().await;
    let config = || Config::new().thread("t");
    let refused = run(&graph, config(), json!({ "size": 1, "goal": 0, "tasks": [40_000, 40_000] })).await.unwrap_err();
    assert_too_large(&refused, "the data of the tasks has ");
    assert_eq!(graph.state(config()).await.unwrap().next, ["work", "work"]);
    let refused = run(&graph, config(), json!({ "size": 1, "goal": 0, "tasks": [70_000, 10] })).await.unwrap_err();
    assert_too_large(&refused, "the data of the task has ");
    let refused = run(&graph, config(), json!({ "error": 40_000 })).await.unwrap_err();
    assert_too_large(&refused, "the outcome of the run with the state has ");
    let refused = run(&graph, config(), json!({ "tasks": vec![1; 70_000] })).await.unwrap_err();
    assert_too_large(&refused, "the request of the run has ");
    let settings = config().metadata("note", "x".repeat(40_000));
    let refused = run(&graph, settings, json!({ "goal": 0 })).await.unwrap_err();
    assert_too_large(&refused, "the data of the thread with the settings of the run has ");
    let before = graph.state(config()).await.unwrap().values["steps"].as_u64().unwrap();
    let end = run(&graph, config(), json!({ "size": 1, "goal": 0, "tasks": [], "error": 0 })).await.unwrap();
    assert_eq!(end["steps"], json!(before + 1));
}

pub(crate) async fn until(graph: &RemoteGraph, thread: &str, what: impl Fn(&DynSnapshot) -> bool) {
    for _ in 0..600 {
        if what(&graph.state(thread).await.unwrap()) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it does not come: {:?}", graph.state(thread).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn thread_resumes_at_its_time_or_signal() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Waits::compile(), ())).await;
    let config = Config::new().thread("w").sleep_in_place(Duration::ZERO);
    let end = graph.invoke(DynInput::New(json!({ "wanted": 1 }))).config(config).await.unwrap();
    assert!(!end.is_finished());
    until(&graph, "w", |state| state.next == ["paid"]).await;
    let id = uuid::Uuid::new_v4();
    assert!(graph.signal("w", "paid", &"r-17", Some(id)).await.unwrap());
    assert!(!graph.signal("w", "paid", &"r-17", Some(id)).await.unwrap(), "sent twice");
    until(&graph, "w", |state| state.next.is_empty()).await;
    let state = graph.state("w").await.unwrap();
    assert_eq!((&state.values["receipt"], &state.values["steps"]), (&json!("r-17"), &json!(2)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_can_be_cancelled_and_taken_over_but_not_by_an_answer() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Slow::compile(), ())).await;
    let begin = || {
        let graph = graph.clone();
        tokio::spawn(async move { graph.invoke(DynInput::New(json!({}))).thread("s").await })
    };
    let first = begin();
    until(&graph, "s", |state| state.step > 1).await;
    let update = DynUpdates::values(json!({ "text": "no" })).as_node("work");
    let refused = failure(graph.update_state("s", update).await.unwrap_err());
    assert_eq!(refused.kind, "Busy");
    let second = begin();
    assert_eq!(failure(first.await.unwrap().unwrap_err()).kind, "Superseded");
    assert!(graph.cancel("s").await.unwrap());
    assert_eq!(failure(second.await.unwrap().unwrap_err()).kind, "Cancelled");
    assert!(!graph.cancel("s").await.unwrap());
    // Stored work stays, and the thread can continue.
    let before = graph.state("s").await.unwrap();
    assert_eq!(before.next, ["work"]);
    graph.delete("s").await.unwrap();
    assert_eq!(graph.state("s").await.unwrap().checkpoint, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn refused_request_does_not_end_the_active_run() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Slow::compile(), ())).await;
    let active = graph.clone();
    let active = tokio::spawn(async move { active.invoke(DynInput::New(json!({}))).thread("r").await });
    until(&graph, "r", |state| state.step > 1).await;
    let config = || Config::new().thread("r").when_running(WhenRunning::TakeOver);
    let input = |values| graph.invoke(DynInput::New(values));
    let refused = [
        input(json!({ "steps": "many" })).config(config()).await.unwrap_err(),
        input(json!({})).config(config().interrupt_before(["nowhere"])).await.unwrap_err(),
        input(json!({})).config(config().checkpoint(uuid::Uuid::new_v4())).await.unwrap_err(),
        graph.update_state(config(), DynUpdates::values(json!({})).as_node("nowhere")).await.unwrap_err(),
    ];
    let kinds = refused.map(|error| failure(error).kind);
    assert!(!kinds.iter().any(|kind| kind == "Busy"), "{kinds:?}");
    assert!(graph.cancel("r").await.unwrap(), "{kinds:?}");
    assert_eq!(failure(active.await.unwrap().unwrap_err()).kind, "Cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn thread_expires_after_an_update_has_ended_its_run() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Slow::compile(), ())).await;
    let active = graph.clone();
    let active = tokio::spawn(async move {
        let config = Config::new().thread("e").time_to_live(Duration::from_secs(1));
        active.invoke(DynInput::New(json!({}))).config(config).await
    });
    until(&graph, "e", |state| state.step > 1).await;
    let config = Config::new().thread("e").when_running(WhenRunning::TakeOver);
    graph.update_state(config, DynUpdates::values(json!({ "text": "no" })).as_node("work")).await.unwrap();
    assert_eq!(failure(active.await.unwrap().unwrap_err()).kind, "Superseded");
    until(&graph, "e", |state| state.checkpoint.is_none()).await;
}
