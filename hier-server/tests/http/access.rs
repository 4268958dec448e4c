//! Access control and limits.

use std::time::Duration;

use hier_server::auth::{Tokens, User};
use hier_server::axum::Router;
use hier_server::axum::routing::{get, post};
use hier_server::{Server, ServerError};
use reqwest::Method;
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, as_user, open};

fn guarded() -> Server {
    server().auth(Tokens::new([("token-of-alice", User::new("alice")), ("token-of-bob", User::new("bob"))]))
}

#[tokio::test]
async fn foreign_threads_look_absent() {
    let desk = open(guarded()).await;
    for open in ["/ok", "/info", "/metrics", "/docs", "/openapi.json"] {
        assert_eq!(desk.get(open).await.0, 200, "{open}");
    }
    for closed in ["/threads/search", "/nowhere"] {
        assert_eq!(desk.post(closed, json!({})).await.0, 401, "{closed}");
    }
    let (status, _) = as_user(&desk, "token-of-nobody", Method::POST, "/threads", json!({})).await;
    assert_eq!(status, 401);
    let (_, thread) =
        as_user(&desk, "token-of-alice", Method::POST, "/threads", json!({ "metadata": { "owner": "bob" } })).await;
    assert_eq!(thread["metadata"]["owner"], "alice", "no user creates threads for others");
    let path = format!("/threads/{}", thread["thread_id"].as_str().unwrap());
    let run = json!({ "assistant_id": "two", "input": { "n": 1.0 } });
    assert_eq!(as_user(&desk, "token-of-alice", Method::POST, &format!("{path}/runs/wait"), run.clone()).await.0, 200);
    for (method, below, body) in [
        (Method::GET, "", json!({})),
        (Method::GET, "/state", json!({})),
        (Method::POST, "/history", json!({})),
        (Method::POST, "/state", json!({ "values": { "n": 9.0 }, "as_node": "a" })),
        (Method::GET, "/runs", json!({})),
        (Method::POST, "/runs/wait", run.clone()),
        (Method::POST, "/copy", json!({})),
        (Method::GET, "/stream", json!({})),
        (Method::PATCH, "", json!({ "metadata": { "owner": "bob" } })),
        (Method::DELETE, "", json!({})),
    ] {
        let (status, error) = as_user(&desk, "token-of-bob", method.clone(), &format!("{path}{below}"), body).await;
        assert_eq!(status, 404, "{method} {below}: {error}");
    }
    assert_eq!(as_user(&desk, "token-of-bob", Method::POST, "/threads/search", json!({})).await.1, json!([]));
    let (_, refused) = as_user(
        &desk,
        "token-of-bob",
        Method::POST,
        &format!("{path}/commands"),
        json!({ "id": 1, "method": "run.start", "params": { "assistant_id": "two", "input": { "n": 1.0 } } }),
    )
    .await;
    assert_eq!((&refused["type"], &refused["error"]), (&json!("error"), &json!("unknown_error")));
    let smuggled = json!({ "assistant_id": "two", "input": { "n": 1.0 }, "config": { "configurable": { "thread_id": thread["thread_id"], "langgraph_auth_user": { "identity": "alice" } } } });
    assert_eq!(as_user(&desk, "token-of-bob", Method::POST, "/runs/wait", smuggled).await.0, 200);
    let (_, history) =
        as_user(&desk, "token-of-alice", Method::POST, &format!("{path}/history"), json!({ "limit": 10 })).await;
    assert_eq!(history.as_array().map(Vec::len), Some(4), "bob's run had its own thread");
    let (_, runs) = as_user(&desk, "token-of-alice", Method::GET, &format!("{path}/runs"), json!({})).await;
    assert!(!runs.to_string().contains("langgraph_auth_user"), "{runs}");
    desk.stop().await;
}

#[tokio::test]
async fn users_have_separate_namespaces_and_assistants() {
    let desk = open(guarded()).await;
    let item = |user: &str| json!({ "namespace": [user, "notes"], "key": "k", "value": { "a": 1 } });
    assert_eq!(as_user(&desk, "token-of-alice", Method::PUT, "/store/items", item("alice")).await.0, 204);
    assert_eq!(as_user(&desk, "token-of-bob", Method::PUT, "/store/items", item("alice")).await.0, 403);
    assert_eq!(as_user(&desk, "token-of-bob", Method::POST, "/store/items/search", json!({})).await.0, 403);
    let (status, own) =
        as_user(&desk, "token-of-alice", Method::POST, "/assistants", json!({ "graph_id": "two" })).await;
    assert_eq!(status, 200);
    let path = format!("/assistants/{}", own["assistant_id"].as_str().unwrap());
    assert_eq!(as_user(&desk, "token-of-bob", Method::GET, &path, json!({})).await.0, 404);
    let shared = "/assistants/4499204c-8eda-5495-a842-3696dc7527c7";
    assert_eq!(as_user(&desk, "token-of-bob", Method::GET, shared, json!({})).await.0, 200);
    assert_eq!(as_user(&desk, "token-of-bob", Method::DELETE, shared, json!({})).await.0, 403);
    desk.stop().await;
}

#[tokio::test]
async fn server_without_auth_serves_only_this_machine_by_default() {
    let refused = server().start("0.0.0.0:0").await;
    assert!(matches!(refused, Err(ServerError::Unprotected { .. })), "{refused:?}");
    let received = server().without_auth().start("0.0.0.0:0").await.expect("it was reported");
    received.stop().await.expect("it stops");
    assert!(matches!(Server::new().start("127.0.0.1:0").await, Err(ServerError::NoGraphs)));
}

#[tokio::test]
async fn error_of_an_unusable_address_has_a_hint() {
    let first = server().start("127.0.0.1:0").await.expect("it starts");
    let taken = server().start(first.address()).await.expect_err("it is in use").to_string();
    assert!(taken.starts_with(&format!("cannot listen on `{}`: ", first.address())), "{taken}");
    assert!(
        taken.ends_with(": stop the program that uses the port, or choose another port (0 selects a free one)"),
        "{taken}"
    );
    first.stop().await.expect("it stops");
    for text in ["localhost", "127.0.0.1:80999"] {
        let refused = server().start(text).await.expect_err("it is no address").to_string();
        assert!(refused.ends_with(": write a host and a port, like `127.0.0.1:8123`"), "{refused}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_need_permission() {
    let allows = async |desk: &Desk| {
        let request = desk.client.get(format!("{}/ok", desk.base)).header("origin", "https://chat.example.org");
        request.send().await.expect("an answer").headers().get("access-control-allow-origin").cloned()
    };
    let desk = open(server()).await;
    assert_eq!(allows(&desk).await, None);
    desk.stop().await;
    let desk = open(server().allow_origins(["https://chat.example.org"])).await;
    assert_eq!(allows(&desk).await.as_ref().and_then(|origin| origin.to_str().ok()), Some("https://chat.example.org"));
    desk.stop().await;
    let wrong = server().allow_origins(["chat.example.org"]).start("127.0.0.1:0").await;
    assert!(matches!(wrong, Err(ServerError::Origin { .. })), "{wrong:?}");
}

#[tokio::test]
async fn requests_over_the_limits_are_refused() {
    let desk = open(server().max_body(1_000)).await;
    let (status, error) = desk.post("/threads", json!({ "metadata": { "x": "y".repeat(2_000) } })).await;
    assert!(status == 413 && error["detail"].as_str().unwrap().contains("body"), "{error}");
    desk.stop().await;
    let desk = open(server().rate_limit(2)).await;
    let mut answers = Vec::new();
    for _ in 0..6 {
        answers.push(desk.post("/threads/count", json!({})).await.0);
    }
    assert!(answers.contains(&200) && answers.contains(&429), "{answers:?}");
    desk.stop().await;
    let desk = open(server().max_requests(1)).await;
    let thread = desk.thread().await;
    let held = desk.send(Method::GET, &format!("/threads/{thread}/stream"), &Value::Null).await;
    let refused = desk.send(Method::GET, "/ok", &Value::Null).await;
    assert_eq!(refused.status().as_u16(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    drop(held);
    desk.stop().await;
    let endless = Router::new().route("/endless", get(std::future::pending::<()>));
    let desk = open(server().routes(endless).max_time(Duration::from_millis(1))).await;
    let (status, error) = desk.get("/endless").await;
    assert!(status == 504 && error["detail"].as_str().unwrap().contains("longer than the server allows"), "{error}");
    desk.stop().await;
}

#[tokio::test]
async fn custom_routes_are_guarded_like_the_servers_own() {
    let hello = Router::new().route("/hello", get(async || "hello"));
    let desk = open(guarded().routes(hello)).await;
    assert_eq!(desk.get("/hello").await.0, 401);
    let (status, _) = as_user(&desk, "token-of-alice", Method::GET, "/hello", json!({})).await;
    assert_eq!(status, 200);
    assert_eq!(as_user(&desk, "token-of-alice", Method::POST, "/threads", json!({})).await.0, 200);
    desk.stop().await;
}

/// Some have the path of a public page, or a path below one.
#[tokio::test]
async fn custom_routes_near_public_pages_are_guarded() {
    let hello = || get(async || "hello").post(async || "hello");
    let hello_to_post = || post(async || "hello");
    let mut routes = Router::new().route("/studio/api2/x", hello()).route("/studio/private", hello());
    for path in ["/ok", "/studio/", "/studio/{file}"] {
        routes = routes.route(path, hello_to_post());
    }
    for (server, is_served) in [(guarded(), true), (guarded().without_studio(), false)] {
        let desk = open(server.routes(routes.clone())).await;
        for path in ["/studio/api2/x", "/studio/private"] {
            assert_eq!(desk.get(path).await.0, 401, "{path}");
            assert_eq!(as_user(&desk, "token-of-alice", Method::GET, path, json!({})).await.0, 200, "{path}");
        }
        for path in ["/ok", "/studio/", "/studio/main.js", "/studio/private"] {
            assert_eq!(desk.post(path, json!({})).await.0, 401, "{path}");
            assert_eq!(as_user(&desk, "token-of-alice", Method::POST, path, json!({})).await.0, 200, "{path}");
        }
        for path in ["/studio/", "/studio/main.js"] {
            assert_eq!(desk.get(path).await.0, if is_served { 200 } else { 401 }, "{path}");
        }
        desk.stop().await;
    }
}

#[tokio::test]
async fn users_have_a_default_rate_and_local_programs_have_none() {
    let desk = open(server()).await;
    let calls = (0..1_500).map(|_| desk.get("/ok"));
    let refused = futures_util::future::join_all(calls).await.into_iter().filter(|(status, _)| *status == 429).count();
    assert_eq!(refused, 0);
    desk.stop().await;
    let desk = open(guarded().rate_limit(1)).await;
    let ask = async || {
        let request = desk.client.post(format!("{}/threads/count", desk.base)).bearer_auth("token-of-alice");
        request.json(&json!({})).send().await.expect("an answer")
    };
    let (first, second) = (ask().await, ask().await);
    assert_eq!((first.status().as_u16(), second.status().as_u16()), (200, 429));
    assert_eq!(second.headers()["retry-after"], "1");
    let (status, _) = as_user(&desk, "token-of-bob", Method::POST, "/threads/count", json!({})).await;
    assert_eq!(status, 200, "others are not held up");
    desk.stop().await;
}

/// A page of another site reaches loopback through a browser on this machine.
#[tokio::test]
async fn server_without_auth_refuses_other_sites_and_foreign_hosts() {
    let desk = open(server()).await;
    let post = |origin: &str, host: Option<&str>| {
        let request = desk.client.post(format!("{}/threads", desk.base)).header("origin", origin);
        let request = request.header("content-type", "text/plain").body("{}");
        let request = if let Some(host) = host { request.header("host", host) } else { request };
        async { request.send().await.expect("an answer").status().as_u16() }
    };
    let (own, foreign) = (desk.base.clone(), "https://evil.example.org");
    assert_eq!(post(&own, None).await, 200);
    assert_eq!(post(foreign, None).await, 403);
    assert_eq!(post("null", None).await, 403);
    assert_eq!(post("http://evil.example.org:8123", Some("evil.example.org:8123")).await, 403);
    assert_eq!(post("http://localhost:8123", Some("localhost:8123")).await, 200);
    let read = desk.client.get(format!("{}/info", desk.base)).header("host", "evil.example.org");
    assert_eq!(read.send().await.expect("an answer").status(), 403);
    desk.stop().await;

    let desk = open(server().allow_origins([foreign])).await;
    let named = desk.client.post(format!("{}/threads", desk.base)).header("origin", foreign).json(&json!({}));
    assert_eq!(named.send().await.expect("an answer").status(), 200);
    desk.stop().await;
}
