//! Refused requests, waits and takeovers.

use std::time::Duration;

use hier_core::Result;
use hier_core::graph::{DynInput, DynSnapshot};
use hier_core::prelude::*;
use hier_restate::{Error, RemoteGraph, RunFailure};
use serde_json::json;

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
        nodes: [work],
        edges: [START >> work >> if is_over { END } else { work }],
    }
}

async fn work() -> DeskUpdate {
    tokio::time::sleep(Duration::from_millis(60)).await;
    Desk::update().steps(1)
}

fn is_over(state: &Desk) -> bool {
    state.steps >= 50
}

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

async fn until(graph: &RemoteGraph, thread: &str, what: impl Fn(&DynSnapshot) -> bool) {
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
    let update = hier_core::graph::DynUpdates::values(json!({ "text": "no" })).as_node("work");
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
