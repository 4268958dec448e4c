//! Requests that are legal and unusual.

use std::sync::Arc;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::runs::{Document, MemoryRuns, RunStore as _};
use hier_core::store::MemoryStore;
use hier_server::auth::{Tokens, User};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::crons::{ended, hurry};
use crate::graphs::server;
use crate::mail::{Listener, Shop};
use crate::support::{Desk, as_user, desk, names, open};

/// A run of another graph fails, and leaves the thread's questions and their graph as they are.
#[tokio::test]
async fn run_of_another_graph_leaves_an_open_question() {
    let desk = desk().await;
    let path = format!("/threads/{}", desk.thread().await);
    let body = |graph: &str| json!({ "assistant_id": graph, "input": { "n": 1 } });
    desk.post(&format!("{path}/runs/wait"), body("hitl")).await;
    let (_, before) = desk.get(&path).await;
    let (_, failed) = desk.post(&format!("{path}/runs/wait"), body("slow")).await;
    assert!(failed["__error__"]["message"].as_str().is_some_and(|text| text.contains("graph `hitl`")), "{failed}");
    let (_, after) = desk.get(&path).await;
    for field in ["metadata", "status", "interrupts", "values"] {
        assert_eq!(after[field], before[field], "{field}");
    }
    assert_eq!(desk.get(&format!("{path}/state")).await.1["next"], json!(["ask"]));
    let asked = before["interrupts"].as_object().and_then(|tasks| tasks.values().next()).expect("a question");
    let answer = json!({ "id": 1, "method": "input.respond", "params": {
        "namespace": [], "interrupt_id": asked[0]["id"], "response": "yes",
    } });
    let (_, answered) = desk.post(&format!("{path}/commands"), answer).await;
    assert_eq!(answered["type"], "success", "{answered}");
    let (_, runs) = desk.get(&format!("{path}/runs")).await;
    let run = runs[0]["run_id"].as_str().expect("an id");
    let (_, end) = desk.get(&format!("{path}/runs/{run}/join")).await;
    assert_eq!(end["log"], json!(["a", "ask:yes", "b"]));
    desk.stop().await;
}

#[tokio::test]
async fn run_of_another_graph_does_not_stop_a_deadline() {
    let served = server().graph("shop", Shop::compile(), ());
    let desk = open(served).await;
    let path = format!("/threads/{}", desk.thread().await);
    let wait = format!("{path}/runs/wait");
    let body = |graph: &str, input: Value| json!({ "assistant_id": graph, "input": input, "context": { "by": graph }, "config": { "tags": [graph] } });
    desk.post(&wait, body("shop", json!({ "seconds": 0.0 }))).await;
    let (_, failed) = desk.post(&wait, body("two", json!({ "n": 1 }))).await;
    assert!(failed["__error__"].is_object(), "{failed}");
    assert_eq!(desk.get(&path).await.1["config"]["tags"], json!(["shop"]));
    desk.post(&format!("{path}/signals/paid"), json!({ "value": "r-1" })).await;
    let ends = async {
        while desk.get(&path).await.1["values"]["notes"] != json!(["r-1", "none"]) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), ends).await.expect("the signal and the deadline continue the thread");
    let (_, runs) = desk.get(&format!("{path}/runs")).await;
    let (last, first) = (&runs[0], runs.as_array().and_then(|runs| runs.last()).expect("a run"));
    assert_eq!(last["metadata"]["woken"], true, "{last}");
    assert_eq!(last["assistant_id"], first["assistant_id"]);
    assert_eq!(last["kwargs"]["context"], json!({ "by": "shop" }));
    assert_eq!(last["kwargs"]["config"]["tags"], json!(["shop"]));
    desk.stop().await;
}

/// All crons are fired, and those of the assistant with the configuration that they had.
#[tokio::test]
async fn unreadable_assistant_does_not_stop_crons() {
    let store = MemoryRuns::new();
    let desk = open(server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()))).await;
    let body = json!({ "graph_id": "two", "context": { "prompt": "old" } });
    let (_, assistant) = desk.post("/assistants", body).await;
    let id = assistant["assistant_id"].as_str().expect("an id");
    for assistant in [id, "two"] {
        let body = json!({ "assistant_id": assistant, "schedule": "0 0 1 1 *", "input": { "n": 1 } });
        assert_eq!(desk.post("/runs/crons", body).await.0, 200);
    }
    let found = store.driver().document("assistant", id).await.expect("the store").expect("the assistant");
    let unreadable = Document::new("assistant", id, json!(7));
    assert!(store.driver().put_document(unreadable, Some(found.revision)).await.expect("a change"));
    hurry(&store).await;
    let runs = ended(&store, 2).await;
    let run = runs.iter().find(|run| run.assistant.as_deref() == Some(id)).expect("the run of the assistant");
    assert_eq!(run.request.context, json!({ "prompt": "old" }));
    desk.stop().await;
}

#[tokio::test]
async fn checkpoint_is_accepted_in_each_form() {
    let desk = desk().await;
    let body = json!({ "assistant_id": "two", "input": { "n": 1 } });
    for form in ["id", "flat", "configurable", "field", "config"] {
        let path = format!("/threads/{}", desk.thread().await);
        desk.post(&format!("{path}/runs/wait"), body.clone()).await;
        let (_, history) = desk.post(&format!("{path}/history"), json!({ "limit": 10 })).await;
        let states = history.as_array().expect("states");
        let after_a = states.iter().find(|state| state["next"] == json!(["b"])).expect("a state before `b`");
        let (id, mut body) = (&after_a["checkpoint_id"], body.clone());
        match form {
            "id" => body["checkpoint"] = id.clone(),
            "flat" => body["checkpoint"] = after_a["checkpoint"].clone(),
            "configurable" => body["checkpoint"] = json!({ "configurable": { "checkpoint_id": id } }),
            "field" => body["checkpoint_id"] = id.clone(),
            _ => body["config"] = json!({ "configurable": { "checkpoint_id": id } }),
        }
        let (_, end) = desk.post(&format!("{path}/runs/wait"), body).await;
        assert_eq!(end["log"], json!(["a", "a", "b"]), "{form}");
    }
    let path = format!("/threads/{}/runs/wait", desk.thread().await);
    for wrong in [json!("latest"), json!([]), json!(7), json!({ "checkpoint_id": 7 }), json!({ "checkpoint_ns": 7 })] {
        let mut body = body.clone();
        body["checkpoint"] = wrong.clone();
        let (status, error) = desk.post(&path, body).await;
        assert!(
            status == 422 && error["detail"].as_str().unwrap_or_default().contains("`checkpoint"),
            "{wrong}: {error}"
        );
    }
    desk.stop().await;
}

#[tokio::test]
async fn unknown_checkpoint_is_refused_and_the_question_stays_open() {
    let desk = desk().await;
    let path = format!("/threads/{}", desk.thread().await);
    let body = json!({ "assistant_id": "hitl", "input": { "n": 1 } });
    desk.post(&format!("{path}/runs/wait"), body.clone()).await;
    let before = desk.get(&path).await;
    let unknown = uuid::Uuid::now_v7();
    for wrong in [json!({ "checkpoint_id": unknown }), json!({ "checkpoint": { "checkpoint_id": unknown } })] {
        let mut body = body.clone();
        body.as_object_mut().expect("fields").extend(wrong.as_object().expect("fields").clone());
        let (status, error) = desk.post(&format!("{path}/runs/wait"), body).await;
        assert!(
            status == 422 && error.to_string().contains(&format!("has no checkpoint {unknown}")),
            "{status} {error}"
        );
    }
    assert_eq!(desk.get(&path).await, before);
    desk.stop().await;
}

#[tokio::test]
async fn recursion_limit_of_zero_is_refused() {
    let desk = desk().await;
    let path = format!("/threads/{}", desk.thread().await);
    let body = json!({ "assistant_id": "two", "input": { "n": 1 }, "config": { "recursion_limit": 0 } });
    let (status, error) = desk.post(&format!("{path}/runs"), body).await;
    let refused = json!({ "detail": "`config.recursion_limit` is not a whole number of 1 or more" });
    assert_eq!((status, error), (422, refused.clone()));
    assert_eq!(desk.get(&path).await.1["status"], "idle");
    let config = json!({ "graph_id": "two", "config": { "recursion_limit": 0 } });
    assert_eq!(desk.post("/assistants", config.clone()).await, (422, refused.clone()));
    let (_, assistant) = desk.post("/assistants", json!({ "graph_id": "two" })).await;
    let path = format!("/assistants/{}", assistant["assistant_id"].as_str().expect("an id"));
    assert_eq!(desk.ask(Method::PATCH, &path, config).await, (422, refused));
    desk.stop().await;
}

#[tokio::test]
async fn errors_of_alternatives_name_the_field_and_the_forms() {
    let desk = desk().await;
    let ttl = "`ttl`: expected a number of minutes, or an object with this number in `ttl`";
    let nodes = "`interrupt_before`: expected a string or a list of strings";
    for (path, body, says) in [
        ("/threads", json!({ "ttl": { "strategy": "delete" } }), ttl),
        ("/threads", json!({ "ttl": "soon" }), ttl),
        ("/runs", json!({ "assistant_id": "two", "interrupt_before": 5 }), nodes),
        ("/runs/crons/search", json!({ "select": ["zzz"] }), "`select`: unknown field `zzz`: the fields are "),
    ] {
        let (status, error) = desk.post(path, body.clone()).await;
        let detail = error["detail"].as_str().unwrap_or_default();
        assert!(status == 422 && detail.starts_with(says), "{body}: {error}");
    }
    for (field, value, says) in [
        ("value", Value::Null, "`value`: expected an object, found null"),
        ("index", json!(7), "`index`: expected true, false or a list of fields"),
    ] {
        let mut item = json!({ "namespace": ["a"], "key": "k", "value": {} });
        item[field] = value;
        let (status, error) = desk.ask(Method::PUT, "/store/items", item).await;
        assert_eq!((status, &error["detail"]), (422, &json!(says)));
    }
    desk.stop().await;
}

/// Clients of `langgraph-sdk` for JavaScript join a run without a thread by the path in `Content-Location`.
#[tokio::test]
async fn run_without_a_thread_is_joined_by_its_id() {
    let desk = desk().await;
    let body = json!({ "assistant_id": "two", "input": { "n": 1 }, "stream_resumable": true });
    let response = desk.send(Method::POST, "/runs/stream", &body).await;
    let path = format!("{}/stream", response.headers()["content-location"].to_str().expect("a path"));
    let sent = crate::support::parse(&response.text().await.expect("a body"));
    assert_eq!(names(&sent), ["metadata", "values", "values", "values"]);
    let request = desk.client.get(format!("{}{path}", desk.base)).header("last-event-id", "-1");
    let again = request.send().await.expect("an answer").text().await.expect("a body");
    assert_eq!(crate::support::parse(&again), sent);
    for (path, status) in [("/runs/01a1ffc6-2dbe-7557-b3d9-35769b960c3e/stream", 404), ("/runs/mine/stream", 422)] {
        assert_eq!(desk.get(path).await.0, status, "{path}");
    }
    desk.stop().await;
}

fn injected(graph: &str) -> Value {
    json!({ "assistant_id": graph, "input": { "notes": ["x"] }, "multitask_strategy": "inject" })
}

async fn listener() -> (Desk, String) {
    let desk = open(server().graph("listener", Listener::compile(), ())).await;
    let path = format!("/threads/{}", desk.thread().await);
    (desk, path)
}

async fn started(desk: &Desk, path: &str, body: Value) -> String {
    let (status, run) = desk.post(&format!("{path}/runs"), body).await;
    assert_eq!(status, 200, "{run}");
    run["run_id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn message_does_not_wait_for_a_delayed_run() {
    let (desk, path) = listener().await;
    let later = json!({ "assistant_id": "listener", "input": { "seconds": 0.0 }, "after_seconds": 100_000 });
    let later = started(&desk, &path, later).await;
    let now = started(&desk, &path, injected("listener")).await;
    assert_ne!(now, later, "the delayed run is not in progress");
    let (_, end) = desk.get(&format!("{path}/runs/{now}/join")).await;
    assert_eq!(end["notes"], json!(["x", "begin", "work", "finish"]));
    desk.stop().await;
}

#[tokio::test]
async fn message_reaches_the_run_in_progress_before_a_long_queue() {
    let (desk, path) = listener().await;
    let body = |seconds: f64| json!({ "assistant_id": "listener", "input": { "seconds": seconds } });
    let first = started(&desk, &path, body(600.0)).await;
    for _ in 0..12 {
        started(&desk, &path, body(0.0)).await;
    }
    assert_eq!(started(&desk, &path, injected("listener")).await, first);
    desk.stop().await;
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Notes {
    #[reducer(append)]
    notes: Vec<String>,
}

graph! {
    /// Takes a note when the test releases it.
    Held<Notes, Arc<Semaphore>> = Graph { nodes: [hold, finish], edges: [START >> hold >> finish >> END], inbox: notes }
}

async fn hold(run: &Run<Arc<Semaphore>>) -> NotesUpdate {
    run.emit(json!("held"));
    run.context().acquire().await.expect("the gate stays").forget();
    Notes::update().notes(["held".to_owned()])
}

async fn finish() -> NotesUpdate {
    Notes::update().notes(["finish".to_owned()])
}

/// The client of the run is still connected. Only this client decides if a disconnect cancels the run.
#[tokio::test]
async fn disconnecting_sender_of_a_message_does_not_cancel_the_run() {
    for (way, on_disconnect) in [("wait", "continue"), ("wait", "cancel"), ("stream", "cancel")] {
        let gate = Arc::new(Semaphore::new(0));
        let desk = open(server().graph("held", Held::compile(), gate.clone()).max_requests(2)).await;
        let path = format!("/threads/{}/runs", desk.thread().await);
        let body = json!({
            "assistant_id": "held", "input": { "notes": [] }, "stream_mode": ["custom", "values"], "on_disconnect": "cancel",
        });
        let mut response = desk.send(Method::POST, &format!("{path}/stream"), &body).await;
        let mut text = String::new();
        desk.until(&mut response, &mut text, |received| received.iter().any(|one| one.event == "custom")).await;
        let mut message = injected("held");
        message["on_disconnect"] = on_disconnect.into();
        let sender = reqwest::Client::new().post(format!("{}{path}/{way}", desk.base)).json(&message);
        let sender = sender.send().await.expect("an answer");
        assert_eq!(sender.status(), 200, "{way}");
        drop(sender);
        // The server handles two requests at a time, so it answers when it knows that the sender has disconnected.
        while desk.get("/ok").await.0 == 503 {}
        gate.add_permits(1);
        let rest = response.text().await.expect("the rest of the stream");
        let received = crate::support::parse(&(text + &rest));
        let notes = &received.last().expect("an event").data["notes"];
        assert_eq!(*notes, json!(["held", "x", "finish"]), "{way}, {on_disconnect}");
        desk.stop().await;
    }
}

#[tokio::test]
async fn user_named_like_a_pattern_sees_no_namespaces_of_others() {
    let desk = open(server().auth(Tokens::new([("star", User::new("*")), ("alice", User::new("alice"))]))).await;
    let item = json!({ "namespace": ["alice", "notes"], "key": "k", "value": {} });
    assert_eq!(as_user(&desk, "alice", Method::PUT, "/store/items", item).await.0, 204);
    let list = async |body: Value| as_user(&desk, "star", Method::POST, "/store/namespaces", body).await;
    assert_eq!(list(json!({ "prefix": ["*"] })).await.0, 403);
    let own = User::new("*").store_label();
    let item = json!({ "namespace": [own], "key": "k", "value": {} });
    assert_eq!(as_user(&desk, "star", Method::PUT, "/store/items", item).await.0, 204);
    assert_eq!(list(json!({ "prefix": [own] })).await, (200, json!({ "namespaces": [[own]] })));
    desk.stop().await;
}

#[tokio::test]
async fn user_named_like_the_framework_has_a_namespace() {
    let desk = open(server().auth(Tokens::new([("hier", User::new("hier"))]))).await;
    let own = User::new("hier").store_label();
    assert_ne!(own, User::new("%68ier").store_label());
    let item = json!({ "namespace": [own, "notes"], "key": "k", "value": {} });
    assert_eq!(as_user(&desk, "hier", Method::PUT, "/store/items", item).await.0, 204);
    let list = async |prefix: &str| {
        as_user(&desk, "hier", Method::POST, "/store/namespaces", json!({ "prefix": [prefix] })).await
    };
    assert_eq!(list(&own).await, (200, json!({ "namespaces": [[own, "notes"]] })));
    assert_eq!(list("hier").await.0, 422);
    desk.stop().await;
}
