//! The scripted model of all agents. Its answers depend only on the conversation, so that another process can resume a case
//! at any point.

use std::fs::File;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hier::agent::{Body, ChatModel, ChatRequest, ChatResponse, Content, ModelError};
use hier::async_trait;
use hier::message::ToolCall;
use hier::prelude::*;
use serde_json::{Value, json};

/// The stages on the root's to-do list.
const STAGES: [&str; 5] = ["evidence", "extraction", "matching", "reconciliation", "reporting"];

/// Returns the answer of the scripted model.
pub(crate) fn reply(request: &ChatRequest) -> Message {
    let offers = |name: &str| request.tools.iter().any(|tool| tool.name == name);
    let last = Last::of(request);
    if offers("evidence") {
        root(&last)
    } else if offers("position_matcher") {
        matching(&last, request)
    } else if offers("document_fetcher") {
        pipeline(&last, &["document_fetcher", "document_validator"])
    } else if offers("ocr_engine") {
        pipeline(&last, &["ocr_engine"])
    } else if offers("tax_calculator") {
        pipeline(&last, &["tax_calculator"])
    } else {
        leaf(request)
    }
}

/// The last call and its result.
struct Last<'a> {
    /// Empty if no call was made.
    name: &'a str,
    args: &'a Value,
    answer: String,
    /// The length of the conversation, which makes the ids of calls unique.
    length: usize,
}

impl<'a> Last<'a> {
    fn of(request: &'a ChatRequest) -> Self {
        let messages = &request.messages;
        let call = messages.iter().rev().find_map(|message| message.tool_calls().first());
        let answer = messages.iter().rev().find(|message| matches!(message.body, Body::Tool { .. }));
        let answer = answer.and_then(Message::content).map(Content::text).unwrap_or_default();
        let (name, args) = call.map_or(("", &Value::Null), |call| (&*call.name, &call.args));
        Self { name, args, answer, length: messages.len() }
    }

    fn call(&self, name: &str, args: Value) -> Message {
        let id = format!("{name}-{}", self.length);
        Message::calls("", [ToolCall { name: name.to_owned(), args, id }])
    }

    fn go(&self, agent: &str) -> Message {
        self.call(agent, json!({ "task": format!("run {agent}") }))
    }

    fn complete(&self, item: &str) -> Message {
        self.call("todo_complete", json!({ "item": item }))
    }

    fn report(&self, report: &str) -> Message {
        self.call("report_to_supervisor", json!({ "report": report }))
    }

    fn item(&self) -> &str {
        self.args["item"].as_str().unwrap_or_default()
    }
}

fn root(last: &Last<'_>) -> Message {
    match last.name {
        "" => last.call("todo_write", json!({ "items": STAGES })),
        "todo_write" => last.go(STAGES[0]),
        "todo_complete" => match STAGES.iter().skip_while(|stage| **stage != last.item()).nth(1) {
            Some(next) => last.go(next),
            None => last.call("finish_task", json!({ "result": "filed" })),
        },
        stage => last.complete(stage),
    }
}

fn matching(last: &Last<'_>, request: &ChatRequest) -> Message {
    let instructions = request.messages.get(0).and_then(Message::content).map(Content::text).unwrap_or_default();
    let number = |text: &str| text.split_whitespace().find_map(|word| word.parse::<u64>().ok()).unwrap_or_default();
    let positions = number(&instructions);
    let item = |number: u64| format!("position {number}");
    let next = match last.name {
        "" => {
            let items: Vec<String> = (1..=positions).map(item).collect();
            return last.call("todo_write", json!({ "items": items }));
        }
        "todo_write" => 1,
        "todo_complete" => number(last.item()) + 1,
        _ => return last.complete(&item(last.args["position"].as_u64().unwrap_or_default())),
    };
    if next > positions {
        return last.report(&format!("{positions} positions matched"));
    }
    last.call("position_matcher", json!({ "position": next }))
}

/// Calls the agents one after the other, and reports the last result.
fn pipeline(last: &Last<'_>, agents: &[&str]) -> Message {
    let next =
        if last.name.is_empty() { agents.first() } else { agents.iter().skip_while(|a| **a != last.name).nth(1) };
    match next {
        Some(agent) => last.go(agent),
        None => last.report(&last.answer),
    }
}

/// Reports the first candidate of a position, or that the papers are valid.
fn leaf(request: &ChatRequest) -> Message {
    let last = Last::of(request);
    let instructions = request.messages.get(0).and_then(Message::content).map(Content::text).unwrap_or_default();
    if !instructions.starts_with("You match one position") {
        return last.report("the papers are valid");
    }
    let candidate = instructions.lines().find_map(|line| line.strip_prefix("- ")?.rsplit_once(" ("));
    last.report(candidate.map_or("open: no document fits", |(candidate, _)| candidate))
}

/// A model with a delay that logs its requests to a file.
pub(crate) struct LoggedModel {
    pub(crate) model: Arc<dyn ChatModel>,
    /// The delay before each answer.
    pub(crate) pace: Duration,
    pub(crate) log: Option<Mutex<File>>,
}

#[async_trait]
impl ChatModel for LoggedModel {
    fn name(&self) -> &str {
        self.model.name()
    }

    fn provider(&self) -> &str {
        self.model.provider()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        if !self.pace.is_zero() {
            tokio::time::sleep(self.pace).await;
        }
        let instructions = request.messages.get(0).and_then(Message::content).map(Content::text).unwrap_or_default();
        let answer = self.model.chat(request).await?;
        self.note(&instructions, &answer.message)
            .map_err(|error| ModelError::Recording { file: "--log".to_owned(), reason: error.to_string() })?;
        Ok(answer)
    }
}

impl LoggedModel {
    /// Writes one line for each answer: the first line that identifies the agent, and its calls.
    fn note(&self, instructions: &str, answer: &Message) -> std::io::Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let agent = instructions
            .lines()
            .find(|line| line.starts_with("Position "))
            .or(instructions.lines().next())
            .unwrap_or_default();
        let calls: Vec<String> = answer.tool_calls().iter().map(|call| format!("{}{}", call.name, call.args)).collect();
        let line = format!("{agent} -> {}\n", calls.join(", "));
        log.lock().unwrap_or_else(PoisonError::into_inner).write_all(line.as_bytes())
    }
}
