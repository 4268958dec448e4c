//! Threads and their states.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::checkpoint::Checkpointer;
use hier_core::runs::{MemoryRuns, RunStore, RunsError, ThreadAction, ThreadRow};
use hier_core::store::MemoryStore;
use hier_server::async_trait;
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::graphs::{Hitl, Line, server};
use crate::support::{Desk, Fate, HookedStore, StoreCall, desk, open};

#[tokio::test]
async fn threads_are_created_found_changed_copied_and_deleted() {
    let desk = desk().await;
    let id = "d943d3c9-5ad8-4c46-876f-db4173f4d514";
    let (status, made) = desk.post("/threads", json!({ "thread_id": id, "metadata": { "who": "me" } })).await;
    assert_eq!(status, 200);
    assert_eq!((&made["status"], &made["values"], &made["config"]), (&json!("idle"), &Value::Null, &json!({})));
    let (status, error) = desk.post("/threads", json!({ "thread_id": id })).await;
    assert_eq!((status, error), (409, json!({ "detail": format!("Thread with ID {id} already exists") })));
    assert_eq!(desk.post("/threads", json!({ "thread_id": id, "if_exists": "do_nothing" })).await.0, 200);
    let path = format!("/threads/{id}");
    let (_, changed) = desk.ask(Method::PATCH, &path, json!({ "metadata": { "b": 2 } })).await;
    assert_eq!(changed["metadata"], json!({ "who": "me", "b": 2 }));
    let (_, found) =
        desk.post("/threads/search", json!({ "metadata": { "who": "me" }, "select": ["thread_id", "status"] })).await;
    assert_eq!(found, json!([{ "thread_id": id, "status": "idle" }]));
    assert_eq!(desk.post("/threads/count", json!({ "metadata": { "who": "you" } })).await.1, json!(0));
    let (status, state) = desk.get(&format!("{path}/state")).await;
    assert_eq!((status, &state["values"], &state["checkpoint"]), (200, &json!({}), &Value::Null));
    assert_eq!(desk.post(&format!("{path}/history"), json!({})).await.1, json!([]));
    assert_eq!(desk.ask(Method::DELETE, &path, Value::Null).await.0, 204);
    let (status, error) = desk.ask(Method::DELETE, &path, Value::Null).await;
    assert_eq!((status, error), (404, json!({ "detail": format!("Thread with ID {id} not found") })));
    let (status, error) = desk.get("/threads/notauuid").await;
    assert_eq!((status, error), (422, json!({ "detail": "Invalid thread ID: must be a UUID" })));
    desk.stop().await;
}

#[tokio::test]
async fn client_cannot_use_the_name_of_a_background_thread() {
    let desk = desk().await;
    let (status, error) = desk.post("/threads", json!({ "thread_id": "x/background/y" })).await;
    assert!(status == 422 && error["detail"].to_string().contains("`thread_id`"), "{status} {error}");
    assert_eq!(desk.post("/threads", json!({ "thread_id": "" })).await.0, 422);
    let path = "/threads/x%2Fbackground%2Fy";
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 }, "if_not_exists": "create" });
    for (route, body) in [("copy", json!({})), ("runs", run.clone()), ("runs/wait", run.clone()), ("runs/stream", run)]
    {
        let (status, error) = desk.post(&format!("{path}/{route}"), body).await;
        assert_eq!((status, error), (422, json!({ "detail": "Invalid thread ID: must be a UUID" })), "{route}");
    }
    assert_eq!(desk.post("/threads/count", json!({})).await.1, json!(0));
    desk.stop().await;
}

#[tokio::test]
async fn old_runs_are_deleted_if_the_server_keeps_them_for_a_time() {
    for (server, kept) in
        [(server(), 1), (server().keep_history(Duration::from_hours(1)), 1), (server().keep_history(Duration::ZERO), 0)]
    {
        let mut desk = open(server).await;
        let path = format!("/threads/{}", desk.thread().await);
        let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
        assert_eq!(desk.post(&format!("{path}/runs/wait"), run).await.0, 200);
        // The server's tasks run in this thread, so its upkeep is done before the next request.
        tokio::time::pause();
        tokio::time::advance(Duration::from_mins(1)).await;
        tokio::time::resume();
        // The server has closed idle connections.
        desk.client = reqwest::Client::new();
        let (_, runs) = desk.get(&format!("{path}/runs")).await;
        assert_eq!(runs.as_array().map(Vec::len), Some(kept), "{runs}");
        assert_eq!(desk.get(&format!("{path}/state")).await.1["values"]["n"], 4.0);
        desk.stop().await;
    }
}

#[tokio::test]
async fn thread_remembers_its_history() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}");
    let (status, end) =
        desk.post(&format!("{path}/runs/wait"), json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    assert_eq!((status, end), (200, json!({ "n": 4.0, "log": ["a", "b"] })));
    let (_, row) = desk.get(&path).await;
    assert_eq!(row["metadata"]["graph_id"], "two");
    assert_eq!(row["metadata"]["assistant_id"], "4499204c-8eda-5495-a842-3696dc7527c7");
    assert_eq!((&row["status"], &row["values"]["n"]), (&json!("idle"), &json!(4.0)));
    let (_, history) = desk.post(&format!("{path}/history"), json!({ "limit": 10 })).await;
    let steps: Vec<_> =
        history.as_array().unwrap().iter().map(|state| state["metadata"]["step"].as_i64().unwrap()).collect();
    assert_eq!(steps, [2, 1, 0, -1]);
    let middle = &history[1];
    assert_eq!((&middle["next"], &middle["values"]["log"]), (&json!(["b"]), &json!(["a"])));
    assert_eq!(history[0]["parent_checkpoint"], middle["checkpoint"]);
    // The address of a checkpoint is taken in all the forms in which clients write it.
    let before = middle["checkpoint_id"].clone();
    for before in
        [before.clone(), json!({ "configurable": { "checkpoint_id": before } }), json!({ "checkpoint_id": before })]
    {
        let (status, older) = desk.post(&format!("{path}/history"), json!({ "limit": 1, "before": before })).await;
        assert_eq!((status, &older[0]["metadata"]["step"]), (200, &json!(0)));
    }
    let (_, at) = desk.post(&format!("{path}/state/checkpoint"), json!({ "checkpoint": middle["checkpoint"] })).await;
    assert_eq!(at["values"], middle["values"]);
    let (status, _) = desk.get(&format!("{path}/state/{}", before.as_str().unwrap())).await;
    assert_eq!(status, 200);
    // From there again: another branch.
    let fork = json!({ "assistant_id": "two", "input": null, "checkpoint": middle["checkpoint"] });
    assert_eq!(desk.post(&format!("{path}/runs/wait"), fork).await.1, json!({ "n": 4.0, "log": ["a", "b"] }));
    let (_, copy) = desk.post(&format!("{path}/copy"), Value::Null).await;
    let (_, state) = desk.get(&format!("/threads/{}/state", copy["thread_id"].as_str().unwrap())).await;
    assert_eq!(state["values"], json!({ "n": 4.0, "log": ["a", "b"] }));
    desk.stop().await;
}

#[tokio::test]
async fn state_is_changed_by_a_client() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}");
    desk.post(&format!("{path}/runs/wait"), json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    let (status, made) = desk.post(&format!("{path}/state"), json!({ "values": { "n": 100.0 }, "as_node": "a" })).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!(made["checkpoint"], made["configurable"]);
    let (_, row) = desk.get(&path).await;
    assert_eq!((&row["status"], &row["values"]["n"]), (&json!("interrupted"), &json!(100.0)));
    let (_, end) = desk.post(&format!("{path}/runs/wait"), json!({ "assistant_id": "two", "input": null })).await;
    assert_eq!(end["n"], 200.0);
    let (status, error) =
        desk.post(&format!("{path}/state"), json!({ "values": { "n": 1.0 }, "as_node": "zzz" })).await;
    assert_eq!((status, error), (400, json!({ "detail": "Node zzz does not exist" })));
    let (status, error) = desk.post(&format!("{path}/state"), json!({ "values": { "m": 1.0 } })).await;
    assert!(status == 400 && error["detail"].as_str().unwrap().contains('m'), "{error}");
    desk.stop().await;
}

#[tokio::test]
async fn thread_is_created_with_a_history() {
    let desk = desk().await;
    let steps = json!([
        { "updates": [{ "values": { "n": 5.0 }, "as_node": "__input__" }] },
        { "updates": [{ "values": { "n": 6.0, "log": ["x"] }, "as_node": "a" }] },
    ]);
    let (status, made) = desk.post("/threads", json!({ "metadata": { "graph_id": "two" }, "supersteps": steps })).await;
    assert_eq!(status, 200, "{made}");
    assert_eq!((&made["status"], &made["values"]), (&json!("interrupted"), &json!({ "n": 6.0, "log": ["x"] })));
    let (status, error) = desk.post("/threads", json!({ "supersteps": steps })).await;
    assert!(status == 422 && error["detail"].as_str().unwrap().contains("graph_id"), "{error}");
    desk.stop().await;
}

/// Stored threads stay, and a graph's assistant is created once.
#[tokio::test]
async fn database_outlives_its_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}", folder.path().join("desk.db").display());
    let desk = open(server().database(&url)).await;
    let thread = desk.thread().await;
    let wait = format!("/threads/{thread}/runs/wait");
    let (_, asked) = desk.post(&wait, json!({ "assistant_id": "hitl", "input": { "n": 1.0 } })).await;
    assert_eq!(asked["__interrupt__"][0]["value"]["question"], "ok?", "{asked}");
    desk.stop().await;
    let desk = open(server().database(&url)).await;
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.1["status"], "interrupted");
    let answer = json!({ "assistant_id": "hitl", "command": { "resume": "yes" } });
    assert_eq!(desk.post(&wait, answer).await.1["log"], json!(["a", "ask:yes", "b"]));
    assert_eq!(desk.post("/assistants/count", json!({})).await.1, json!(6));
    desk.stop().await;
    let elsewhere = server().database("mysql://root:secret@db").start("127.0.0.1:0").await;
    let error = elsewhere.expect_err("no such database").to_string();
    assert!(error.contains("mysql") && !error.contains("secret"), "{error}");
}

graph! {
    /// A graph that asks, in another.
    Around<Line> = Graph { nodes: [child = Hitl], edges: [START >> child >> END] }
}

#[tokio::test]
async fn states_of_subgraphs_are_read() {
    let desk = open(server().graph("around", Around::compile(), ())).await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}");
    desk.post(&format!("{path}/runs/wait"), json!({ "assistant_id": "around", "input": { "n": 1 } })).await;
    let (_, plain) = desk.get(&format!("{path}/state")).await;
    let place = plain["tasks"][0]["checkpoint"].clone();
    assert!(
        plain["tasks"][0]["state"].is_null()
            && place["checkpoint_ns"].as_str().is_some_and(|ns| ns.starts_with("child:"))
    );
    let (_, whole) = desk.get(&format!("{path}/state?subgraphs=true")).await;
    let within = &whole["tasks"][0]["state"];
    assert_eq!((&within["values"], &within["next"]), (&json!({ "n": 2.0, "log": ["a"] }), &json!(["ask"])));
    assert_eq!(within["tasks"][0]["interrupts"][0]["id"], whole["interrupts"][0]["id"], "it is the one that asks");
    // By the address of the task, and as a list.
    let (_, at) = desk.post(&format!("{path}/state/checkpoint"), json!({ "checkpoint": place })).await;
    assert_eq!(&at, within);
    let (_, listed) = desk.post(&format!("{path}/history"), json!({ "checkpoint": place, "limit": 10 })).await;
    let steps: Vec<_> =
        listed.as_array().expect("states").iter().map(|state| state["metadata"]["step"].as_i64()).collect();
    assert_eq!(steps, [Some(1), Some(0), Some(-1)], "the newest first");
    assert_eq!(&listed[0], within);
    let body = json!({ "checkpoint": place, "limit": 1, "select": ["next"] });
    assert_eq!(desk.post(&format!("{path}/history"), body).await.1, json!([{ "next": ["ask"] }]));
    // Once the question is answered, the history still shows it.
    let answer = json!({ "assistant_id": "around", "command": { "resume": "yes" } });
    desk.post(&format!("{path}/runs/wait"), answer).await;
    let asked = whole["checkpoint_id"].as_str().expect("an id");
    let (_, past) = desk.get(&format!("{path}/state/{asked}?subgraphs=true")).await;
    assert_eq!((&past["next"], &past["values"]), (&whole["next"], &whole["values"]));
    desk.stop().await;
}

#[tokio::test]
async fn threads_are_pruned_to_their_latest_state_or_deleted() {
    let desk = desk().await;
    let (thread, other) = (desk.thread().await, desk.thread().await);
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(desk.post(&format!("/threads/{thread}/runs/wait"), run).await.0, 200);
    let history = async || desk.post(&format!("/threads/{thread}/history"), json!({ "limit": 10 })).await.1;
    let before = history().await;
    assert_eq!(before.as_array().map(Vec::len), Some(4));
    let prune = async |threads: Value, strategy: &str| {
        desk.post("/threads/prune", json!({ "thread_ids": threads, "strategy": strategy })).await
    };
    assert_eq!(prune(json!([thread]), "keep_latest").await, (200, json!({ "pruned_count": 1 })));
    let after = history().await;
    assert_eq!(after.as_array().map(Vec::len), Some(1));
    assert_eq!((&after[0]["checkpoint"], &after[0]["values"]), (&before[0]["checkpoint"], &before[0]["values"]));
    let unknown = "00000000-0000-4000-8000-000000000000";
    assert_eq!(prune(json!([thread, unknown]), "delete").await, (200, json!({ "pruned_count": 1 })));
    assert_eq!(desk.get(&format!("/threads/{thread}")).await.0, 404);
    assert_eq!(desk.get(&format!("/threads/{other}")).await.0, 200, "it was not named");
    desk.stop().await;
}

/// Starts a run on a thread, and waits until it has stored its first superstep. The run ends if the stream is dropped.
async fn begun(desk: &Desk, path: &str) -> Response {
    let body = json!({
        "assistant_id": "slow", "input": { "n": 600.0 }, "stream_mode": "updates", "durability": "sync",
        "on_disconnect": "cancel",
    });
    let mut stream = desk.send(Method::POST, &format!("{path}/runs/stream"), &body).await;
    desk.until(&mut stream, &mut String::new(), |received| received.iter().any(|one| one.event == "updates")).await;
    stream
}

/// The row of a thread shows the state before the run in progress. The copy has no run, but what the run has stored.
#[tokio::test]
async fn copy_of_a_running_thread_shows_the_state_that_it_has() {
    let desk = desk().await;
    let path = format!("/threads/{}", desk.thread().await);
    let stream = begun(&desk, &path).await;
    let (status, copy) = desk.post(&format!("{path}/copy"), json!({})).await;
    assert_eq!(status, 200, "{copy}");
    let of_copy = format!("/threads/{}", copy["thread_id"].as_str().expect("an id"));
    let (_, state) = desk.get(&format!("{of_copy}/state")).await;
    assert_eq!((&copy["values"], &copy["status"]), (&state["values"], &json!("interrupted")));
    assert_eq!((&copy["values"]["log"], &state["next"]), (&json!(["pre"]), &json!(["sleep"])));
    assert_eq!(desk.get(&of_copy).await.1["values"], copy["values"]);
    let (_, original) = desk.get(&path).await;
    assert_eq!((&original["status"], &original["values"]), (&json!("busy"), &Value::Null));
    drop(stream);
    desk.stop().await;
}

#[tokio::test]
async fn failed_copy_of_a_running_thread_leaves_no_copy() {
    let (original, is_full) = (Arc::new(Mutex::new(String::new())), Arc::new(AtomicBool::new(false)));
    let store = HookedStore::new({
        let (original, is_full) = (original.clone(), is_full.clone());
        move |call| match call {
            StoreCall::Change(ThreadAction::Commit(lease, _))
                if is_full.load(Ordering::SeqCst) && *lease.thread != **original.lock().expect("a lock") =>
            {
                Fate::Refused
            }
            _ => Fate::Done,
        }
    });
    let desk = open(server().storage(store, Arc::new(MemoryStore::default()))).await;
    let thread = desk.thread().await;
    original.lock().expect("a lock").clone_from(&thread);
    let stream = begun(&desk, &format!("/threads/{thread}")).await;
    is_full.store(true, Ordering::SeqCst);
    let (status, error) = desk.post(&format!("/threads/{thread}/copy"), json!({})).await;
    assert_eq!(status, 500, "{error}");
    let (_, left) = desk.post("/threads/search", json!({ "select": ["thread_id"] })).await;
    assert_eq!(left, json!([{ "thread_id": thread }]));
    drop(stream);
    desk.stop().await;
}

/// The ends of a pause: the store sends to the first when the pause begins, and waits for the second.
type Pause = (oneshot::Sender<()>, oneshot::Receiver<()>);

/// A store that pauses after the read of a thread's row.
struct PausedStore {
    runs: MemoryRuns,
    pause: Arc<Mutex<Option<Pause>>>,
}

impl fmt::Debug for PausedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PausedStore")
    }
}

#[async_trait]
impl SaverLayer for PausedStore {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }
}

#[async_trait]
impl RunsLayer for PausedStore {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        let row = self.runs.thread_backend().load_thread(id).await;
        let pause = self.pause.lock().expect("a lock").take();
        if let Some((begins, ends)) = pause {
            begins.send(()).expect("the test waits");
            ends.await.expect("the test ends the pause");
        }
        row
    }
}

#[tokio::test]
async fn copy_shows_the_state_of_a_run_that_starts_during_the_request() {
    let pause = Arc::new(Mutex::new(None));
    let store = Arc::new(Layered(PausedStore { runs: MemoryRuns::new(), pause: pause.clone() }));
    let desk = open(server().storage(store, Arc::new(MemoryStore::default()))).await;
    let path = format!("/threads/{}", desk.thread().await);
    let ((begins, begun_pause), (end_pause, ends)) = (oneshot::channel(), oneshot::channel());
    *pause.lock().expect("a lock") = Some((begins, ends));
    let copy_path = format!("{path}/copy");
    let run = async {
        begun_pause.await.expect("the request reads the row");
        let stream = begun(&desk, &path).await;
        end_pause.send(()).expect("the request waits");
        stream
    };
    let ((status, copy), stream) = tokio::join!(desk.post(&copy_path, json!({})), run);
    assert_eq!((status, &copy["status"]), (200, &json!("interrupted")), "{copy}");
    assert_eq!(copy["values"]["log"], json!(["pre"]));
    drop(stream);
    desk.stop().await;
}
