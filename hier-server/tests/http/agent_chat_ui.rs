//! The requests of agent-chat-ui (fdc87e6, with version 1.8.10 of the SDK): a page from another origin, an upload, a second turn, and an
//! answer that is made again.

use std::collections::HashMap;

use reqwest::{Method, Response};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::graphs::server;
use crate::support::{Desk, open, parse, said};

const ORIGIN: &str = "http://localhost:3000";

#[derive(Deserialize)]
struct Sent {
    method: String,
    path: String,
    #[serde(default)]
    headers: Map<String, Value>,
    #[serde(default)]
    body: Value,
}

fn filled(text: &str, known: &HashMap<&str, String>) -> String {
    known.iter().fold(text.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
}

async fn send(desk: &Desk, sent: &Sent, known: &HashMap<&str, String>) -> Response {
    let method = Method::from_bytes(sent.method.as_bytes()).expect("a method");
    let mut request = desk.client.request(method, format!("{}{}", desk.base, filled(&sent.path, known)));
    request = request.header("origin", ORIGIN);
    for (name, value) in sent.headers.iter().filter(|(name, _)| *name != "origin") {
        request = request.header(name, value.as_str().expect("a text"));
    }
    if !sent.body.is_null() {
        request = request.header("content-type", "application/json").body(filled(&sent.body.to_string(), known));
    }
    request.send().await.expect("an answer")
}

#[tokio::test]
async fn page_uploads_continues_and_regenerates_an_answer() {
    let desk = open(server().allow_origins([ORIGIN])).await;
    let mut known = HashMap::new();
    let mut turns = Vec::new();
    for line in include_str!("../recorded/agent-chat-ui.jsonl").lines() {
        let sent: Sent = serde_json::from_str(line).expect("a request");
        let response = send(&desk, &sent, &known).await;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("a body");
        assert_eq!(status, 200, "{} {}: {text}", sent.method, sent.path);
        assert_eq!(headers["access-control-allow-origin"], ORIGIN);
        if sent.path.ends_with("/runs/stream") {
            let run = headers["content-location"].to_str().expect("text").rsplit('/').next().expect("an id");
            known.insert("run", run.to_owned());
            let received = parse(&text);
            assert!(!received.iter().any(|received| received.event == "error"), "{received:?}");
            turns.push(said(&received, "values").last().expect("values")["messages"].clone());
            // The sent message is returned unchanged.
            for message in sent.body.pointer("/input/messages").and_then(Value::as_array).into_iter().flatten() {
                let kept =
                    turns[turns.len() - 1].as_array().expect("a list").iter().find(|kept| kept["id"] == message["id"]);
                assert_eq!(kept.expect("the message")["content"], message["content"]);
            }
            continue;
        }
        let body: Value = serde_json::from_str(&text).unwrap_or_default();
        if sent.path == "/threads" {
            known.insert("thread", body["thread_id"].as_str().expect("an id").to_owned());
        }
        if sent.path.ends_with("/history") {
            let history = body.as_array().expect("states");
            let latest = &history[0];
            known.insert("checkpoint", latest["checkpoint"]["checkpoint_id"].as_str().expect("an id").to_owned());
            // The state in which an answer was seen first; it is made again from the one before.
            let answers = |state: &Value| {
                state["values"]["messages"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .filter(|message| message["type"] == "ai")
                    .count()
            };
            let first = history.iter().rfind(|state| answers(state) == answers(latest)).expect("a state");
            known.insert("parent", first["parent_checkpoint"]["checkpoint_id"].as_str().expect("an id").to_owned());
        }
    }
    assert_eq!(turns.len(), 3);
    let people =
        |turn: &Value| turn.as_array().into_iter().flatten().filter(|message| message["type"] == "human").count();
    let counts: Vec<usize> = turns.iter().map(people).collect();
    assert!(counts[0] < counts[1] && counts[1] == counts[2], "an answer is made again, not another turn: {counts:?}");
    desk.stop().await;
}
