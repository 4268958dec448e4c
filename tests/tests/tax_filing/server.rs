//! A scripted model behind HTTP with OpenAI's protocol.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

/// Starts a server on a free port that answers the first request with the first call, and so on. Returns its URL.
pub(crate) fn serve(calls: Vec<(String, String)>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
    let calls = Arc::new(Mutex::new(calls.into_iter()));
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            let calls = calls.clone();
            // The connection stays open for many requests.
            std::thread::spawn(move || while answer(&connection, &calls).is_some() {});
        }
    });
    url
}

type Calls = Mutex<std::vec::IntoIter<(String, String)>>;

/// Answers one request. Returns none if the connection has ended.
fn answer(mut connection: &TcpStream, calls: &Calls) -> Option<()> {
    let request = body(BufReader::new(connection))?;
    let (name, arguments) = calls.lock().ok()?.next()?;
    let offered = request["tools"].as_array()?.iter().any(|tool| tool["function"]["name"] == name.as_str());
    // A call that is not offered, or an invalid conversation, ends the run with an error.
    let (status, reply) = if offered && request["messages"][0]["role"] == "system" {
        let call = json!({ "id": "c", "type": "function", "function": { "name": name, "arguments": arguments } });
        let message = json!({ "role": "assistant", "content": null, "tool_calls": [call] });
        let choice = json!({ "index": 0, "message": message, "finish_reason": "tool_calls" });
        let usage = json!({ "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2 });
        (
            "200 OK",
            json!({ "id": "1", "object": "chat.completion", "created": 0, "model": "script",
                           "choices": [choice], "usage": usage }),
        )
    } else {
        ("400 Bad Request", json!({ "error": { "message": format!("`{name}` is not offered") } }))
    };
    let reply = reply.to_string();
    let head =
        format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", reply.len());
    connection.write_all((head + &reply).as_bytes()).ok()
}

/// The body of the next request.
fn body(mut reader: BufReader<&TcpStream>) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim().to_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}
