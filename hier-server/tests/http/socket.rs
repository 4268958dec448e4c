//! The second protocol over a WebSocket.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use hier_server::auth::{Tokens, User};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::graphs::server;
use crate::support::{Desk, desk, open};

struct Line {
    socket: WebSocketStream<MaybeTlsStream<TcpStream>>,
    /// Events that came while an answer was awaited.
    events: Vec<Value>,
}

fn address(desk: &Desk, thread: &str) -> String {
    format!("{}/threads/{thread}/stream/events", desk.base.replace("http:", "ws:"))
}

impl Line {
    async fn open(desk: &Desk, thread: &str) -> Self {
        let (socket, _) = connect_async(address(desk, thread)).await.expect("a connection");
        Self { socket, events: Vec::new() }
    }

    /// The next frame that is JSON.
    async fn next(&mut self) -> Value {
        loop {
            let next =
                tokio::time::timeout(Duration::from_secs(90), self.socket.next()).await.expect("a frame in time");
            if let Message::Text(text) = next.expect("an open connection").expect("a frame") {
                return serde_json::from_str(&text).expect("JSON");
            }
        }
    }

    /// Sends a command, and returns the answer.
    async fn command(&mut self, method: &str, params: Value) -> Value {
        let body = json!({ "id": 7, "method": method, "params": params });
        self.socket.send(Message::text(body.to_string())).await.expect("it is sent");
        loop {
            let next = self.next().await;
            if next["type"] != "event" {
                assert_eq!(next["id"], 7, "{next}");
                return next;
            }
            self.events.push(next);
        }
    }

    async fn subscribe(&mut self, params: Value) -> String {
        let answer = self.command("subscription.subscribe", params).await;
        assert_eq!(answer["type"], "success", "{answer}");
        answer["result"]["subscription_id"].as_str().expect("an id").to_owned()
    }

    /// The events up to the root's lifecycle event of this name.
    async fn until(&mut self, last: &str) -> Vec<Value> {
        let mut received = std::mem::take(&mut self.events);
        let is_last = |event: &Value| {
            let params = &event["params"];
            event["method"] == "lifecycle" && params["namespace"] == json!([]) && params["data"]["event"] == last
        };
        while !received.iter().any(is_last) {
            received.push(self.next().await);
        }
        received
    }
}

fn methods(events: &[Value]) -> Vec<&str> {
    events.iter().filter_map(|event| event["method"].as_str()).collect()
}

fn numbers(events: &[Value]) -> Vec<u64> {
    events.iter().filter_map(|event| event["seq"].as_u64()).collect()
}

#[tokio::test]
async fn commands_and_events_share_a_connection() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut line = Line::open(&desk, &thread).await;
    line.subscribe(json!({ "channels": ["values", "lifecycle", "input"] })).await;
    let run = json!({ "assistant_id": "hitl", "input": { "n": 1.0 } });
    assert_eq!(line.command("run.start", run).await["type"], "success");
    let received = line.until("interrupted").await;
    let asked = received.iter().find(|event| event["method"] == "input.requested").expect("a question");
    let id = &asked["params"]["data"]["interrupt_id"];
    let answer = json!({ "interrupt_id": id, "namespace": [], "response": "yes" });
    assert_eq!(line.command("input.respond", answer).await["type"], "success");
    let rest = line.until("completed").await;
    let last = rest.iter().rfind(|event| event["method"] == "values").expect("values");
    assert_eq!(last["params"]["data"]["log"], json!(["a", "ask:yes", "b"]));
    let all = [numbers(&received), numbers(&rest)].concat();
    assert!(all.windows(2).all(|two| two[0] < two[1]), "{all:?}");
    desk.stop().await;
}

#[tokio::test]
async fn later_subscription_gets_all_events_and_the_first_no_duplicates() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut line = Line::open(&desk, &thread).await;
    line.subscribe(json!({ "channels": ["lifecycle"] })).await;
    line.command("run.start", json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    let first = line.until("completed").await;
    assert!(methods(&first).iter().all(|method| *method == "lifecycle"));
    let late = line.subscribe(json!({ "channels": ["updates"] })).await;
    let mut received = Vec::new();
    while received.len() < 2 {
        received.push(line.next().await);
    }
    assert_eq!(methods(&received), ["updates", "updates"], "events of the first subscription are not repeated");
    assert!(
        numbers(&received)[0] > *numbers(&first).last().unwrap(),
        "numbers never go backwards: clients ignore lower ones"
    );
    // From a number on, and after it was taken back, nothing.
    line.command("subscription.unsubscribe", json!({ "subscription_id": late })).await;
    let since = numbers(&received)[0];
    line.subscribe(json!({ "channels": ["updates"], "since": since })).await;
    assert_eq!(line.next().await["event_id"], received[1]["event_id"]);
    desk.stop().await;
}

/// The page of `@langchain/react` subscribes twice after the start of a run. It ignores events of the second subscription whose numbers
/// are not greater than that of the run's end. The end itself keeps its number: a client that is sent it as a new one stops.
#[tokio::test]
async fn subscription_after_the_end_of_a_run_has_all_its_events_with_greater_numbers() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut line = Line::open(&desk, &thread).await;
    line.command("run.start", json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    line.subscribe(json!({ "channels": ["lifecycle", "input"] })).await;
    let first = line.until("completed").await;
    line.subscribe(json!({ "channels": ["values", "lifecycle", "checkpoints"], "namespaces": [[]], "depth": 1 })).await;
    let second = line.until("completed").await;
    let values: Vec<&Value> = second.iter().filter(|event| event["method"] == "values").collect();
    assert_eq!(values.last().expect("values")["params"]["data"], json!({ "n": 4.0, "log": ["a", "b"] }));
    let (end, before) = second.split_last().expect("events");
    assert_eq!(end["seq"], first.last().expect("the end")["seq"]);
    let all = [numbers(&first), numbers(before)].concat();
    assert!(all.is_sorted_by(|one, next| one < next), "{all:?}");
    let ids = |events: &[Value]| -> Vec<Value> {
        events.iter().filter(|event| event["method"] == "lifecycle").map(|event| event["event_id"].clone()).collect()
    };
    assert_eq!(ids(&first), ids(&second), "an event has the same id whenever it is sent");
    // On another connection, the greater numbers mean the same place of the thread.
    let since = second.iter().rev().nth(1).expect("an event before the last")["seq"].clone();
    let mut other = Line::open(&desk, &thread).await;
    other.subscribe(json!({ "channels": ["values", "lifecycle", "checkpoints"], "since": since })).await;
    let rest = other.until("completed").await;
    assert_eq!(rest.len(), 1, "{rest:?}");
    desk.stop().await;
}

#[tokio::test]
async fn earlier_place_of_a_later_subscription_is_served() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut line = Line::open(&desk, &thread).await;
    line.command("run.start", json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    line.subscribe(json!({ "channels": ["lifecycle"], "since": 1_000_000 })).await;
    line.subscribe(json!({ "channels": ["lifecycle"] })).await;
    assert_eq!(methods(&line.until("completed").await), ["lifecycle", "lifecycle"]);
    desk.stop().await;
}

#[tokio::test]
async fn invalid_messages_are_refused_and_the_connection_stays() {
    let desk = desk().await;
    let thread = desk.thread().await;
    let mut line = Line::open(&desk, &thread).await;
    line.socket.send(Message::text("{")).await.expect("it is sent");
    assert_eq!(line.next().await["error"], "invalid_argument");
    for (method, params, error) in [
        ("run.start", json!({ "assistant_id": "nope" }), "unknown_error"),
        ("fly", json!({}), "unknown_command"),
        ("subscription.subscribe", json!({ "channels": ["smells"] }), "invalid_argument"),
        ("subscription.unsubscribe", json!({ "subscription_id": "x" }), "no_such_subscription"),
    ] {
        let answer = line.command(method, params).await;
        assert_eq!((&answer["type"], &answer["error"]), (&json!("error"), &json!(error)), "{method}: {answer}");
    }
    line.subscribe(json!({ "channels": ["lifecycle"] })).await;
    line.command("run.start", json!({ "assistant_id": "two", "input": { "n": 1.0 } })).await;
    line.until("completed").await;
    desk.stop().await;
}

#[tokio::test]
async fn connection_is_authenticated_and_ends_with_the_server() {
    let guarded = server().auth(Tokens::new([("token-of-alice", User::new("alice"))]));
    let desk = open(guarded).await;
    let thread = "48d6f4e1-ea21-4b3c-901c-f6ebfd376bdc";
    assert!(connect_async(address(&desk, thread)).await.is_err(), "without a token");
    let mut request = address(&desk, thread).into_client_request().expect("a request");
    request.headers_mut().insert("authorization", "Bearer token-of-alice".parse().expect("a header"));
    let (socket, _) = connect_async(request).await.expect("a connection");
    let mut line = Line { socket, events: Vec::new() };
    line.subscribe(json!({ "channels": ["lifecycle"] })).await;
    desk.stop().await;
    let ended = tokio::time::timeout(Duration::from_secs(90), async {
        while let Some(Ok(message)) = line.socket.next().await {
            if matches!(message, Message::Close(_)) {
                break;
            }
        }
    });
    ended.await.expect("it is closed");
}

#[tokio::test]
async fn connections_count_as_requests_and_their_commands_too() {
    let desk = open(server().max_requests(3)).await;
    let thread = desk.thread().await;
    let lines = [Line::open(&desk, &thread).await, Line::open(&desk, &thread).await];
    assert_eq!(desk.get("/ok").await.0, 200, "there is room for one more");
    let third = Line::open(&desk, &thread).await;
    assert_eq!(desk.get("/ok").await.0, 503);
    assert!(connect_async(address(&desk, &thread)).await.is_err(), "a fourth is refused");
    drop((lines, third));
    let freed = async {
        while desk.get("/ok").await.0 != 200 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), freed).await.expect("closed connections make room");
    desk.stop().await;

    let desk = open(server().rate_limit(5)).await;
    let (thread, begun) = (uuid::Uuid::now_v7().to_string(), std::time::Instant::now());
    let mut line = Line::open(&desk, &thread).await;
    let mut done = 0.0;
    for _ in 0..100 {
        let answer = line.command("state.listCheckpoints", json!({})).await;
        if answer["type"] == "success" {
            done += 1.0;
        } else {
            assert_eq!(answer["message"], "too many requests: try again in a second", "{answer}");
        }
    }
    let most = 5.0 * begun.elapsed().as_secs_f64() + 5.0;
    assert!(done <= most, "{done} commands were done, and not {most}");
    desk.stop().await;
}
