//! The language server protocol over standard input and output.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// The error of rust-analyzer for a request that a change has invalidated.
const OVERTAKEN: i64 = -32801;

/// A server that runs.
pub(crate) struct Wire {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last: u64,
}

impl Wire {
    /// Starts it in a folder.
    pub(crate) fn start(program: &str, folder: &Path) -> Self {
        let mut child = Command::new(program)
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("`{program}` cannot be started: {error}"));
        let (input, output) = (child.stdin.take().expect("its input"), child.stdout.take().expect("its output"));
        Self { child, input, output: BufReader::new(output), last: 0 }
    }

    pub(crate) fn notify(&mut self, method: &str, parameters: &Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": parameters}));
    }

    /// The answer to a question.
    pub(crate) fn request(&mut self, method: &str, parameters: &Value) -> Value {
        loop {
            self.last += 1;
            let id = self.last;
            self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": parameters}));
            let answer = loop {
                let message = self.receive();
                if message["id"] == id && message.get("method").is_none() {
                    break message;
                }
            };
            match answer.get("error") {
                None => return answer["result"].clone(),
                Some(error) if error["code"] == OVERTAKEN => {}
                Some(error) => panic!("{method}: {error}"),
            }
        }
    }

    /// Waits until nothing is left to load.
    pub(crate) fn until_ready(&mut self) {
        loop {
            let message = self.receive();
            let status = &message["params"];
            if message["method"] == "experimental/serverStatus" && status["quiescent"] == true {
                assert_ne!(status["health"], "error", "rust-analyzer: {}", status["message"]);
                return;
            }
        }
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        write!(self.input, "Content-Length: {}\r\n\r\n{text}", text.len()).expect("rust-analyzer reads");
        self.input.flush().expect("rust-analyzer reads");
    }

    /// The next message. Questions of the server are answered on the way: it has nothing to do with the answers.
    fn receive(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            let read = self.output.read_line(&mut line).expect("rust-analyzer writes");
            assert!(read > 0, "rust-analyzer has ended");
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", digits)) => length = digits.parse().expect("a length"),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        self.output.read_exact(&mut body).expect("a whole message");
        let message: Value = serde_json::from_slice(&body).expect("JSON");
        if message.get("method").is_some()
            && let Some(id) = message.get("id")
        {
            self.send(&json!({"jsonrpc": "2.0", "id": id, "result": null}));
        }
        message
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
