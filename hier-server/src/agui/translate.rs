//! Translates the log of a run into the events of AG-UI.

use std::collections::HashMap;

use hier_core::client_call;
use hier_core::runs::{EventRow, LogEvent, LoggedMessage, LoggedUpdate, Run, RunStatus, TaskEvent, TaskPhase};
use serde::de::IgnoredAny;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::client_tools::SentResults;
use super::diff::diff;
use super::{client_tools, messages};
use crate::stream::assembler::{
    Block, MessageAssembler, MessageChange, MessageDelta, PartialMessage, calls, field, written,
};
use crate::time::millis;
use crate::wire::message;
use crate::wire::message_paths::MessagePaths;
use crate::wire::row::{ROOT, questions};

const VERSION: &str = "1.0";

/// Translates the events of one run. Ignores the events of subgraphs.
#[derive(Debug, Default)]
pub(super) struct AguiTranslator {
    thread: String,
    run: String,
    parent: Option<String>,
    message_paths: MessagePaths,
    messages: MessageAssembler,
    /// Ids of the reasoning that has begun but not ended.
    thoughts: Vec<String>,
    /// Open steps, by the ids of their tasks.
    steps: HashMap<Uuid, String>,
    state: Option<Value>,
    sent_results: SentResults,
    has_begun: bool,
    events: Vec<Value>,
}

impl AguiTranslator {
    pub(super) fn new(thread: &str, run: &str, parent: Option<String>, message_paths: MessagePaths) -> Self {
        Self { thread: thread.to_owned(), run: run.to_owned(), parent, message_paths, ..Self::default() }
    }

    /// Sets the results that are not sent again.
    pub(super) fn sent_results(self, sent_results: SentResults) -> Self {
        Self { sent_results, ..self }
    }

    /// Translates an event of the log. For the last event of the run, `ended` is the row of the run.
    pub(super) fn event(&mut self, row: &EventRow, ended: Option<&Run>) -> Vec<Value> {
        if row.event.namespace.is_empty() {
            match &row.event.body {
                LogEvent::Start { .. } => self.begin(),
                LogEvent::End { status, .. } => self.end(ended, *status),
                LogEvent::Message(piece) => self.message(piece),
                LogEvent::Updates(update) => {
                    let mut update = update.clone();
                    self.message_paths.state(ROOT, &mut update.writes);
                    self.update(&update);
                }
                LogEvent::Values(state) => self.values(state.clone()),
                LogEvent::Task(task) => self.task(task),
                LogEvent::Custom { value, .. } => {
                    let name = value.get("name").and_then(Value::as_str).unwrap_or("custom");
                    self.push("CUSTOM", json!({ "name": name, "value": value }));
                }
                LogEvent::Lagged { missed } => self.lagged(*missed),
                LogEvent::Interrupted(_)
                | LogEvent::Debug { .. }
                | LogEvent::Checkpoint(_)
                | LogEvent::StateUpdate { .. } => {}
            }
        }
        let at = millis(row.at);
        let mut events = std::mem::take(&mut self.events);
        for event in &mut events {
            event["timestamp"] = at.into();
        }
        events
    }

    /// Creates the events of a run that cannot start, or whose events cannot be read.
    pub(super) fn failed(&mut self, code: &str, text: &str) -> Vec<Value> {
        if !self.has_begun {
            self.begin();
        }
        self.close();
        self.push("RUN_ERROR", json!({ "message": text, "code": code }));
        std::mem::take(&mut self.events)
    }

    fn push(&mut self, kind: &str, mut event: Value) {
        event["type"] = kind.into();
        self.events.push(event);
    }

    /// Starts the run. A later attempt to execute the run only ends everything that the earlier attempt has left open.
    fn begin(&mut self) {
        if self.has_begun {
            return self.close();
        }
        self.has_begun = true;
        let mut event = json!({ "threadId": self.thread, "runId": self.run, "protocolVersion": VERSION });
        if let Some(parent) = &self.parent {
            event["parentRunId"] = parent.as_str().into();
        }
        self.push("RUN_STARTED", event);
    }

    /// Reports missing events, and ends the steps, whose ends may be among them. Open messages and calls end once they
    /// are known as a whole, or with the run. Ending them here would send their calls twice. The start of the run may be
    /// missing, too, and clients accept no other event before it.
    fn lagged(&mut self, missed: u64) {
        if self.has_begun {
            self.messages.note_gap();
            self.end_steps();
        } else {
            self.begin();
        }
        self.push("CUSTOM", json!({ "name": "lagged", "value": { "missed": missed } }));
    }

    fn message(&mut self, piece: &LoggedMessage) {
        let mut messages = std::mem::take(&mut self.messages);
        if let Some(delta) = messages.add(piece) {
            self.delta(&piece.id, delta);
        }
        self.messages = messages;
    }

    fn delta(&mut self, id: &str, delta: MessageDelta<'_>) {
        let growth = match delta.change {
            MessageChange::Grown(growth) => growth,
            MessageChange::Done(message) => return self.whole(&delta.sent, &message),
        };
        let text = growth.text;
        match &delta.sent.blocks[growth.block] {
            Block::Text(sent) => self.text(id, text, sent.len() == text.len()),
            Block::Reasoning(_) => self.reasoning(id, text),
            Block::Call { id: call, name, .. } if growth.is_new => self.call(id, call, name),
            Block::Call { id: call, .. } => self.arguments(call, text),
        }
    }

    fn text(&mut self, id: &str, text: &str, begins: bool) {
        if text.is_empty() {
            return;
        }
        self.end_reasoning(id);
        if begins {
            self.push("TEXT_MESSAGE_START", json!({ "messageId": id, "role": "assistant" }));
        }
        self.push("TEXT_MESSAGE_CONTENT", json!({ "messageId": id, "delta": text }));
    }

    fn reasoning(&mut self, id: &str, text: &str) {
        if text.is_empty() {
            return;
        }
        let id = format!("{id}-reasoning");
        if !self.thoughts.contains(&id) {
            self.thoughts.push(id.clone());
            self.push("REASONING_START", json!({ "messageId": id }));
            self.push("REASONING_MESSAGE_START", json!({ "messageId": id, "role": "reasoning" }));
        }
        self.push("REASONING_MESSAGE_CONTENT", json!({ "messageId": id, "delta": text }));
    }

    /// Ends the reasoning of a message, because another part of the message follows.
    fn end_reasoning(&mut self, id: &str) {
        let id = format!("{id}-reasoning");
        if let Some(place) = self.thoughts.iter().position(|open| *open == id) {
            self.thoughts.remove(place);
            self.push("REASONING_MESSAGE_END", json!({ "messageId": id }));
            self.push("REASONING_END", json!({ "messageId": id }));
        }
    }

    fn call(&mut self, message: &str, call: &str, name: &str) {
        self.end_reasoning(message);
        let event = json!({ "toolCallId": call, "toolCallName": name, "parentMessageId": message });
        self.push("TOOL_CALL_START", event);
    }

    fn arguments(&mut self, call: &str, text: &str) {
        if !text.is_empty() {
            self.push("TOOL_CALL_ARGS", json!({ "toolCallId": call, "delta": text }));
        }
    }

    /// Ends a call, whose complete arguments are `args`. `sent` are the arguments that were sent so far. The
    /// others may be missing because of a gap.
    fn end_call(&mut self, call: &str, sent: &str, args: &str) {
        self.arguments(call, rest_of(args, sent).unwrap_or_default());
        self.push("TOOL_CALL_END", json!({ "toolCallId": call }));
    }

    /// Sends the parts of a message that its pieces did not contain, and ends the message.
    fn whole(&mut self, sent: &PartialMessage, message: &Value) {
        let id = &*sent.id;
        let (text, begins) = (message::text(message), sent.text().is_empty());
        let has_text = !begins || !text.is_empty();
        self.text(id, text.strip_prefix(sent.text()).unwrap_or_default(), begins);
        self.end_reasoning(id);
        for call in calls(message) {
            let of = field(call, "id");
            let args_sent = sent.calls().find(|(id, _)| *id == of).map(|(_, args)| args);
            if args_sent.is_none() {
                self.call(id, of, field(call, "name"));
            }
            let args = call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
            let args_sent = args_sent.unwrap_or_default();
            self.end_call(of, args_sent, &args);
            let is_cut = || serde_json::from_str::<IgnoredAny>(args_sent).is_err();
            if rest_of(&args, args_sent).is_none() && is_cut() {
                // The model sent the arguments in another order, so the client cannot read the call that a gap has cut.
                self.call(id, of, field(call, "name"));
                self.end_call(of, "", &args);
            }
        }
        // Calls that were interrupted are not part of the message.
        for (call, args) in sent.calls().filter(|(id, _)| calls(message).iter().all(|call| field(call, "id") != *id)) {
            self.end_call(call, args, "{}");
        }
        if has_text {
            self.push("TEXT_MESSAGE_END", json!({ "messageId": id }));
        }
    }

    /// Sends the results of tools, and messages that were not sent in pieces.
    fn update(&mut self, update: &LoggedUpdate) {
        if update.is_by_handler() {
            return;
        }
        for (id, written) in written(&update.writes) {
            let whole = Value::Object(written.clone());
            match written.get("type").and_then(Value::as_str) {
                Some("ai") if self.messages.note(id) => self.whole(&PartialMessage::new(id), &whole),
                Some("ai") => {
                    if let Some(sent) = self.messages.take_with_gap(id) {
                        self.whole(&sent, &whole);
                    }
                }
                Some("tool") if self.has_sent(&whole) => {}
                Some("tool") => {
                    let event = json!({
                        "messageId": id, "toolCallId": written.get("tool_call_id"), "role": "tool",
                        "content": message::text(&whole),
                    });
                    self.push("TOOL_CALL_RESULT", event);
                }
                _ => {}
            }
        }
    }

    fn has_sent(&self, result: &Value) -> bool {
        let call = result.get("tool_call_id").and_then(Value::as_str);
        call.is_some_and(|call| self.sent_results.has(call))
    }

    /// Sends the state without its messages: the first time as a snapshot, later as differences.
    fn values(&mut self, mut data: Value) {
        if let Some(fields) = data.as_object_mut() {
            fields.remove("messages");
        }
        match &self.state {
            None => self.push("STATE_SNAPSHOT", json!({ "snapshot": data })),
            Some(old) => {
                let delta = diff(old, &data);
                if !delta.is_empty() {
                    self.push("STATE_DELTA", json!({ "delta": delta }));
                }
            }
        }
        self.state = Some(data);
    }

    /// Sends the start or end of a node's task, which is a step in AG-UI. If a node runs twice at once, the name of the
    /// second step contains the task's id.
    fn task(&mut self, task: &TaskEvent) {
        match &task.phase {
            TaskPhase::Started { .. } => {
                let is_open = self.steps.values().any(|open| *open == task.node);
                let step = if is_open { format!("{} {}", task.node, task.id) } else { task.node.clone() };
                self.steps.insert(task.id, step.clone());
                self.push("STEP_STARTED", json!({ "stepName": step }));
            }
            TaskPhase::Finished { .. } => {
                if let Some(step) = self.steps.remove(&task.id) {
                    self.push("STEP_FINISHED", json!({ "stepName": step }));
                }
            }
        }
    }

    /// Ends all open messages, calls and steps.
    fn close(&mut self) {
        for id in std::mem::take(&mut self.thoughts) {
            self.push("REASONING_MESSAGE_END", json!({ "messageId": id }));
            self.push("REASONING_END", json!({ "messageId": id }));
        }
        let open = self.messages.abandon();
        for (call, args) in open.iter().flat_map(PartialMessage::calls) {
            self.end_call(call, args, "{}");
        }
        for message in open.iter().filter(|message| !message.text().is_empty()) {
            self.push("TEXT_MESSAGE_END", json!({ "messageId": message.id }));
        }
        self.end_steps();
    }

    fn end_steps(&mut self) {
        let mut steps: Vec<String> = std::mem::take(&mut self.steps).into_values().collect();
        steps.sort_unstable();
        for step in steps {
            self.push("STEP_FINISHED", json!({ "stepName": step }));
        }
    }

    fn end(&mut self, ended: Option<&Run>, status: RunStatus) {
        if !self.has_begun {
            self.begin();
        }
        self.close();
        let failure = ended.and_then(|run| run.error.clone());
        if let Some(failure) = failure {
            return self.push("RUN_ERROR", json!({ "message": failure.message, "code": failure.error }));
        }
        let (calls, asked): (Vec<_>, Vec<_>) =
            ended.into_iter().flat_map(questions).partition(|question| call_of(question).is_some());
        let mut shown = Value::Null;
        let values = ended.and_then(|run| run.output.as_ref()?.get("values").cloned());
        if let Some(values) = values {
            shown = values.clone();
            self.message_paths.state(ROOT, &mut shown);
            if let Some(mut messages) = messages::outward(&shown, &self.run) {
                self.sent_results.rename(&mut messages);
                self.push("MESSAGES_SNAPSHOT", json!({ "messages": messages }));
            }
            self.values(values);
        }
        // The conversation does not contain the calls of subagents.
        for call in calls.into_iter().filter_map(call_of).filter(|call| !client_tools::has_call(&shown, call)) {
            for (kind, event) in client_tools::call_events(call) {
                self.push(kind, event);
            }
        }
        let asked: Vec<Value> = asked.into_iter().map(interrupt).collect();
        let is_cancelled = ended.map_or(status, |run| run.status) == RunStatus::Interrupted;
        let outcome = match (is_cancelled, asked.is_empty()) {
            (true, _) => json!({ "type": "cancelled" }),
            (false, false) => json!({ "type": "interrupt", "interrupts": asked }),
            (false, true) => json!({ "type": "success" }),
        };
        self.push("RUN_FINISHED", json!({ "threadId": self.thread, "runId": self.run, "outcome": outcome }));
    }
}

/// Returns the call if a question waits for a client tool. The client answers such a question with a tool message.
fn call_of(question: &Value) -> Option<&Map<String, Value>> {
    client_call::of_question(question.get("value")?)
}

/// Creates an interrupt from a question. Its metadata contains the whole value.
fn interrupt(question: &Value) -> Value {
    let value = question.get("value").cloned().unwrap_or_default();
    let text = ["message", "question", "text"].iter().find_map(|name| value.get(*name)?.as_str());
    let mut interrupt = Map::new();
    interrupt.insert("id".to_owned(), question.get("id").cloned().unwrap_or_default());
    interrupt.insert("reason".to_owned(), "question".into());
    interrupt
        .insert("message".to_owned(), value.as_str().or(text).map_or_else(|| value.to_string(), str::to_owned).into());
    if let Some(schema) = question.get("response_schema").filter(|schema| schema.is_object()) {
        interrupt.insert("responseSchema".to_owned(), schema.clone());
    }
    interrupt.insert("metadata".to_owned(), json!({ "value": value }));
    Value::Object(interrupt)
}

/// Returns the rest of `args` after `sent`. Returns `None` if `args`, which contains no white space between its tokens,
/// does not begin with the tokens of `sent`.
fn rest_of<'a>(args: &'a str, sent: &str) -> Option<&'a str> {
    let (mut rest, mut in_text, mut is_escaped) = (args, false, false);
    for sign in sent.chars() {
        if !in_text && sign.is_ascii_whitespace() {
            continue;
        }
        rest = rest.strip_prefix(sign)?;
        in_text ^= sign == '"' && !is_escaped;
        is_escaped = sign == '\\' && !is_escaped;
    }
    Some(rest)
}
