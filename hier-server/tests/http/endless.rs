//! Runs without an end whose nodes never wait: the server bounds them, cancels them, and stops with them.

use std::time::Duration;

use hier_agents::prelude::*;
use hier_server::Server;
use serde_json::{Value, json};

use crate::support::{Desk, open};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    n: u64,
}

/// Never waits for anything.
async fn count(count: &Count) -> CountUpdate {
    Count::update().n(count.n + 1)
}

fn never(count: &Count) -> bool {
    count.n == u64::MAX
}

graph! { Endless<Count> = Graph { nodes: [count], edges: [START >> count >> if never { END } else { count }] } }

async fn ends() {}

graph! { Short<Count> = Graph { nodes: [ends], edges: [START >> ends >> END] } }

/// The longest that anything of these runs may be waited for, also if other programs keep the machine busy.
const SOON: Duration = Duration::from_mins(2);

fn both() -> Server {
    Server::new().graph("endless", Endless::compile(), ()).graph("short", Short::compile(), ())
}

fn filed(folder: &tempfile::TempDir) -> String {
    format!("sqlite:{}", folder.path().join("desk.db").display())
}

/// Starts a run that asks for more steps than it could ever take.
async fn start(desk: &Desk) -> String {
    let thread = desk.thread().await;
    let run = json!({ "assistant_id": "endless", "input": { "n": 0 }, "config": { "recursion_limit": u32::MAX } });
    let (status, run) = desk.post(&format!("/threads/{thread}/runs"), run).await;
    assert_eq!(status, 200, "{run}");
    format!("/threads/{thread}/runs/{}", run["run_id"].as_str().expect("an id"))
}

/// Waits until a run has this status.
async fn until(desk: &Desk, run: &str, status: &str) {
    let reached = async {
        while desk.get(run).await.1["status"] != status {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(SOON, reached).await.unwrap_or_else(|_| panic!("{run} is not {status}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn endless_runs_on_sqlite_are_cancelled_and_delay_neither_other_runs_nor_the_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let desk = open(both().concurrency(6).database(filed(&folder))).await;
    let mut runs = Vec::new();
    for _ in 0..5 {
        runs.push(start(&desk).await);
    }
    for run in &runs {
        until(&desk, run, "running").await;
    }
    let short = json!({ "assistant_id": "short", "input": { "n": 0 } });
    let (status, ended) = tokio::time::timeout(SOON, desk.post("/runs/wait", short)).await.expect("another run ends");
    assert_eq!((status, &ended), (200, &json!({ "n": 0 })));
    let cancelled = tokio::time::timeout(SOON, desk.post(&format!("{}/cancel?wait=true", runs[0]), Value::Null)).await;
    assert_eq!(cancelled.expect("it is cancelled").0, 200);
    until(&desk, &runs[0], "interrupted").await;
    tokio::time::timeout(SOON, desk.stop()).await.expect("the server stops");
    // The runs were requeued.
    let again = open(both().without_worker().database(filed(&folder))).await;
    for run in &runs[1..] {
        assert_eq!(again.get(run).await.1["status"], "pending");
    }
    again.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_and_worker_limit_steps_and_time_of_a_run() {
    type Bound = fn(Server) -> Server;
    let bounds: [(Bound, &str, &str); 2] = [
        (|server| server.max_steps(100), "error", "GraphRecursionError"),
        (|server| server.max_run_time(Duration::from_millis(300)), "timeout", "Timeout"),
    ];
    for (bound, status, error) in bounds {
        let folder = tempfile::tempdir().expect("a folder");
        for is_apart in [false, true] {
            let server = both().database(filed(&folder));
            let desk = open(if is_apart { server.without_worker() } else { bound(server) }).await;
            let stop = hier_core::CancellationToken::new();
            let worker = bound(both().database(filed(&folder))).worker().await.expect("a worker");
            let working = is_apart.then(|| tokio::spawn(worker.run_until(stop.clone())));
            let run = start(&desk).await;
            until(&desk, &run, status).await;
            let thread = run.split("/runs").next().expect("a thread");
            assert_eq!(desk.get(thread).await.1["status"], "error");
            let (_, failed) = desk.get(&format!("{run}/join")).await;
            assert_eq!(failed["__error__"]["error"], error, "{failed}");
            stop.cancel();
            if let Some(working) = working {
                working.await.expect("it stops");
            }
            desk.stop().await;
        }
    }
}
