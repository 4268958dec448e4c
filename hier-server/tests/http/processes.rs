//! A server as a process of its own, that is told to stop, or killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, open};

const DATABASE: &str = "HIER_TEST_SERVES";

/// Not a test: what the others start as a process.
#[tokio::test]
#[ignore = "a program that other tests start"]
async fn serves() {
    let Ok(database) = std::env::var(DATABASE) else { return };
    let running = server().database(database).start("127.0.0.1:0").await.expect("the server starts");
    println!("\nserving on http://{}", running.address());
    running.until_told().await.expect("the server stops");
}

/// A process that is killed if nobody has waited for it.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts it, and waits until it serves.
fn start(database: &str) -> (Process, String) {
    let program = std::env::current_exe().expect("this program");
    let child = Command::new(program)
        .args(["--ignored", "--exact", "processes::serves", "--nocapture"])
        .env(DATABASE, database)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut process = Process(child);
    let mut lines = BufReader::new(process.0.stdout.take().expect("its output")).lines();
    let base = lines.by_ref().find_map(|line| line.expect("a line").strip_prefix("serving on ").map(str::to_owned));
    // What it still prints is read, so that it never waits for that.
    std::thread::spawn(move || lines.for_each(drop));
    (process, base.expect("it serves"))
}

/// A run that sleeps for so long, once it does.
async fn sleeping(base: &str, seconds: f64) -> (String, String) {
    let client = reqwest::Client::new();
    let post = async |path: &str, body: Value| {
        let response = client.post(format!("{base}{path}")).json(&body).send().await.expect("an answer");
        response.json::<Value>().await.expect("JSON")
    };
    let thread = post("/threads", json!({})).await["thread_id"].as_str().expect("an id").to_owned();
    let body = json!({ "assistant_id": "slow", "input": { "n": seconds }, "durability": "sync" });
    let run = post(&format!("/threads/{thread}/runs"), body).await["run_id"].as_str().expect("an id").to_owned();
    let path = format!("{base}/threads/{thread}/state");
    loop {
        let state = client.get(&path).send().await.expect("an answer").json::<Value>().await.expect("JSON");
        if state["values"]["log"] == json!(["pre"]) {
            return (thread, run);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn ended(desk: &Desk, thread: &str, run: &str, within: Duration) -> Value {
    let end = async { desk.get(&format!("/threads/{thread}/runs/{run}/join")).await.1 };
    tokio::time::timeout(within, end).await.expect("the run ends in time")
}

#[cfg(unix)]
#[tokio::test]
async fn told_to_stop_it_hands_its_runs_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let database = format!("sqlite:{}", folder.path().join("desk.db").display());
    let (mut process, base) = start(&database);
    let (thread, run) = sleeping(&base, 3.0).await;
    let id = process.0.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    let stops = tokio::task::spawn_blocking(move || process.0.wait());
    let status = tokio::time::timeout(Duration::from_secs(90), stops).await.expect("it stops").expect("a thread");
    assert!(status.expect("a status").success());
    let desk = open(server().database(&database)).await;
    // At once, and not when a lease of thirty seconds has run out.
    let end = ended(&desk, &thread, &run, Duration::from_secs(25)).await;
    assert_eq!(end["log"], json!(["pre", "slept"]), "what was done before is not done again");
    let (_, row) = desk.get(&format!("/threads/{thread}/runs/{run}")).await;
    assert_eq!(row["status"], "success");
    desk.stop().await;
}
