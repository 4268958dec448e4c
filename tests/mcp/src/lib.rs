//! A small MCP server for tests. It is written against the specification, without the crate that hier-mcp uses. It logs its
//! actions to a file and can misbehave on purpose.

pub mod agent;

use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde_json::{Value, json};

/// An MCP server with configurable behavior.
#[derive(Debug, Default)]
pub struct Peer {
    /// Makes the server speak the protocol version before 2026-07-28.
    pub old: bool,
    /// The file that gets one line for each action of the server.
    pub counts: Option<PathBuf>,
    /// The time in milliseconds for which a client may cache the list of tools.
    pub ttl: u64,
    /// Set once the list of tools has changed: it then also contains `fresh`.
    pub changed: AtomicBool,
    /// Tools that replace the built-in ones. Each answers with its arguments.
    pub tools: Option<Value>,
    /// Makes the list of tools empty and endless. With `true`, each page has a new cursor; with `false`, all pages have the same one.
    pub endless: Option<bool>,
    /// The number of pages that clients requested of an endless list with new cursors.
    pub pages: AtomicUsize,
}

/// The reaction of the server to a message.
#[derive(Debug)]
pub enum Act {
    /// Sends this answer.
    Answer(Value),
    /// Sends these messages, then the answer.
    After(Vec<Value>, Value),
    /// Sends this request to the client and answers with the client's response.
    Ask(Value),
    /// Sends nothing.
    Silent,
    /// Ends the process.
    Crash,
    /// Handles no further message.
    Hang,
}

impl Peer {
    /// Appends a line to the file `counts`, if there is one.
    ///
    /// # Panics
    ///
    /// Panics if the file cannot be written.
    pub fn count(&self, what: &str) {
        let Some(path) = &self.counts else { return };
        let file = OpenOptions::new().create(true).append(true).open(path);
        let mut file = file.expect("the file of the counts can be written");
        writeln!(file, "{what}").expect("the file of the counts can be written");
    }

    /// Handles a message and returns the reaction.
    pub fn act(&self, message: &Value) -> Act {
        let (id, params) = (&message["id"], &message["params"]);
        let result = |result: Value| Act::Answer(json!({"jsonrpc": "2.0", "id": id, "result": result}));
        let error = |code: i32, text: &str| {
            Act::Answer(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": text}}))
        };
        match message["method"].as_str() {
            Some("server/discover") if !self.old => result(json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "resources": {}, "prompts": {}},
                "ttlMs": 0, "cacheScope": "private",
            })),
            Some("initialize") if self.old => result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": true}},
                "serverInfo": {"name": "peer", "version": "1"},
            })),
            Some("tools/list") => {
                self.count("list");
                result(self.page(params["cursor"].as_str()))
            }
            Some("tools/call") => self.call(id, params),
            Some("resources/list") => result(json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "resources": [{"uri": "memo:1", "name": "memo", "mimeType": "text/plain"}],
            })),
            Some("resources/read") => result(json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "contents": [{"uri": params["uri"], "text": "remember the milk"}],
            })),
            Some("prompts/list") => result(json!({
                "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
                "prompts": [{"name": "greet", "arguments": [{"name": "who", "required": true}]}],
            })),
            Some("prompts/get") => result(json!({
                "resultType": "complete",
                "messages": [{"role": "user", "content": {"type": "text", "text": format!("Greet {}", params["arguments"]["who"])}}],
            })),
            Some("notifications/cancelled") => {
                self.count("cancelled");
                Act::Silent
            }
            Some(method) if !method.starts_with("notifications/") => error(-32601, "Method not found"),
            _ => Act::Silent,
        }
    }

    /// Returns a page of the list of tools.
    fn page(&self, cursor: Option<&str>) -> Value {
        let mut result = match (&self.tools, self.endless) {
            (Some(tools), _) => json!({"tools": tools}),
            (None, Some(anew)) => {
                let number = if anew { self.pages.fetch_add(1, Ordering::Relaxed) } else { 0 };
                json!({"tools": [], "nextCursor": format!("c{number}")})
            }
            (None, None) => self.own_page(cursor),
        };
        if !self.old {
            result["resultType"] = json!("complete");
            (result["ttlMs"], result["cacheScope"]) = (json!(self.ttl), json!("private"));
        }
        result
    }

    /// Returns a page of the built-in tools, three per page.
    fn own_page(&self, cursor: Option<&str>) -> Value {
        let tool = |name: &str| {
            let schema = json!({"type": "object", "properties": {"text": {"type": "string"}}});
            json!({"name": name, "description": format!("Does {name}."), "inputSchema": schema})
        };
        let mut names = vec![
            "echo",
            "book.trip",
            "fail",
            "crash",
            "slow",
            "env",
            "picture",
            "long",
            "live",
            "ask",
            "change",
            "refuse",
        ];
        if self.changed.load(Ordering::Relaxed) {
            names.push("fresh");
        }
        let start: usize = cursor.map_or(0, |cursor| cursor.parse().expect("a separate cursor"));
        let page: Vec<Value> = names.iter().skip(start).take(3).map(|name| tool(name)).collect();
        let mut result = json!({"tools": page});
        if start + 3 < names.len() {
            result["nextCursor"] = json!((start + 3).to_string());
        }
        result
    }

    fn call(&self, id: &Value, params: &Value) -> Act {
        let answer = |mut result: Value| {
            if !self.old && result.get("resultType").is_none() {
                result["resultType"] = json!("complete");
            }
            json!({"jsonrpc": "2.0", "id": id, "result": result})
        };
        let text = |text: &str| json!({"content": [{"type": "text", "text": text}]});
        let name = params["name"].as_str().unwrap_or_default();
        self.count(&format!("{name} {}", params["requestState"].as_str().unwrap_or("-")));
        match name {
            _ if self.tools.is_some() => Act::Answer(answer(text(&params["arguments"].to_string()))),
            "echo" | "fresh" => Act::Answer(answer(text(params["arguments"]["text"].as_str().unwrap_or_default()))),
            "book.trip" => Act::Answer(answer(self.book(params))),
            "fail" => {
                let mut result = text("the archive is closed");
                result["isError"] = json!(true);
                Act::Answer(answer(result))
            }
            "refuse" => {
                let given = &params["arguments"];
                let message = given["text"].as_str().unwrap_or("`text` is too short");
                let code = given["code"].as_i64().unwrap_or(-32602);
                Act::Answer(json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}}))
            }
            "crash" => Act::Crash,
            "slow" if params["arguments"]["text"] == "hang" => Act::Hang,
            "slow" => Act::Silent,
            "env" => {
                let mut names: Vec<String> = std::env::vars().map(|(name, _)| name).collect();
                names.sort();
                Act::Answer(answer(text(&names.join(","))))
            }
            "picture" => Act::Answer(answer(json!({
                "content": [{"type": "text", "text": "a dot"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
                "structuredContent": {"dots": 1},
            }))),
            "long" => Act::Answer(answer(text(&"x".repeat(300_000)))),
            "live" => Act::Ask(json!({
                "jsonrpc": "2.0", "id": "q1", "method": "elicitation/create",
                "params": {"message": "Really?", "requestedSchema": {"type": "object", "properties": {"sure": {"type": "boolean"}}}},
            })),
            // `text` is the method.
            "ask" => Act::Ask(json!({
                "jsonrpc": "2.0", "id": "q1", "method": params["arguments"]["text"],
                "params": {"messages": [{"role": "user", "content": {"type": "text", "text": "Rhyme on peer."}}], "maxTokens": 9},
            })),
            "change" => {
                self.changed.store(true, Ordering::Relaxed);
                let received = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
                Act::After(vec![received], answer(text("changed")))
            }
            other => Act::Answer(json!({
                "jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": format!("Unknown tool: {other}")},
            })),
        }
    }

    /// Handles a booking in three rounds: place and nights, confirmation, booking. `requestState` is the only state between rounds.
    fn book(&self, params: &Value) -> Value {
        let form = |message: &str, field: &str, kind: &str| {
            json!({"method": "elicitation/create", "params": {
                "mode": "form", "message": message,
                "requestedSchema": {"type": "object", "properties": {field: {"type": kind}}, "required": [field]},
            }})
        };
        let asks = |requests: Value, state: &str| json!({"resultType": "input_required", "inputRequests": requests, "requestState": state});
        let responses = &params["inputResponses"];
        match params["requestState"].as_str() {
            None => {
                let requests = json!({"1-where": form("Where to?", "place", "string"), "2-nights": form("How long?", "nights", "integer")});
                asks(requests, "begun")
            }
            Some("begun") => {
                let (place, nights) =
                    (&responses["1-where"]["content"]["place"], &responses["2-nights"]["content"]["nights"]);
                let state = format!("{} for {nights}", place.as_str().unwrap_or_default());
                asks(json!({"sure": form(&format!("{state}?"), "sure", "boolean")}), &state)
            }
            Some(state) if responses["sure"]["action"] == "accept" => {
                self.count("booked");
                json!({"content": [{"type": "text", "text": format!("booked: {state}")}]})
            }
            Some(_) => json!({"content": [{"type": "text", "text": "not booked"}], "isError": true}),
        }
    }
}
