//! A server, and a client that searches every response for the canary.

use std::time::Duration;

use hier_server::Running;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::graphs::{hides, server};

const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Surface {
    base: String,
    client: reqwest::Client,
    running: Running,
}

impl Surface {
    pub(crate) async fn start() -> Self {
        let running = server().start("127.0.0.1:0").await.expect("the server starts");
        Self { base: format!("http://{}", running.address()), client: reqwest::Client::new(), running }
    }

    pub(crate) async fn stop(self) {
        self.running.stop().await.expect("the server stops");
    }

    fn request(&self, method: &str, path: &str, body: &Value) -> reqwest::RequestBuilder {
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let request = self.client.request(method, format!("{}{path}", self.base)).timeout(PATIENCE);
        if body.is_null() { request } else { request.json(body) }
    }

    /// Returns the headers and the body of a response.
    pub(crate) async fn text(&self, method: &str, path: &str, body: &Value) -> String {
        if method == "GET" && path.ends_with("/stream") {
            return self.open(path, Duration::from_millis(300)).await;
        }
        let response = self.request(method, path, body).send().await.expect("a response");
        let head = format!("{} {:?}", response.status(), response.headers());
        let text = response.text().await.expect("a body");
        hides(&format!("{method} {path}"), &format!("{head}\n{text}"));
        text
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        let text = self.text("GET", path, &Value::Null).await;
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Value {
        let text = self.text("POST", path, &body).await;
        serde_json::from_str(&text).unwrap_or(Value::String(text))
    }

    /// Returns the part of an endless stream that arrives within this time.
    pub(crate) async fn open(&self, path: &str, time: Duration) -> String {
        self.read_for(self.request("GET", path, &Value::Null), path, time).await
    }

    pub(crate) async fn open_with(&self, path: &str, body: Value, time: Duration) -> String {
        self.read_for(self.request("POST", path, &body), path, time).await
    }

    async fn read_for(&self, request: reqwest::RequestBuilder, path: &str, time: Duration) -> String {
        let mut response = request.send().await.expect("a response");
        let mut text = String::new();
        let end = tokio::time::Instant::now() + time;
        while let Ok(Ok(Some(part))) = tokio::time::timeout_at(end, response.chunk()).await {
            text.push_str(&String::from_utf8_lossy(&part));
        }
        hides(path, &text);
        text
    }

    pub(crate) async fn thread(&self) -> String {
        let thread = self.post("/threads", json!({})).await;
        thread["thread_id"].as_str().expect("an id").to_owned()
    }

    /// The namespaces of the open calls of a thread, and that of its root graph.
    pub(crate) async fn namespaces(&self, thread: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        let history = self.get(&format!("/threads/{thread}/history?limit=100")).await;
        for task in history.as_array().into_iter().flatten().filter_map(|state| state["tasks"].as_array()).flatten() {
            let space = task["checkpoint"]["checkpoint_ns"].as_str();
            found.extend(space.map(|space| space.replace('|', "%7C").replace(':', "%3A")));
        }
        found.sort();
        found.dedup();
        found
    }

    /// The schemas of a graph, by the id of its assistant.
    pub(crate) async fn schemas(&self, graph: &str) -> Value {
        let found = self.post("/assistants/search", json!({ "graph_id": graph })).await;
        let id = found[0]["assistant_id"].as_str().expect("an id");
        self.get(&format!("/assistants/{id}/schemas")).await
    }
}

/// A receiver of webhooks that accepts them all, and its requests.
pub(crate) async fn receiver() -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}/hook", listener.local_addr().expect("an address"));
    let (send, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let mut text = Vec::new();
            while !is_complete(&text) {
                let mut part = [0; 4096];
                match socket.read(&mut part).await {
                    Ok(0) | Err(_) => break,
                    Ok(read) => text.extend_from_slice(&part[..read]),
                }
            }
            let _ = socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            if send.send(String::from_utf8_lossy(&text).into_owned()).is_err() {
                return;
            }
        }
    });
    (address, received)
}

/// Returns true if the body of a request has arrived.
fn is_complete(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.lines().next()?.parse::<usize>().ok());
    body.len() >= length.unwrap_or(0)
}
