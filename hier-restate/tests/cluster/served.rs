//! A server whose runs are the cluster's, through HTTP.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::Result;
use hier_core::graph::{CompiledGraph, DynGraph, RunContext};
use hier_core::prelude::*;
use hier_core::runs::{MemoryRuns, RunStore};
use hier_core::store::{MemoryStore, Store, StoreOptions};
use hier_restate::{Client, ClusterRunner, Hub, RemoteGraph};
use hier_server::{Running, Server};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use uuid::Uuid;

use crate::support::{serve_as, server};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    tenant: String,
    answer: String,
    #[reducer(append)]
    items: Vec<u64>,
    #[reducer(sum)]
    steps: u64,
}

#[derive(Clone)]
struct Site {
    tenant: String,
    /// The number of starts of `slow` or `tick`.
    begun: Arc<AtomicUsize>,
    /// A permit lets `slow` end once.
    gate: Arc<Semaphore>,
}

graph! {
    Review<Case, Site> = Graph {
        nodes: [seed, work, ask, close],
        edges: [START >> seed >> for item in items { work(item) }, work >> ask >> close >> END],
    }
}

async fn seed(run: &Run<Site>) -> CaseUpdate {
    Case::update().tenant(run.context().tenant.clone())
}

fn items(_: &Case) -> Vec<u64> {
    vec![1, 2, 3]
}

async fn work(Sent(item): Sent<u64>) -> CaseUpdate {
    Case::update().items([item])
}

async fn ask(run: &Run<Site>) -> Result<CaseUpdate> {
    let answer: String = run.interrupt(&"good?").await?;
    Ok(Case::update().answer(answer))
}

async fn close(state: &Case) -> Result<CaseUpdate> {
    if state.answer == "no" {
        return Err(NodeError::permanent("it is not good"));
    }
    Ok(Case::update().steps(1))
}

graph! {
    Slow<Case, Site> = Graph {
        nodes: [slow],
        edges: [START >> slow >> if is_over { END } else { slow }],
    }
}

async fn slow(run: &Run<Site>) -> CaseUpdate {
    run.context().begun.fetch_add(1, Ordering::SeqCst);
    run.context().gate.acquire().await.expect("the gate is there").forget();
    Case::update().steps(1)
}

fn is_over(state: &Case) -> bool {
    state.steps == 3
}

graph! {
    Long<Case, Site> = Graph {
        nodes: [tick],
        edges: [START >> tick >> if is_long { END } else { tick }],
    }
}

async fn tick(run: &Run<Site>) -> CaseUpdate {
    run.context().begun.fetch_add(1, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_millis(30)).await;
    Case::update().steps(1)
}

fn is_long(state: &Case) -> bool {
    state.steps == 2_000
}

/// Servers on the same storage, which pass their runs to the same workers.
struct Desk {
    name: String,
    graph: Arc<dyn DynGraph>,
    storage: (Arc<dyn RunStore>, Arc<dyn Store>),
    remote: RemoteGraph,
    begun: Arc<AtomicUsize>,
    gate: Arc<Semaphore>,
    http: reqwest::Client,
}

impl Desk {
    async fn open<I: 'static, O: 'static>(graph: CompiledGraph<Case, Site, I, O>) -> Self {
        let (begun, gate) = (Arc::new(AtomicUsize::new(0)), Arc::new(Semaphore::new(0)));
        let site = Site { tenant: String::new(), begun: begun.clone(), gate: gate.clone() };
        let graph: Arc<dyn DynGraph> = Arc::new(graph.erase(move |run: &RunContext| {
            let tenant = run.context["tenant"].as_str().unwrap_or_default().to_owned();
            Ok::<_, NodeError>(Site { tenant, ..site.clone() })
        }));
        let name = format!("case-{}", Uuid::new_v4().simple());
        let same = graph.clone();
        let remote = serve_as(&name, |endpoint| endpoint.graph_by(&name, move |_| Some(same.clone()))).await;
        let storage: (Arc<dyn RunStore>, Arc<dyn Store>) =
            (Arc::new(MemoryRuns::new()), Arc::new(MemoryStore::new(StoreOptions::default())));
        Self { name, graph, storage, remote, begun, gate, http: reqwest::Client::new() }
    }

    async fn server(&self) -> Running {
        let (ingress, _) = server();
        let hub = Hub::listen("127.0.0.1:0").await.expect("the hub listens");
        let server = Server::new()
            .dyn_graph(&self.name, self.graph.clone())
            .storage(self.storage.0.clone(), self.storage.1.clone())
            .runner(ClusterRunner::new(Client::new(ingress), hub));
        server.start("127.0.0.1:0").await.expect("the server starts")
    }

    async fn post(&self, running: &Running, path: &str, mut body: Value) -> String {
        if body.is_object() {
            body["assistant_id"] = self.name.clone().into();
        }
        let sent = self.http.post(format!("http://{}{path}", running.address())).json(&body);
        sent.send().await.expect("an answer").text().await.expect("a body")
    }

    async fn ask(&self, running: &Running, path: &str, body: Value) -> Value {
        serde_json::from_str(&self.post(running, path, body).await).expect("JSON")
    }

    async fn get(&self, running: &Running, path: &str) -> Value {
        let sent = self.http.get(format!("http://{}{path}", running.address()));
        sent.send().await.expect("an answer").json().await.expect("JSON")
    }

    async fn thread(&self, running: &Running) -> String {
        self.ask(running, "/threads", json!({})).await["thread_id"].as_str().expect("an id").to_owned()
    }

    /// Waits until its node has begun so often.
    async fn until_begun(&self, times: usize) {
        for _ in 0..3_000 {
            if self.begun.load(Ordering::SeqCst) >= times {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the node does not begin");
    }
}

/// Returns the nodes of a stream of `updates`, in order.
fn nodes(stream: &str) -> Vec<String> {
    let mut lines = stream.lines();
    let mut nodes = Vec::new();
    while let Some(line) = lines.next() {
        if line == "event: updates" {
            let data = lines.next().and_then(|line| line.strip_prefix("data: ")).expect("the event has data");
            let data: Value = serde_json::from_str(data).expect("JSON");
            nodes.extend(data.as_object().expect("an object").keys().cloned());
        }
    }
    nodes
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn server_passes_its_runs_to_the_cluster() {
    let desk = Desk::open(Review::compile()).await;
    let running = desk.server().await;
    let thread = desk.thread(&running).await;
    let path = |what: &str| format!("/threads/{thread}/{what}");
    // Streamed events come from the workers, each once.
    let input = json!({ "input": { "answer": "" }, "context": { "tenant": "acme" }, "stream_mode": ["updates"] });
    let stream = desk.post(&running, &path("runs/stream"), input).await;
    assert_eq!(nodes(&stream), ["seed", "work", "work", "work", "__interrupt__"], "{stream}");
    // The thread is the cluster's, and the server shows it.
    assert_eq!(desk.remote.state(&*thread).await.unwrap().next, ["ask"]);
    let state = desk.get(&running, &path("state")).await;
    assert_eq!((&state["next"], &state["values"]["tenant"]), (&json!(["ask"]), &json!("acme")), "{state}");
    let question = &state["tasks"][0]["interrupts"][0];
    assert_eq!(question["value"], json!("good?"), "{state}");
    assert_eq!(desk.get(&running, &format!("/threads/{thread}")).await["status"], "interrupted");
    // An answer for its id.
    let resume = json!({ "command": { "resume": { question["id"].as_str().expect("an id"): "yes" } } });
    let end = desk.ask(&running, &path("runs/wait"), resume).await;
    assert_eq!(end["steps"], json!(1), "{end}");
    assert_eq!(end["items"], json!([1, 2, 3]));
    let history = desk.ask(&running, &path("history"), json!({ "limit": 100 })).await;
    assert_eq!(
        history.as_array().map(Vec::len),
        Some(desk.remote.history(&*thread, hier_core::checkpoint::ListQuery::default()).await.unwrap().len())
    );
    // An update, and a run that fails.
    desk.ask(&running, &path("state"), json!({ "values": { "answer": "no" }, "as_node": "ask" })).await;
    assert_eq!(desk.remote.state(&*thread).await.unwrap().next, ["close"]);
    let end = desk.ask(&running, &path("runs/wait"), json!({ "input": null })).await;
    assert_eq!(end["__error__"]["message"], json!("it is not good"), "{end}");
    // Deleting the thread deletes the cluster's.
    desk.http.delete(format!("http://{}/threads/{thread}", running.address())).send().await.unwrap();
    assert_eq!(desk.remote.state(&*thread).await.unwrap().checkpoint, None);
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn cluster_run_can_be_cancelled() {
    let desk = Desk::open(Long::compile()).await;
    let running = desk.server().await;
    let thread = desk.thread(&running).await;
    let input = json!({ "input": {}, "config": { "recursion_limit": 3_000 } });
    let run = desk.ask(&running, &format!("/threads/{thread}/runs"), input).await;
    let path = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().expect("an id"));
    desk.until_begun(1).await;
    desk.post(&running, &format!("{path}/cancel?wait=true&action=interrupt"), Value::Null).await;
    assert_eq!(desk.get(&running, &path).await["status"], "interrupted");
    assert!(!desk.remote.cancel(&thread).await.unwrap(), "nothing goes on there");
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_continues_across_server_restarts() {
    let desk = Desk::open(Slow::compile()).await;
    let running = desk.server().await;
    let thread = desk.thread(&running).await;
    let run = desk.ask(&running, &format!("/threads/{thread}/runs"), json!({ "input": {} })).await;
    desk.until_begun(1).await;
    running.stop().await.unwrap();
    // It continues without a server.
    desk.gate.add_permits(1);
    desk.until_begun(2).await;
    let next = desk.server().await;
    desk.gate.add_permits(2);
    let path = format!("/threads/{thread}/runs/{}", run["run_id"].as_str().expect("an id"));
    let end = desk.get(&next, &format!("{path}/join")).await;
    assert_eq!(end["steps"], json!(3), "{end}");
    assert_eq!(desk.begun.load(Ordering::SeqCst), 3, "nothing ran twice");
    assert_eq!(desk.get(&next, &path).await["status"], "success");
    next.stop().await.unwrap();
}
