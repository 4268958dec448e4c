//! The data that Restate stores for a thread, and its retention.

use std::time::Duration;

use hier_core::checkpoint::ListQuery;
use hier_core::graph::DynInput;
use hier_core::prelude::*;
use hier_restate::{RemoteGraph, threads};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{rows, serve, serve_as, server};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Page {
    at: u64,
    goal: u64,
    text: String,
}

graph! {
    Writes<Page> = Graph {
        nodes: [write],
        edges: [START >> write >> if is_over { END } else { write }],
    }
}

/// The bytes that each superstep changes.
const LENGTH: usize = 40 << 10;

async fn write(state: &Page) -> PageUpdate {
    let at = state.at + 1;
    Page::update().at(at).text(format!("{}{at}", "x".repeat(LENGTH)))
}

fn is_over(state: &Page) -> bool {
    state.at >= state.goal
}

fn is_sound(values: &Value) -> bool {
    let (at, text) = (values["at"].as_u64().unwrap_or(0), values["text"].as_str().unwrap_or_default());
    at == 0 || text.trim_start_matches('x') == at.to_string()
}

/// The bytes that Restate stores for the threads of a graph.
async fn stored(name: &str) -> u64 {
    let query = format!("SELECT SUM(value_length) AS bytes FROM state WHERE service_name = '{name}'");
    rows(&query).await[0]["bytes"].as_u64().unwrap_or(0)
}

async fn once(graph: &RemoteGraph, config: Config) {
    assert!(graph.invoke(DynInput::New(json!({ "goal": 1 }))).config(config).await.unwrap().is_finished());
}

async fn run(graph: &RemoteGraph, goal: u64) {
    let end = graph.invoke(DynInput::New(json!({ "goal": goal }))).thread("p").recursion_limit(1_000).await;
    let state = end.unwrap().into_state();
    assert_eq!((&state["at"], is_sound(&state)), (&json!(goal), true));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn thread_without_history_has_bounded_size() {
    let (all, latest) = (format!("all-{}", Uuid::new_v4().simple()), format!("latest-{}", Uuid::new_v4().simple()));
    let serve_latest = || serve_as(&latest, |endpoint| endpoint.graph(&latest, Writes::compile(), ()).latest_only());
    let graph = serve_as(&all, |endpoint| endpoint.graph(&all, Writes::compile(), ())).await;
    run(&graph, 40).await;
    let history = stored(&all).await;
    // Changes of a superstep are stored once, and the head is a multiple of the state.
    assert!((40 * LENGTH as u64..48 * LENGTH as u64).contains(&history), "{history} bytes");
    let graph = serve_latest().await;
    let reader = graph.clone();
    let running = tokio::spawn(async move { run(&graph, 40).await });
    // A reader sees the state of one moment.
    let mut seen = 0;
    while !running.is_finished() {
        let state = reader.state("p").await.unwrap();
        assert!(is_sound(&state.values), "step {}", state.step);
        let at = state.values["at"].as_u64().unwrap_or(0);
        assert!(at >= seen, "{at} after {seen}");
        seen = at;
    }
    running.await.unwrap();
    let kept = stored(&latest).await;
    assert!(kept < 20 * LENGTH as u64, "{kept} bytes");
    // A worker without the thread in memory continues it.
    let graph = serve_latest().await;
    run(&graph, 60).await;
    let history = graph.history("p", ListQuery::default()).await.unwrap();
    assert!(history.len() < 40 && history.iter().all(|state| is_sound(&state.values)), "{}", history.len());
    assert!(stored(&latest).await < 20 * LENGTH as u64);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn expired_thread_is_deleted() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Writes::compile(), ())).await;
    once(&graph, Config::new().thread("long")).await;
    let config = || Config::new().thread("short").time_to_live(Duration::from_secs(1));
    once(&graph, config()).await;
    assert_ne!(graph.state("short").await.unwrap().checkpoint, None);
    for _ in 0..600 {
        if graph.state("short").await.unwrap().checkpoint.is_none() {
            assert_ne!(graph.state("long").await.unwrap().checkpoint, None);
            // Its name can be used again.
            once(&graph, config()).await;
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("it lives on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn threads_are_listed_page_by_page() {
    let name = format!("listed-{}", Uuid::new_v4().simple());
    let graph = serve_as(&name, |endpoint| endpoint.graph(&name, Writes::compile(), ())).await;
    let (_, admin) = server();
    for thread in ["b", "it's", "a"] {
        once(&graph, Config::new().thread(thread)).await;
    }
    assert_eq!(threads(&admin, &name, None, 2).await.unwrap(), ["a", "b"]);
    assert_eq!(threads(&admin, &name, Some("b"), 2).await.unwrap(), ["it's"]);
    assert!(threads(&admin, &name, Some("it's"), 2).await.unwrap().is_empty());
    graph.delete("a").await.unwrap();
    assert_eq!(threads(&admin, &name, None, 9).await.unwrap(), ["b", "it's"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn ends_of_runs_are_kept_for_their_retention() {
    let name = format!("ends-{}", Uuid::new_v4().simple());
    let hour = Duration::from_hours(1);
    let serve = || serve_as(&name, |endpoint| endpoint.graph(&name, Writes::compile(), ()).ends_kept(hour));
    serve().await;
    let (_, admin) = server();
    let received = reqwest::get(format!("{admin}/services/{name}.run")).await.unwrap().json::<Value>().await.unwrap();
    assert_eq!(received["idempotency_retention"], json!("1h"));
}
