//! A client with an older protocol, which has a session.

use std::collections::VecDeque;
use std::time::Duration;

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

pub(crate) struct Session {
    client: reqwest::Client,
    url: String,
    id: String,
    /// The stream of requests that do not belong to a call.
    requests: Option<Response>,
    read: VecDeque<Value>,
}

impl Session {
    pub(crate) async fn begin(url: &str) -> Self {
        let client = reqwest::Client::new();
        let begin = json!({
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18", "capabilities": { "elicitation": {} },
                "clientInfo": { "name": "test", "version": "1" },
            },
        });
        let request = client.post(url).header("accept", "application/json, text/event-stream").json(&begin);
        let response = request.send().await.unwrap();
        let id = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        response.text().await.unwrap();
        let mut session = Self { client, url: url.to_owned(), id, requests: None, read: VecDeque::new() };
        session.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        let requests = session.of_session(session.client.get(url)).send().await.unwrap();
        assert_eq!(requests.status(), 200);
        session.requests = Some(requests);
        session
    }

    fn of_session(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request.header("accept", "application/json, text/event-stream");
        request.header("mcp-session-id", &self.id).header("mcp-protocol-version", "2025-06-18")
    }

    async fn send(&self, message: &Value) -> Response {
        self.of_session(self.client.post(&self.url)).json(message).send().await.unwrap()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Response {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params})).await
    }

    pub(crate) async fn respond(&self, request: &Value, result: Value) {
        let id = &request["id"];
        assert_eq!(self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await.status(), 202);
    }

    /// Sends a ping and returns the answer.
    pub(crate) async fn ping(&self) -> Value {
        let answer = self.send(&json!({"jsonrpc": "2.0", "id": 3, "method": "ping"})).await.text().await.unwrap();
        messages(&answer).pop().expect("an answer")
    }

    /// Returns the next message of the server.
    pub(crate) async fn next(&mut self, call: &mut Response) -> Value {
        let requests = self.requests.as_mut().unwrap();
        let read = async {
            while self.read.is_empty() {
                let chunk = tokio::select! {
                    chunk = requests.chunk() => chunk,
                    chunk = call.chunk() => chunk,
                };
                let chunk = chunk.unwrap().expect("the session goes on");
                self.read.extend(messages(std::str::from_utf8(&chunk).unwrap()));
            }
        };
        tokio::time::timeout(Duration::from_secs(5), read).await.expect("a message");
        self.read.pop_front().unwrap()
    }
}

/// Returns the messages in a part of a stream.
fn messages(text: &str) -> Vec<Value> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    data.filter_map(|data| serde_json::from_str(data).ok()).collect()
}
