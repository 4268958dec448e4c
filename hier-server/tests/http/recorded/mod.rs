//! The server answers as LangGraph's own did, when `tests/recorded/exchanges.jsonl` was recorded: requests in their order with the
//! status, the headers that matter and the body or the events. In the recording, ids are names in braces, so that it is
//! also checked that the same thing keeps its id.

mod compare;
mod graphs;
pub(crate) mod kept;

use std::time::Duration;

use compare::Names;
use kept::Kept;
use reqwest::{Method, Response};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::{Desk, SentEvent, open, parse};

/// A recorded request and response.
#[derive(Debug, Deserialize)]
pub(crate) struct Exchange {
    pub(crate) name: String,
    pub(crate) method: String,
    pub(crate) path: String,
    #[serde(default)]
    headers: serde_json::Map<String, Value>,
    pub(crate) body: Option<Value>,
    /// A body that is not JSON.
    raw: Option<String>,
    pub(crate) answer: Answer,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: serde_json::Map<String, Value>,
    pub(crate) body: Option<Value>,
    pub(crate) events: Option<Vec<Value>>,
}

pub(crate) fn exchanges() -> Vec<Exchange> {
    let lines = include_str!("../../recorded/exchanges.jsonl").lines();
    lines.map(|line| serde_json::from_str(line).expect("an exchange")).collect()
}

impl Exchange {
    async fn send(&self, desk: &Desk, names: &mut Names) -> Response {
        let method = Method::from_bytes(self.method.as_bytes()).expect("a method");
        let mut request = desk.client.request(method, format!("{}{}", desk.base, names.fill(&self.path)));
        for (name, value) in &self.headers {
            request = request.header(name, names.fill(value.as_str().expect("a text")));
        }
        if let Some(body) = &self.body {
            request = request.json(&names.fill_in(body));
        } else if let Some(raw) = &self.raw {
            request = request.body(raw.clone());
        }
        request.send().await.expect("an answer")
    }

    /// Returns true if the stream stays open after the recording.
    fn is_endless(&self) -> bool {
        self.path.ends_with("/stream/events") || self.follows_thread()
    }

    /// Returns true if it follows a thread. Such a stream was recorded at its end, after its events.
    fn follows_thread(&self) -> bool {
        self.method == "GET" && self.path.split('/').nth(3).is_some_and(|part| part.starts_with("stream"))
    }
}

fn as_json(received: &SentEvent) -> Value {
    let mut event = json!({ "event": received.event, "data": received.data });
    if let Some(id) = &received.id {
        event["id"] = id.as_str().into();
    }
    event
}

/// The events of a stream: all, or as far as it was recorded.
async fn events(desk: &Desk, exchange: &Exchange, recorded: &[Value], mut response: Response) -> Vec<Value> {
    if !exchange.is_endless() {
        return parse(&response.text().await.expect("a body")).iter().map(as_json).collect();
    }
    let kinds: Vec<_> = recorded.iter().map(|event| event["event"].clone()).collect();
    let counted = |name: &Value| *name == "lifecycle" || !kinds.contains(&"lifecycle".into());
    let all = kinds.iter().filter(|name| counted(name)).count();
    if all == 0 {
        return Vec::new();
    }
    // The v3 protocol is read until each graph has started and ended as often as in the recording.
    let is_whole = |received: &[SentEvent]| {
        received.iter().filter(|received| counted(&received.event.as_str().into())).count() >= all
    };
    let received = desk.until(&mut response, &mut String::new(), is_whole).await;
    // Kinds of events that were not recorded are not compared.
    received.iter().map(as_json).filter(|event| kinds.contains(&event["event"])).collect()
}

/// Returns the differences of a response from the recorded one.
async fn differences(desk: &Desk, exchange: &Exchange, response: Response, names: &mut Names) -> Vec<(String, String)> {
    let mut differ = Vec::new();
    names.compare(&exchange.answer.status.into(), &response.status().as_u16().into(), "status", &mut differ);
    for (name, want) in &exchange.answer.headers {
        let have = response.headers().get(name).and_then(|value| value.to_str().ok()).map(Value::from);
        names.compare(want, &have.unwrap_or_default(), &format!("headers/{name}"), &mut differ);
    }
    if let Some(recorded) = &exchange.answer.events {
        let (mut recorded, mut received) = (recorded.clone(), events(desk, exchange, recorded, response).await);
        // The order of modes at one moment is hier's. Each mode has its events in the recorded order.
        if exchange
            .body
            .as_ref()
            .is_some_and(|body| body["stream_mode"].as_array().is_some_and(|modes| modes.len() > 3))
        {
            for events in [&mut recorded, &mut received] {
                events.sort_by_key(|event| event["event"].to_string());
            }
        }
        names.compare(&json!(recorded), &json!(received), "events", &mut differ);
    } else {
        let text = response.text().await.expect("a body");
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        let is_json = exchange.answer.headers.contains_key("content-type");
        let none = if is_json { Value::Null } else { "".into() };
        let recorded = exchange.answer.body.clone().unwrap_or(none);
        names.compare(&recorded, &body, "body", &mut differ);
    }
    differ
}

/// The timeout of a response on a loaded machine.
const LONGEST: Duration = Duration::from_secs(10);

#[tokio::test]
async fn responses_are_those_of_langgraph() {
    let desk = open(graphs::server()).await;
    let mut names = Names::default();
    let (mut differ, mut kept) = (Vec::new(), Kept::default());
    let exchanges = exchanges();
    // Streams of a thread start before its events.
    let mut followed = None;
    for (number, exchange) in exchanges.iter().enumerate() {
        let upcoming = exchanges.iter().skip(number).take(3).find(|next| next.follows_thread());
        if followed.is_none()
            && let Some(upcoming) = upcoming
            && exchange.body.as_ref().is_some_and(|body| body.get("input").is_some())
        {
            followed = Some(upcoming.send(&desk, &mut names).await);
        }
        let received = async {
            let response = match followed.take_if(|_| exchange.follows_thread()) {
                Some(response) => response,
                None => exchange.send(&desk, &mut names).await,
            };
            differences(&desk, exchange, response, &mut names).await
        };
        let received = tokio::time::timeout(LONGEST, received).await;
        let here = received.unwrap_or_else(|_| vec![("answer".to_owned(), "does not come".to_owned())]);
        for (path, what) in here {
            if !kept.knows(&exchange.name, &path) {
                differ.push(format!("{} {path}: {what}", exchange.name));
            }
        }
    }
    desk.stop().await;
    assert!(differ.is_empty(), "{} differences:\n{}", differ.len(), differ.join("\n"));
    assert_eq!(kept.unused(), Vec::<&str>::new(), "these differences are gone: delete them here and in docs/server.md");
}
