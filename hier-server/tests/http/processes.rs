//! A server as a separate process that is stopped or killed.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use hier_core::runs::{CronQuery, Crons, RunQuery, RunStatus, RunStore};
use hier_server::Webhooks;
use hier_sqlite::Sqlite;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use crate::crons::hurry;
use crate::graphs::server;
use crate::support::{Desk, open};

const DATABASE: &str = "HIER_TEST_SERVES";

/// Not a test: the process that the others start.
#[tokio::test]
#[ignore = "a process that other tests start"]
async fn child_process() {
    let database = std::env::var(DATABASE).expect("a database: other tests start this one");
    let webhooks = Webhooks::new().allow_private();
    let running = server().database(database).webhooks(webhooks).start("127.0.0.1:0").await.expect("the server starts");
    println!("\nserving on http://{}", running.address());
    running.until_signal().await.expect("the server stops");
}

/// A process that is killed on drop.
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
        .args(["--ignored", "--exact", "processes::child_process", "--nocapture"])
        .env(DATABASE, database)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process");
    let mut process = Process(child);
    let mut lines = BufReader::new(process.0.stdout.take().expect("its output")).lines();
    let base = lines.by_ref().find_map(|line| line.expect("a line").strip_prefix("serving on ").map(str::to_owned));
    // Its further output is read, so that it never blocks on it.
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
async fn signalled_server_returns_its_runs_to_the_queue() {
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
    assert_eq!(end["log"], json!(["pre", "slept"]), "stored work is not repeated");
    let (_, row) = desk.get(&format!("/threads/{thread}/runs/{run}")).await;
    assert_eq!(row["status"], "success");
    desk.stop().await;
}

/// The timeout on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// Waits until a look says so.
async fn until<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let wait = async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what} does not happen"))
}

async fn send(base: &str, path: &str, body: Value) -> Value {
    let sent = reqwest::Client::new().post(format!("{base}{path}")).json(&body).send().await.expect("an answer");
    assert_eq!(sent.status().as_u16(), 200);
    sent.json().await.expect("JSON")
}

/// The times differ at which a server is killed around the time of its cron: before it looks, while it adds the run, and after.
#[tokio::test]
async fn cron_is_fired_once_per_time_across_kills() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("desk.db");
    let database = format!("sqlite:{}", file.display());
    let (mut process, base) = start(&database);
    let thread = send(&base, "/threads", json!({})).await["thread_id"].as_str().expect("an id").to_owned();
    let cron = json!({ "assistant_id": "two", "schedule": "0 0 1 1 *", "input": { "n": 1 } });
    send(&base, &format!("/threads/{thread}/runs/crons"), cron).await;
    let store = Sqlite::open(&file).await.expect("the database");
    let is_fired = async || {
        let crons = Crons::of(&store).search(&CronQuery::default()).await.expect("crons");
        crons.iter().all(|cron| cron.next.is_some_and(|next| next > SystemTime::now())).then_some(())
    };
    let runs = async || store.driver().runs(RunQuery::thread(thread.clone())).await.expect("runs");
    let times: [u64; 4] = [0, 350, 700, 1_050];
    for (number, after) in times.into_iter().enumerate() {
        hurry(&store).await;
        tokio::time::sleep(Duration::from_millis(after)).await;
        process.0.kill().expect("it is killed");
        process.0.wait().expect("it is gone");
        process = start(&database).0;
        until("the time of the cron", is_fired).await;
        let all = runs().await;
        assert_eq!(all.len(), number + 1, "once for each time: {all:?}");
        assert!(all.iter().all(|run| run.metadata.contains_key("cron_id")));
    }
    until("the end of a run of the cron", async || {
        runs().await.iter().any(|run| run.status == RunStatus::Success).then_some(())
    })
    .await;
}

/// A request to the receiver of a webhook, which was not answered yet: the id of the delivery, and the body.
async fn called(listener: &TcpListener) -> (tokio::net::TcpStream, String, Value) {
    let (mut socket, _) =
        tokio::time::timeout(PATIENCE, listener.accept()).await.expect("a call").expect("a connection");
    let mut text = String::new();
    loop {
        let mut part = [0; 4096];
        let read = socket.read(&mut part).await.expect("a part of the request");
        assert_ne!(read, 0, "the request is whole");
        text.push_str(std::str::from_utf8(&part[..read]).expect("text"));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        if let Ok(body) = serde_json::from_str(body) {
            let id = head.lines().find_map(|line| line.to_lowercase().strip_prefix("webhook-id: ").map(str::to_owned));
            return (socket, id.expect("an id"), body);
        }
    }
}

#[tokio::test]
async fn webhook_is_sent_again_with_its_id_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("desk.db");
    let database = format!("sqlite:{}", file.display());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let hook = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (mut process, base) = start(&database);
    let body = json!({ "assistant_id": "two", "input": { "n": 1 }, "webhook": hook });
    let run = send(&base, "/runs", body).await["run_id"].as_str().expect("an id").to_owned();
    let (socket, id, first) = called(&listener).await;
    assert_eq!((&first["run_id"], &first["status"]), (&json!(run), &json!("success")), "sent after the end");
    // It dies before the receiver responds, so it is unknown whether the webhook was handled.
    process.0.kill().expect("it is killed");
    process.0.wait().expect("it is gone");
    drop(socket);
    let store = Sqlite::open(&file).await.expect("the database");
    let webhooks = hier_core::runs::Webhooks::of(&store);
    let kept = webhooks.all().await.expect("webhooks");
    assert_eq!(kept.len(), 1, "it is still pending: {kept:?}");
    // The dead server's claim of it ends.
    webhooks.again(&kept[0], SystemTime::now()).await.expect("a change");
    let (_process, _) = start(&database);
    let (mut socket, again, second) = called(&listener).await;
    assert_eq!(again, id, "a receiver can recognize the repetition");
    assert_eq!((&second["run_id"], &second["values"]), (&first["run_id"], &first["values"]));
    socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("an answer");
    until("the end of the webhook", async || webhooks.all().await.expect("webhooks").is_empty().then_some(())).await;
}
