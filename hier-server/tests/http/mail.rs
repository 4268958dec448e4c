//! Signals, deadlines and inbox messages that reach a thread from outside its runs.

use std::time::{Duration, SystemTime};

use hier_agents::prelude::*;
use hier_core::Result;
use hier_server::Server;
use serde_json::{Value, json};

use crate::support::{Desk, desk, open};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Diary {
    seconds: f64,
    #[reducer(append)]
    notes: Vec<String>,
}

fn note(text: impl Into<String>) -> DiaryUpdate {
    Diary::update().notes([text.into()])
}

graph! {
    /// Takes notes while it works.
    pub(crate) Listener<Diary> = Graph {
        nodes: [begin, work, finish],
        edges: [START >> begin >> work >> finish >> END],
        inbox: notes,
    }
}

async fn begin() -> DiaryUpdate {
    note("begin")
}

async fn work(diary: &Diary) -> DiaryUpdate {
    tokio::time::sleep(Duration::from_secs_f64(diary.seconds)).await;
    note("work")
}

async fn finish() -> DiaryUpdate {
    note("finish")
}

graph! {
    /// Ships a paid order, and gives up without a signal.
    pub(crate) Shop<Diary> = Graph { nodes: [paid, confirm], edges: [START >> paid >> confirm >> END] }
}

async fn paid(run: &Run) -> Result<DiaryUpdate> {
    let receipt: String = run.signal("paid").await?;
    Ok(note(receipt))
}

async fn confirm(run: &Run) -> Result<DiaryUpdate> {
    let soon = SystemTime::now() + Duration::from_millis(200);
    let answer: String = run.interrupt(&"which?").until(soon, "none".to_owned()).await?;
    Ok(note(answer))
}

graph! {
    /// Asks and talks at once.
    pub(crate) Both<Diary> = Graph { nodes: [ask, talk], edges: [START >> [ask, talk], ask >> END, talk >> END] }
}

async fn ask(run: &Run) -> Result<DiaryUpdate> {
    let answer: String = run.interrupt(&"which?").await?;
    Ok(note(answer))
}

async fn talk(run: &Run) -> DiaryUpdate {
    for word in ["one", "two"] {
        run.emit(json!({ "word": word }));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    note("talked")
}

/// LangGraph.js 1223: nothing was streamed of a step until all of its questions were answered.
#[tokio::test]
async fn events_of_one_node_do_not_wait_for_another() {
    let desk = open(Server::new().graph("both", Both::compile(), ())).await;
    let thread = desk.thread().await;
    let body = json!({ "assistant_id": "both", "input": { "seconds": 0.0 }, "stream_mode": ["custom", "updates"] });
    let received = desk.stream(&thread, body).await;
    let words: Vec<_> = received
        .iter()
        .filter(|received| received.event == "custom")
        .map(|received| received.data["word"].clone())
        .collect();
    assert_eq!(words, [json!("one"), json!("two")]);
    assert!(received.iter().any(|received| received.data["talk"]["notes"] == json!(["talked"])), "{received:?}");
    assert!(
        received.iter().any(|received| received.data["__interrupt__"][0]["value"] == json!("which?")),
        "{received:?}"
    );
    let answer =
        json!({ "assistant_id": "both", "command": { "resume": "this" }, "stream_mode": ["custom", "updates"] });
    let received = desk.stream(&thread, answer).await;
    assert!(
        received.iter().all(|received| received.event != "custom"),
        "a finished node sends no further text: {received:?}"
    );
    let (_, state) = desk.get(&format!("/threads/{thread}/state")).await;
    assert_eq!(state["values"]["notes"], json!(["this", "talked"]));
    desk.stop().await;
}

async fn shop() -> Desk {
    open(Server::new().graph("listener", Listener::compile(), ()).graph("shop", Shop::compile(), ())).await
}

async fn values_once(desk: &Desk, thread: &str, is: impl Fn(&Value) -> bool) -> Value {
    let wait = async {
        loop {
            let (_, row) = desk.get(&format!("/threads/{thread}")).await;
            if is(&row) {
                return row["values"].clone();
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), wait).await.expect("the thread gets there")
}

#[tokio::test]
async fn signal_and_deadline_resume_a_thread() {
    let desk = shop().await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}/signals/paid");
    let (status, error) = desk.post(&path, json!({ "value": "r-1" })).await;
    assert!(status == 422 && error["detail"].as_str().unwrap_or_default().contains("`graph_id`"), "{error}");
    desk.post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": "shop", "input": { "seconds": 0.0 } }))
        .await;
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1["status"], "interrupted");
    let body = json!({ "value": "r-17", "id": "0a61d4f1-7b6c-4f38-a1cf-6f5a1a4bb6b5" });
    assert_eq!(desk.post(&path, body.clone()).await, (200, json!({ "signal_id": body["id"], "is_new": true })));
    assert_eq!(desk.post(&path, body.clone()).await.1["is_new"], false, "a repeated signal is ignored");
    let values = values_once(&desk, &thread, |row| row["status"] == "idle").await;
    assert_eq!(values["notes"], json!(["r-17", "none"]));
    let (_, runs) = desk.get(&format!("/threads/{thread}/runs")).await;
    let woken: Vec<_> = runs.as_array().expect("runs").iter().map(|run| run["metadata"]["woken"].clone()).collect();
    assert_eq!(woken, [json!(true), json!(true), Value::Null]);
    let nowhere = "/threads/01a1ffc6-2dbe-7557-b3d9-35769b960c3e/signals/paid";
    assert_eq!(desk.post(nowhere, body).await.0, 404);
    desk.stop().await;
}

/// A signal of a wrong type blocks the right one until it is removed.
#[tokio::test]
async fn unreadable_entries_are_listed_and_discarded() {
    let desk = shop().await;
    let thread = desk.thread().await;
    let body = json!({ "assistant_id": "shop", "input": { "seconds": 0.0 } });
    desk.post(&format!("/threads/{thread}/runs/wait"), body).await;
    let (mail, signals) = (format!("/threads/{thread}/mail"), format!("/threads/{thread}/signals/paid"));
    assert_eq!(desk.get(&mail).await, (200, json!([])));
    let wrong = json!({ "value": { "amount": 17 }, "id": "0a61d4f1-7b6c-4f38-a1cf-6f5a1a4bb6b5" });
    assert_eq!(desk.post(&signals, wrong.clone()).await.0, 200);
    values_once(&desk, &thread, |row| row["status"] == "error").await;
    let waits = json!([{ "id": wrong["id"], "signal": "paid", "value": { "amount": 17 } }]);
    assert_eq!(desk.get(&mail).await, (200, waits), "it is unread");

    let delete = async |path: String| desk.ask(reqwest::Method::DELETE, &path, Value::Null).await;
    let (status, error) = delete(format!("{mail}/01a1ffc6-2dbe-7557-b3d9-35769b960c3e")).await;
    assert!(status == 404 && error["detail"].as_str().unwrap_or_default().contains("lists the inbox"), "{error}");
    let (status, error) = delete(format!("{mail}/first")).await;
    assert!(status == 422 && error["detail"].as_str().unwrap_or_default().contains("letter"), "{error}");
    let one = format!("{mail}/{}", wrong["id"].as_str().expect("an id"));
    assert_eq!(delete(one.clone()).await.0, 204);
    assert_eq!(delete(one).await.0, 404, "it is gone");
    assert_eq!(desk.get(&mail).await, (200, json!([])));

    desk.post(&signals, json!({ "value": "r-17" })).await;
    desk.post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": "shop", "input": null })).await;
    assert_eq!(desk.get(&format!("/threads/{thread}/state")).await.1["values"]["notes"][0], "r-17");
    assert_eq!(desk.get("/threads/01a1ffc6-2dbe-7557-b3d9-35769b960c3e/mail").await.0, 404);
    desk.stop().await;
}

/// A run that is running may be about to read it.
#[tokio::test]
async fn running_run_keeps_its_entries() {
    let desk = shop().await;
    let thread = desk.thread().await;
    let run = begun(&desk, &thread, 600.0).await;
    desk.post(&format!("/threads/{thread}/runs"), injected(&json!({ "notes": ["x"] }))).await;
    let (mail, path) = (format!("/threads/{thread}/mail"), format!("/threads/{thread}/runs/{run}/cancel?wait=1"));
    let (_, waits) = desk.get(&mail).await;
    assert_eq!((&waits[0]["signal"], &waits[0]["value"]), (&Value::Null, &json!(["x"])));
    let one = format!("{mail}/{}", waits[0]["id"].as_str().expect("an id"));
    assert_eq!(desk.ask(reqwest::Method::DELETE, &one, Value::Null).await.0, 409);
    desk.post(&path, json!({})).await;
    assert_eq!(desk.ask(reqwest::Method::DELETE, &one, Value::Null).await.0, 204);
    desk.stop().await;
}

async fn begun(desk: &Desk, thread: &str, seconds: f64) -> String {
    let body = json!({ "assistant_id": "listener", "input": { "seconds": seconds } });
    let (_, run) = desk.post(&format!("/threads/{thread}/runs"), body).await;
    let path = format!("/threads/{thread}/state");
    while desk.get(&path).await.1["values"]["notes"] != json!(["begin"]) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    run["run_id"].as_str().expect("an id").to_owned()
}

fn injected(input: &Value) -> Value {
    json!({ "assistant_id": "listener", "input": input, "multitask_strategy": "inject" })
}

#[tokio::test]
async fn message_reaches_a_run_that_is_running() {
    let desk = shop().await;
    let thread = desk.thread().await;
    let run = begun(&desk, &thread, 0.6).await;
    let path = format!("/threads/{thread}/runs");
    for (input, says) in [
        (json!({ "seconds": 1.0 }), "send an object with `notes` and no other field"),
        (json!({ "notes": ["x"], "seconds": 1.0 }), "no other field"),
        (json!({ "notes": 7 }), "`input.notes`"),
    ] {
        let (status, error) = desk.post(&path, injected(&input)).await;
        assert!(status == 422 && error["detail"].as_str().unwrap_or_default().contains(says), "{input}: {error}");
    }
    let (status, taken) = desk.post(&path, injected(&json!({ "notes": ["from outside"] }))).await;
    assert_eq!((status, &taken["run_id"]), (200, &json!(run)), "the response is the receiving run");
    let command = json!({ "id": 1, "method": "input.inject", "params": { "namespace": [], "message": "another" } });
    let (_, answer) = desk.post(&format!("/threads/{thread}/commands"), command.clone()).await;
    assert_eq!((&answer["type"], &answer["result"]), (&json!("success"), &json!({})), "{answer}");
    let (_, end) = desk.get(&format!("{path}/{run}/join")).await;
    assert_eq!(end["notes"], json!(["begin", "work", "from outside", "another", "finish"]));
    let (_, idle) = desk.post(&format!("/threads/{thread}/commands"), command).await;
    assert_eq!(idle["error"], "no_such_run");
    // On an idle thread, it begins a run.
    let (status, run) =
        desk.post(&format!("{path}/wait"), injected(&json!({ "notes": ["again"], "seconds": 0.0 }))).await;
    assert_eq!((status, &run["notes"][5]), (200, &json!("again")));
    desk.stop().await;
}

#[tokio::test]
async fn injection_into_a_graph_without_an_inbox_is_refused() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}/runs");
    desk.post(&path, json!({ "assistant_id": "slow", "input": { "n": 2.0 } })).await;
    let body = json!({ "assistant_id": "slow", "input": { "n": 1.0 }, "multitask_strategy": "inject" });
    let (status, error) = desk.post(&path, body).await;
    assert_eq!(status, 422);
    assert!(error["detail"].as_str().unwrap_or_default().contains("graph `slow` has no inbox"), "{error}");
    let command = json!({ "id": 1, "method": "input.inject", "params": { "namespace": [], "message": { "role": "user", "content": "x" } } });
    let (_, answer) = desk.post(&format!("/threads/{thread}/commands"), command).await;
    assert_eq!(answer["error"], "not_supported", "{answer}");
    desk.stop().await;
}

#[tokio::test]
async fn checkpoints_are_listed_and_forked_from() {
    let desk = desk().await;
    let thread = desk.thread().await;
    desk.post(&format!("/threads/{thread}/runs/wait"), json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    let command = async |method: &str, params: Value| {
        let body = json!({ "id": 1, "method": method, "params": params });
        desk.post(&format!("/threads/{thread}/commands"), body).await.1
    };
    let listed = command("state.listCheckpoints", json!({ "limit": 10 })).await;
    let listed = listed["result"]["checkpoints"].as_array().expect("checkpoints").clone();
    let steps: Vec<_> = listed.iter().map(|checkpoint| checkpoint["step"].as_i64()).collect();
    assert_eq!(steps, [Some(2), Some(1), Some(0), Some(-1)]);
    assert!(listed.iter().all(|one| one["id"].is_string() && one["timestamp"].is_string()), "{listed:?}");
    let before = command("state.listCheckpoints", json!({ "before": listed[1]["id"], "limit": 1 })).await;
    assert_eq!(before["result"]["checkpoints"][0]["id"], listed[2]["id"]);
    let forked = command("state.fork", json!({ "checkpoint_id": listed[1]["id"] })).await;
    assert_eq!(forked["result"]["thread_id"], json!(thread));
    let run = forked["result"]["run_id"].as_str().expect("a run");
    let (_, end) = desk.get(&format!("/threads/{thread}/runs/{run}/join")).await;
    assert_eq!(end, json!({ "n": 4.0, "log": ["a", "b"] }), "the second node ran again");
    let unknown = command("state.fork", json!({ "checkpoint_id": "01a1ffc6-2dbe-7557-b3d9-35769b960c3e" })).await;
    assert_eq!(unknown["error"], "no_such_checkpoint");
    assert_eq!(command("state.fork", json!({})).await["error"], "invalid_argument");
    assert_eq!(command("state.listCheckpoints", json!({ "limit": 0 })).await["error"], "invalid_argument");
    desk.stop().await;
}
