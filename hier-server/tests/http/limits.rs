//! Clients cannot make the server store or keep more and more.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt;
use hier_core::runs::{Assistants, MemoryRuns, NewAssistant};
use hier_core::store::MemoryStore;
use hier_server::Server;
use hier_server::auth::{Tokens, User};
use hier_server::axum::Router;
use hier_server::axum::extract::ws::{WebSocket, WebSocketUpgrade};
use hier_server::axum::routing::get;
use reqwest::Method;
use serde_json::{Value, json};
use tokio_tungstenite::connect_async;

use crate::graphs::server;
use crate::support::{Desk, Fate, HookedStore, StoreCall, as_user, desk, open};

fn guarded() -> Server {
    server().auth(Tokens::new([("token-of-alice", User::new("alice")), ("token-of-bob", User::new("bob"))]))
}

#[tokio::test]
async fn invented_methods_are_counted_together() {
    let desk = open(guarded()).await;
    for number in 0..30 {
        let method = Method::from_bytes(format!("X{number}").as_bytes()).expect("a method");
        drop(desk.send(method, "/ok", &Value::Null).await);
    }
    let (_, metrics) = desk.get("/metrics?format=json").await;
    let counts = metrics["api"]["http_requests_total"].as_array().expect("a list").clone();
    let invented: Vec<_> = counts.iter().filter(|row| row["method"] != "GET").collect();
    assert_eq!(invented.len(), 1, "{counts:?}");
    assert_eq!((&invented[0]["method"], &invented[0]["count"]), (&json!("(other)"), &json!(30)));
    desk.stop().await;
}

#[tokio::test]
async fn check_of_the_database_reads_one_row() {
    let reads = Arc::new(AtomicUsize::new(0));
    let store = HookedStore::new({
        let reads = reads.clone();
        move |call| {
            let is_row = matches!(call, StoreCall::LoadRun);
            reads.fetch_add(usize::from(is_row), Ordering::SeqCst);
            if is_row { Fate::Refused } else { Fate::Done }
        }
    });
    let desk = open(server().storage(store, Arc::new(MemoryStore::default())).without_worker()).await;
    assert_eq!(desk.get("/ok").await.0, 200);
    assert_eq!(desk.get("/ok?check_db=true").await.0, 500, "the database is broken");
    assert_eq!(reads.load(Ordering::SeqCst), 1);
    desk.stop().await;
}

#[tokio::test]
async fn large_assistants_are_refused() {
    let desk = desk().await;
    let small = json!({ "graph_id": "two", "context": { "k": "x".repeat(100_000) } });
    let (status, assistant) = desk.post("/assistants", small).await;
    assert_eq!(status, 200, "{assistant}");
    let path = format!("/assistants/{}", assistant["assistant_id"].as_str().expect("an id"));
    let large = "x".repeat(300_000);
    for change in [json!({ "context": { "k": large } }), json!({ "metadata": { "k": large } })] {
        let mut new = change.clone();
        new["graph_id"] = json!("two");
        let answers = [desk.post("/assistants", new).await, desk.ask(Method::PATCH, &path, change).await];
        for (status, error) in answers {
            assert!(status == 422 && error["detail"].as_str().is_some_and(|text| text.contains("262144")), "{error}");
        }
    }
    // Each addition is small.
    let grow = async |key: &str| {
        let metadata = json!({ "metadata": { key: "x".repeat(40_000) } });
        desk.ask(Method::PATCH, &path, metadata).await.0
    };
    assert_eq!((grow("a").await, grow("b").await), (200, 422));
    desk.stop().await;
}

async fn versions(desk: &Desk, path: &str) -> Vec<u64> {
    let (status, found) = desk.post(&format!("{path}/versions"), json!({ "limit": 1_000 })).await;
    assert_eq!(status, 200, "{found}");
    found.as_array().expect("a list").iter().map(|version| version["version"].as_u64().expect("a number")).collect()
}

#[tokio::test]
async fn old_versions_of_an_assistant_are_deleted() {
    let desk = desk().await;
    let (_, assistant) = desk.post("/assistants", json!({ "graph_id": "two" })).await;
    let path = format!("/assistants/{}", assistant["assistant_id"].as_str().expect("an id"));
    for number in 0..120 {
        assert_eq!(desk.ask(Method::PATCH, &path, json!({ "name": number.to_string() })).await.0, 200);
    }
    assert_eq!(versions(&desk, &path).await, (22..=121).rev().collect::<Vec<_>>());
    assert_eq!(desk.post(&format!("{path}/latest"), json!({ "version": 30 })).await.0, 200);
    for _ in 0..10 {
        let context = json!({ "context": { "k": "x".repeat(100_000) } });
        let (status, changed) = desk.ask(Method::PATCH, &path, context).await;
        assert_eq!((status, &changed["name"]), (200, &json!("28")));
    }
    // The configuration of a version contains the context, too.
    assert_eq!(versions(&desk, &path).await, (127..=131).rev().collect::<Vec<_>>());
    assert_eq!(desk.get(&path).await.1["version"], 131);
    desk.stop().await;
}

#[tokio::test]
async fn each_user_has_a_limited_number_of_assistants() {
    let store = MemoryRuns::new();
    let desk = open(guarded().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()))).await;
    let create = async |token: &str, body: Value| as_user(&desk, token, Method::POST, "/assistants", body).await;
    let (_, first) = create("token-of-alice", json!({ "graph_id": "two" })).await;
    for number in 1..1_000 {
        let mut new = NewAssistant::new(uuid::Uuid::from_u128(number).to_string(), "two");
        new.user = "alice".to_owned();
        Assistants::of(&store).create(new).await.expect("an assistant");
    }
    let (status, error) = create("token-of-alice", json!({ "graph_id": "two" })).await;
    assert!(status == 409 && error["detail"].as_str().is_some_and(|text| text.contains("1000")), "{error}");
    let again = json!({ "graph_id": "two", "assistant_id": first["assistant_id"], "if_exists": "do_nothing" });
    assert_eq!(create("token-of-alice", again).await.0, 200, "it exists");
    assert_eq!(create("token-of-bob", json!({ "graph_id": "two" })).await.0, 200);
    let path = format!("/assistants/{}", first["assistant_id"].as_str().expect("an id"));
    assert_eq!(as_user(&desk, "token-of-alice", Method::DELETE, &path, json!({})).await.0, 204);
    assert_eq!(create("token-of-alice", json!({ "graph_id": "two" })).await.0, 200);
    desk.stop().await;
}

#[tokio::test]
async fn socket_of_a_custom_route_counts_as_a_request_until_it_closes() {
    let echo = async |upgrade: WebSocketUpgrade| {
        upgrade.on_upgrade(|mut socket: WebSocket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                if socket.send(message).await.is_err() {
                    return;
                }
            }
        })
    };
    let desk = open(server().routes(Router::new().route("/echo", get(echo))).max_requests(1)).await;
    let (mut socket, _) = connect_async(format!("{}/echo", desk.base.replace("http:", "ws:"))).await.expect("a socket");
    assert_eq!(desk.get("/ok").await.0, 503);
    socket.close(None).await.expect("it is sent");
    while socket.next().await.is_some() {}
    // The server closes its side at about the same time.
    while desk.get("/ok").await.0 == 503 {}
    desk.stop().await;
}
