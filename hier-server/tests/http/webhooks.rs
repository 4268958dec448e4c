//! Webhooks: sent at the end of a run, at least once, and only to allowed addresses.

use std::sync::Arc;
use std::time::Duration;

use hier_core::CancellationToken;
use hier_core::runs::MemoryRuns;
use hier_core::store::MemoryStore;
use hier_server::Webhooks;
use hier_server::auth::{Tokens, User};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::graphs::server;
use crate::support::{Desk, open};

/// The head and the body that a receiver got.
type Received = (String, Value);

/// A receiver that answers one request after the other with these, and then with 200.
async fn receiver(answers: &'static [&'static str]) -> (String, mpsc::UnboundedReceiver<Received>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/hook?key=secret", listener.local_addr().expect("an address"));
    let (tell, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for number in 0.. {
            let Ok((mut socket, _)) = listener.accept().await else { return };
            let mut text = Vec::new();
            let (head, length) = loop {
                let mut part = [0; 4096];
                let read = socket.read(&mut part).await.unwrap_or(0);
                text.extend_from_slice(&part[..read]);
                let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
                let head = String::from_utf8_lossy(&text[..end]).to_lowercase();
                let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse().ok());
                break (head, end + 4 + length.unwrap_or(0));
            };
            while text.len() < length {
                let mut part = [0; 4096];
                let read = socket.read(&mut part).await.unwrap_or(0);
                text.extend_from_slice(&part[..read]);
            }
            let body = text.windows(4).position(|four| four == b"\r\n\r\n").map(|end| &text[end + 4..]);
            let body = serde_json::from_slice(body.unwrap_or_default()).unwrap_or_default();
            let answer = answers.get(number).copied().unwrap_or("200 OK\r\n");
            let _ = socket.write_all(format!("HTTP/1.1 {answer}content-length: 0\r\n\r\n").as_bytes()).await;
            if tell.send((head, body)).is_err() {
                return;
            }
        }
    });
    (address, received)
}

async fn next(received: &mut mpsc::UnboundedReceiver<Received>) -> Received {
    tokio::time::timeout(Duration::from_secs(90), received.recv()).await.expect("in time").expect("a request")
}

#[tokio::test]
async fn webhook_is_retried_until_it_is_accepted() {
    let (address, mut received) = receiver(&["500 Oops\r\n"]).await;
    let webhooks = Webhooks::new().allow_private().header("x-static", "yes");
    let tokens = Tokens::new([("token-of-alice", User::new("alice"))]);
    let desk = open(server().webhooks(webhooks).auth(tokens)).await;
    let ask = async |path: &str, body: Value| {
        let request = desk.client.post(format!("{}{path}", desk.base)).bearer_auth("token-of-alice").json(&body);
        request.send().await.expect("an answer").json::<Value>().await.unwrap_or_default()
    };
    let body = json!({
        "assistant_id": "two", "input": { "n": 1 }, "webhook": address, "metadata": { "k": 1 },
        "config": { "configurable": { "password": "opensesame" } },
    });
    assert_eq!(ask("/runs/wait", body).await["n"], 4.0);
    let (head, body) = next(&mut received).await;
    let (_, again) = next(&mut received).await;
    assert!(head.starts_with("post /hook?key=secret http/1.1"), "{head}");
    let id = body["run_id"].as_str().expect("an id");
    for line in ["content-type: application/json", "x-static: yes", &format!("webhook-id: {id}")] {
        assert!(head.lines().any(|found| found == line), "{line} in {head}");
    }
    assert_eq!(body["run_id"], again["run_id"]);
    assert_eq!(
        (&body["status"], &body["values"], &body["metadata"]["k"]),
        (&json!("success"), &json!({ "n": 4.0, "log": ["a", "b"] }), &json!(1))
    );
    for field in
        ["thread_id", "assistant_id", "kwargs", "created_at", "run_started_at", "run_ended_at", "webhook_sent_at"]
    {
        assert!(!body[field].is_null(), "{field} in {body}");
    }
    for secret in ["opensesame", "langgraph_auth_user", "permissions"] {
        assert!(!body.to_string().contains(secret), "{secret} in {body}");
    }
    let quiet = tokio::time::timeout(Duration::from_millis(1_500), received.recv()).await;
    assert!(quiet.is_err(), "an accepted webhook is not repeated");
    desk.stop().await;
}

#[tokio::test]
async fn webhook_reports_failures_and_follows_no_redirects() {
    let (elsewhere, mut reached) = receiver(&[]).await;
    let redirect = Box::leak(format!("307 Elsewhere\r\nlocation: {elsewhere}\r\n").into_boxed_str());
    let answers: &'static [&'static str] = Box::leak(Box::new([&*redirect]));
    let (address, mut received) = receiver(answers).await;
    let desk = open(server().webhooks(Webhooks::new().allow_private())).await;
    let body = json!({ "assistant_id": "boom", "input": { "n": 1 }, "webhook": address });
    desk.post("/runs/wait", body).await;
    let (_, body) = next(&mut received).await;
    assert_eq!((&body["status"], &body["error"]["error"]), (&json!("error"), &json!("NodeError")));
    let (_, again) = next(&mut received).await;
    assert_eq!(again["status"], "error", "a redirect is not a success: the webhook is repeated to the same address");
    assert!(reached.try_recv().is_err());
    desk.stop().await;
}

#[tokio::test]
async fn next_process_sends_pending_webhooks() {
    let store = MemoryRuns::new();
    let start =
        |webhooks| server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default())).webhooks(webhooks);
    // It closes each connection until it may answer.
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let desk = open(start(Webhooks::new().allow_private())).await;
    let body = json!({ "assistant_id": "two", "input": { "n": 1 }, "webhook": format!("http://{address}/hook") });
    desk.post("/runs/wait", body).await;
    let called = tokio::time::timeout(Duration::from_secs(90), listener.accept()).await.expect("it is sent");
    drop(called.expect("a connection"));
    desk.stop().await;
    let kept = hier_core::runs::Webhooks::of(&store).all().await.expect("webhooks");
    assert_eq!(kept.len(), 1, "{kept:?}");
    let (tell, mut received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        // All requests are answered, because the first process may have left one in the queue.
        loop {
            let (mut socket, _) = listener.accept().await.expect("a connection");
            let mut part = vec![0; 65_536];
            let _ = socket.read(&mut part).await;
            let _ = socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await;
            let _ = tell.send(());
        }
    });
    let desk = open(start(Webhooks::new().allow_private())).await;
    tokio::time::timeout(Duration::from_secs(90), received.recv()).await.expect("it is sent").expect("a request");
    let gone = async {
        while !hier_core::runs::Webhooks::of(&store).all().await.expect("webhooks").is_empty() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(90), gone).await.expect("it is not sent again");
    desk.stop().await;
}

#[tokio::test]
async fn internal_addresses_are_refused_unless_allowed() {
    let desk = open(server()).await;
    for (address, says) in [
        ("http://127.0.0.1:28199/hook?x=1", "Webhook host blocked: loopback IP range"),
        ("/hook", "Loopback webhooks (relative URLs and localhost) are disabled by default"),
        ("http://169.254.169.254/x", "Webhook host blocked: blocked IP range"),
    ] {
        let body = json!({ "assistant_id": "two", "input": { "n": 1 }, "webhook": address });
        let (status, error) = desk.post("/runs/wait", body).await;
        assert!(status == 422 && error["detail"].as_str().unwrap_or_default().contains(says), "{address}: {error}");
    }
    desk.stop().await;
    let wrong = server().webhooks(Webhooks::new().header("x y", "1")).start("127.0.0.1:0").await;
    assert!(wrong.is_err_and(|error| error.to_string().contains("`x y`")));
}

#[tokio::test]
async fn path_is_a_route_of_the_server_itself() {
    let desk = open(server().webhooks(Webhooks::new().allow_relative())).await;
    receives_its_own(&desk).await;
    desk.stop().await;
}

/// The worker has no routes, so the server itself sends the webhook.
#[tokio::test]
async fn server_without_worker_sends_webhooks_to_its_paths() {
    let store = MemoryRuns::new();
    let process = || {
        let storage = server().storage(Arc::new(store.clone()), Arc::new(MemoryStore::default()));
        storage.webhooks(Webhooks::new().allow_relative())
    };
    let desk = open(process().without_worker()).await;
    let (worker, stop) = (process().worker().await.expect("a worker"), CancellationToken::new());
    let used = async {
        receives_its_own(&desk).await;
        stop.cancel();
    };
    tokio::join!(worker.run_until(stop.clone()), used);
    desk.stop().await;
}

/// Executes a run whose webhook is a route of the server, and waits for the request.
async fn receives_its_own(desk: &Desk) {
    let body = json!({ "assistant_id": "two", "input": { "n": 1 }, "webhook": "/threads/count" });
    assert_eq!(desk.post("/runs/wait", body).await.0, 200);
    let counted = async {
        loop {
            let (_, metrics) = desk.ask(Method::GET, "/metrics", Value::Null).await;
            if metrics.as_str().is_some_and(|text| text.contains("/threads/count")) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), counted).await.expect("the server received its own webhook");
}
