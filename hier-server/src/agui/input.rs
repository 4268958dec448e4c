//! Turns the request of an AG-UI client into a run.

use hier_core::graph::DynInput;
use hier_core::runs::{OnDisconnect, ThreadStatus};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::client_tools::{PendingQuestion, SentResults, SortedMessages};
use crate::graphs::ServedGraph;
use crate::reserved;
use crate::wire::connector;
use crate::wire::run::{CommandBody, ConfigBody, RunCreate};

/// The body that starts a run. hier ignores the fields that it does not use.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RunAgentInput {
    pub(super) thread_id: String,
    pub(super) run_id: String,
    #[serde(default)]
    pub(super) parent_run_id: Option<String>,
    #[serde(default)]
    state: Value,
    #[serde(default)]
    messages: Vec<Value>,
    #[serde(default)]
    tools: Value,
    #[serde(default)]
    context: Value,
    #[serde(default)]
    forwarded_props: Value,
    #[serde(default)]
    resume: Option<Vec<Resume>>,
}

/// An answer to an interrupt.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Resume {
    interrupt_id: String,
    status: ResumeStatus,
    #[serde(default)]
    payload: Value,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum ResumeStatus {
    Resolved,
    /// The user declined to answer. The node that asked the question receives null.
    Cancelled,
}

/// Returns true if two values are equal in JavaScript, where 1 and 1.0 are the same number.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            let has = |(name, value): (&String, &Value)| other.get(name).is_some_and(|other| is_same(value, other));
            one.len() == other.len() && one.iter().all(has)
        }
        _ => one == other,
    }
}

/// Derives a UUID from the ids that a client uses, which may be any text. The UUID differs for each user.
fn uuid(kind: &str, user: &str, parts: &[&str]) -> Uuid {
    // As JSON, so that two different lists of parts never become the same text.
    let name = json!((["ag-ui", kind, user], parts)).to_string();
    reserved::derived(&name)
}

/// Returns true if the graph's input has the channel `messages`.
fn has_messages(served: &ServedGraph) -> bool {
    served.graph.check(&DynInput::New(json!({ "messages": [] }))).is_ok()
}

impl RunAgentInput {
    /// Returns the id of the thread. This is the client's id if that is a UUID, or else a derived id.
    pub(super) fn thread(&self, user: &str) -> Uuid {
        Uuid::try_parse(&self.thread_id).unwrap_or_else(|_| uuid("thread", user, &[&self.thread_id]))
    }

    /// Returns true if the client may create the thread. A client may not use a derived id as its own, because the id
    /// may belong to another user.
    pub(super) fn may_create(&self) -> bool {
        Uuid::try_parse(&self.thread_id).map_or(true, |id| !reserved::is_derived(id))
    }

    /// Returns the id of the run. A repeated request with the same ids gets the same run.
    pub(super) fn run(&self, user: &str) -> Uuid {
        uuid("run", user, &[&self.thread_id, &self.run_id])
    }

    pub(super) fn body(&self, graph: &str, served: &ServedGraph, values: &Value, sorted: &SortedMessages) -> RunCreate {
        let mut body = RunCreate::default();
        body.assistant_id.0 = Some(graph.to_owned());
        body.on_disconnect = Some(OnDisconnect::Cancel);
        let extra = json!({ "tools": self.tools, "context": self.context, "forwarded_props": self.forwarded_props });
        let configurable = Map::from_iter([("ag_ui".to_owned(), extra)]);
        body.config = Some(ConfigBody { configurable: Some(configurable), ..ConfigBody::default() });
        let resumed = self.resume.iter().flatten().map(|answer| {
            let payload = if answer.status == ResumeStatus::Cancelled { &Value::Null } else { &answer.payload };
            (answer.interrupt_id.clone(), payload.clone())
        });
        let answers: Map<String, Value> = sorted.answers.clone().into_iter().chain(resumed).collect();
        if answers.is_empty() {
            body.input = Some(self.input(served, values, sorted));
        } else {
            let mut update = self.changed(values);
            // Messages that come with results of tools are part of the conversation, too.
            if !sorted.answers.is_empty() && !sorted.new.is_empty() && has_messages(served) {
                update.insert("messages".to_owned(), sorted.new.clone().into());
            }
            let update = (!update.is_empty()).then_some(Value::Object(update));
            body.command = Some(CommandBody { resume: Some(Value::Object(answers)), update, ..CommandBody::default() });
        }
        body
    }

    /// Returns the input of the run: the messages that the thread does not have, and the channels that the client has
    /// changed.
    fn input(&self, served: &ServedGraph, known: &Value, sorted: &SortedMessages) -> Value {
        let mut input = self.changed(known);
        if has_messages(served) {
            input.insert("messages".to_owned(), sorted.new.clone().into());
        }
        Value::Object(input)
    }

    /// Returns writes for the channels that the client has changed. The request contains the whole state.
    fn changed(&self, known: &Value) -> Map<String, Value> {
        let sent = self.state.as_object().into_iter().flatten();
        let is_known = |name: &str, value: &Value| known.get(name).is_some_and(|known| is_same(known, value));
        let changed = sent.filter(|(name, value)| *name != "messages" && !is_known(name, value));
        changed.map(|(name, value)| (name.clone(), json!({ "$overwrite": value }))).collect()
    }

    /// Sorts the messages for a thread with these values, open questions and status. The error names the message.
    pub(super) fn sorted(
        &self,
        values: &Value,
        open: &[PendingQuestion],
        status: Option<ThreadStatus>,
    ) -> Result<SortedMessages, String> {
        SortedMessages::of(&self.messages, values, open, status)
    }

    /// Returns all tool messages of the request, new and old.
    pub(super) fn results(&self) -> SentResults {
        SentResults::of(&self.messages)
    }

    /// Refuses answers to interrupts whose ids cannot come from this server.
    pub(super) fn check_resume(&self) -> Result<(), String> {
        let ids = self.resume.iter().flatten().map(|answer| &*answer.interrupt_id);
        connector::check_ids(ids).map_err(|reason| format!("`resume`: {reason}"))
    }

    /// Returns true if the request answers interrupts.
    pub(super) fn is_resume(&self) -> bool {
        self.resume.as_ref().is_some_and(|answers| !answers.is_empty())
    }
}
