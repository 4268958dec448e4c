//! A stream belongs to a thread of one user, and not to its id: threads are deleted and created again under open streams, by another
//! user.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hier_server::auth::{Tokens, User};
use reqwest::{Method, Response};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::graphs::server;
use crate::support::{Desk, as_user, open, sent_by};

const ALICE: &str = "token-of-alice";
const BOB: &str = "token-of-bob";
/// A text in Alice's runs that Bob must not read.
const SECRET: &str = "4815162342";

async fn two_users() -> Desk {
    open(server().auth(Tokens::new([(ALICE, User::new("alice")), (BOB, User::new("bob"))]))).await
}

async fn create(desk: &Desk, token: &str, thread: &str) {
    let (status, made) = as_user(desk, token, Method::POST, "/threads", json!({ "thread_id": thread })).await;
    assert_eq!(status, 200, "{made}");
}

async fn run(desk: &Desk, token: &str, thread: &str, n: &str) {
    let body = json!({ "assistant_id": "two", "input": { "n": n.parse::<f64>().expect("a number") } });
    let (status, answer) = as_user(desk, token, Method::POST, &format!("/threads/{thread}/runs/wait"), body).await;
    assert_eq!(status, 200, "{answer}");
}

async fn delete(desk: &Desk, token: &str, thread: &str) {
    let (status, _) = as_user(desk, token, Method::DELETE, &format!("/threads/{thread}"), json!({})).await;
    assert_eq!(status, 204);
}

fn channels() -> Value {
    json!({ "channels": ["values", "updates", "messages", "lifecycle", "tasks"], "since": 0 })
}

/// All ways to follow a thread.
async fn streams(desk: &Desk, token: &str, thread: &str) -> Vec<(&'static str, Response)> {
    let follow = async |method, path: String, body: Value| {
        let response = sent_by(desk, token, method, &path, &body).await;
        assert_eq!(response.status(), 200, "{path}");
        response
    };
    vec![
        ("events", follow(Method::POST, format!("/threads/{thread}/stream/events"), channels()).await),
        ("stream", follow(Method::GET, format!("/threads/{thread}/stream"), json!({})).await),
        ("studio", follow(Method::GET, format!("/studio/api/threads/{thread}/events"), json!({})).await),
    ]
}

type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// A connection that has subscribed to everything of a thread.
async fn subscribed(desk: &Desk, token: &str, thread: &str) -> Socket {
    let address = format!("{}/threads/{thread}/stream/events", desk.base.replace("http:", "ws:"));
    let mut request = address.into_client_request().expect("a request");
    let bearer = format!("Bearer {token}").parse().expect("a header");
    request.headers_mut().insert("authorization", bearer);
    let (mut socket, _) = connect_async(request).await.expect("a connection");
    let subscribe = json!({ "id": 1, "method": "subscription.subscribe", "params": channels() });
    socket.send(Message::text(subscribe.to_string())).await.expect("it is sent");
    let answer = next(&mut socket).await.expect("an answer");
    assert!(answer.contains("success"), "{answer}");
    socket
}

/// Returns the next text of a connection, or none at its end.
async fn next(socket: &mut Socket) -> Option<String> {
    loop {
        let next = tokio::time::timeout(Duration::from_secs(90), socket.next()).await.expect("a frame in time");
        match next {
            Some(Ok(Message::Text(text))) => return Some(text.to_string()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            _ => return None,
        }
    }
}

#[tokio::test]
async fn streams_end_with_their_thread_and_never_show_a_later_one() {
    let (desk, thread) = (two_users().await, uuid::Uuid::now_v7().to_string());
    create(&desk, BOB, &thread).await;
    run(&desk, BOB, &thread, "1").await;
    let open = streams(&desk, BOB, &thread).await;
    let mut socket = subscribed(&desk, BOB, &thread).await;
    delete(&desk, BOB, &thread).await;
    create(&desk, ALICE, &thread).await;
    run(&desk, ALICE, &thread, SECRET).await;
    for (name, stream) in open {
        let received = stream.text().await.unwrap_or_else(|error| panic!("{name} ends: {error}"));
        assert!(!received.contains(SECRET), "{name}: {received}");
    }
    while let Some(text) = next(&mut socket).await {
        assert!(!text.contains(SECRET), "{text}");
    }
    desk.stop().await;
}

#[tokio::test]
async fn awaiting_stream_shows_only_readable_threads() {
    let (desk, thread) = (two_users().await, uuid::Uuid::now_v7().to_string());
    let path = format!("/threads/{thread}/stream/events");
    let mut events = sent_by(&desk, BOB, Method::POST, &path, &channels()).await;
    assert_eq!(events.status(), 200);
    let mut socket = subscribed(&desk, BOB, &thread).await;
    create(&desk, ALICE, &thread).await;
    run(&desk, ALICE, &thread, SECRET).await;
    delete(&desk, ALICE, &thread).await;
    create(&desk, BOB, &thread).await;
    run(&desk, BOB, &thread, "7").await;
    // They show the run of the listening user, and nothing before it.
    let mut text = String::new();
    desk.until(&mut events, &mut text, |received| {
        received.iter().any(|received| received.data.to_string().contains("completed"))
    })
    .await;
    assert!(!text.contains(SECRET), "{text}");
    let mut received = Vec::new();
    while !received.iter().any(|text: &String| text.contains("completed")) {
        received.push(next(&mut socket).await.expect("the connection is open"));
    }
    assert!(!received.concat().contains(SECRET), "{received:?}");
    drop(events);
    desk.stop().await;
}
