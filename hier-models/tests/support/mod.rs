//! A loopback server that answers each request with the next reply of a list, and records the requests.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hier_agents::{ChatRequest, Message};
use hier_core::graph::Retry;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A reply of the server.
pub(crate) enum Reply {
    /// A complete answer: status, further headers, body.
    Whole(u16, &'static str, String),
    /// A truncated stream of events.
    CutStream(String),
    /// A truncated body: its length header is larger.
    CutBody(String),
    /// A complete stream of lines.
    Lines(String),
    /// These bytes, including the head.
    Raw(Vec<u8>),
    /// These bytes, including the head, in separate packets.
    Pieces(Vec<Vec<u8>>),
    /// A body with this head that ends only after this number of bytes.
    Endless(&'static str, usize),
    /// A stream of events that stalls.
    Stalled(String),
    /// A complete stream of server-sent events.
    Events(String),
    /// The answer of the function for the request's body. An error becomes status 400.
    Judged(fn(&Value) -> Result<Value, String>),
    /// Neither an answer nor a disconnect.
    Silence,
    /// A disconnect.
    Nothing,
}

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) head: String,
    pub(crate) body: Value,
    /// The body as it was sent.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Server {
    /// Starts a server with these replies. Further requests get a status that is not retried.
    pub(crate) async fn start(replies: impl IntoIterator<Item = Reply>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let server = Self { url, asked: Arc::default() };
        let replies: Vec<_> = replies.into_iter().collect();
        let asked = server.asked.clone();
        tokio::spawn(async move {
            let mut replies = replies.into_iter();
            while let Ok((stream, _)) = listener.accept().await {
                let reply = replies.next().unwrap_or_else(|| Reply::Whole(418, "", "{}".to_owned()));
                answer(stream, reply, &asked).await;
            }
        });
        server
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panics").clone()
    }
}

async fn answer(mut stream: TcpStream, reply: Reply, asked: &Mutex<Vec<Asked>>) {
    let request = read(&mut stream).await;
    asked.lock().expect("no panics").push(request.clone());
    let text = match reply {
        Reply::Whole(status, headers, body) => whole(status, headers, &body),
        Reply::Judged(judge) => match judge(&request.body) {
            Ok(answer) => whole(200, "", &answer.to_string()),
            Err(reason) => whole(400, "", &json!({ "error": { "message": reason } }).to_string()),
        },
        Reply::Events(events) => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{events}",
            events.len()
        ),
        Reply::Silence => {
            tokio::spawn(async move {
                let mut end = [0; 1];
                // Until the client disconnects.
                let _ = stream.read(&mut end).await;
            });
            return;
        }
        Reply::Stalled(events) => {
            let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
            let _ = stream.write_all(format!("{head}{events}").as_bytes()).await;
            tokio::spawn(async move {
                let mut end = [0; 1];
                let _ = stream.read(&mut end).await;
            });
            return;
        }
        Reply::CutStream(events) => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{events}",
            events.len() + 1_000
        ),
        Reply::CutBody(body) => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len() + 1_000
        ),
        Reply::Lines(lines) => format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/x-ndjson\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{lines}",
            lines.len()
        ),
        Reply::Raw(bytes) => {
            let _ = stream.write_all(&bytes).await;
            let _ = stream.shutdown().await;
            return;
        }
        Reply::Pieces(pieces) => {
            let _ = stream.set_nodelay(true);
            for piece in pieces {
                let _ = stream.write_all(&piece).await;
                let _ = stream.flush().await;
                tokio::task::yield_now().await;
            }
            let _ = stream.shutdown().await;
            return;
        }
        Reply::Endless(head, most) => {
            let _ = stream.write_all(head.as_bytes()).await;
            let block = vec![b'a'; 1 << 16];
            for _ in 0..most / block.len() {
                if stream.write_all(&block).await.is_err() {
                    break;
                }
            }
            return;
        }
        Reply::Nothing => String::new(),
    };
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn whole(status: u16, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n{body}"
    )
}

async fn read(stream: &mut TcpStream) -> Asked {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break String::from_utf8(bytes.drain(..end + 4).collect()).expect("a head of text");
        }
        assert!(stream.read_buf(&mut bytes).await.expect("a request") > 0, "a whole request");
    };
    let length = head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    while bytes.len() < length.unwrap_or(0) {
        assert!(stream.read_buf(&mut bytes).await.expect("a body") > 0, "a whole request");
    }
    Asked { head, body: serde_json::from_slice(&bytes).expect("JSON"), bytes }
}

pub(crate) fn ask(text: &str) -> ChatRequest {
    ChatRequest::new([Message::user(text)])
}

/// Three attempts with negligible delays.
pub(crate) fn quick() -> Retry {
    Retry { attempts: 3, interval: Duration::from_millis(1), ..Retry::default() }
}

pub(crate) fn failed(status: u16, headers: &'static str, message: &str) -> Reply {
    Reply::Whole(status, headers, json!({ "error": { "message": message } }).to_string())
}
