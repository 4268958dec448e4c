//! The content of a log event.
//!
//! The log stores [`LogEvent`]s, which are made from the events of the engine. The stored form of an event has a tag. A
//! build that does not know the tag returns an error, so no event is lost silently.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::error::Failure;
use super::status::RunStatus;
use hier_checkpoint::checkpoint::Source;
use hier_checkpoint::message::ChatChunk;

/// The content of an event in a thread's log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum LogEvent {
    /// A worker has claimed the run. Each attempt of the run begins with this event. An attempt continues from the last
    /// stored checkpoint. It can therefore repeat events that an earlier attempt has stored after this checkpoint.
    Start {
        /// The number of the attempt, from 1.
        attempt: u32,
        /// The name of the graph.
        graph: String,
        /// True if a worker has claimed the run before. The number of the attempt does not show this, because claims
        /// that ended with `requeue` do not count.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        reclaimed: bool,
    },
    /// The run has ended. This is the last event of each run.
    End {
        /// The final status.
        status: RunStatus,
        /// The failure. `None` if the run has not failed.
        error: Option<Failure>,
        /// True if the run was deleted with its checkpoints.
        rollback: bool,
    },
    /// The state: when a run continues, and after each input or superstep that has written a channel or run a subgraph.
    Values(Value),
    /// The writes of a node that has ended.
    Updates(LoggedUpdate),
    /// The open questions of a task, for which the run will stop. The list is empty if the run stops at a breakpoint.
    Interrupted(Vec<LoggedQuestion>),
    /// A value that a node emitted.
    Custom {
        /// The name of the node.
        node: String,
        /// The value.
        value: Value,
    },
    /// The start or the end of a task.
    Task(TaskEvent),
    /// The start or the end of a task, with the time.
    Debug {
        /// The time in milliseconds since 1970-01-01 UTC.
        timestamp: u64,
        /// The task.
        task: TaskEvent,
    },
    /// A new checkpoint, or the checkpoint from which the run continues.
    Checkpoint(LoggedCheckpoint),
    /// A part of a model's message.
    Message(Box<LoggedMessage>),
    /// A gap in the log. The events between the previous and the next event are missing.
    Lagged {
        /// The number of missing events.
        missed: u64,
    },
    /// A client has updated the state of the thread.
    StateUpdate {
        /// The new state, as clients read it.
        state: Value,
        /// The id of the thread.
        thread_id: String,
    },
}

/// The writes of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedUpdate {
    /// The name of the node. If the node's error handler made the writes, `__error_handler__` precedes the name.
    pub node: String,
    /// The writes by channel. Null if there are none.
    pub writes: Value,
    /// True if the node did not run: the writes come from the node's `cache`, or an earlier run has stored them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

/// A question of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedQuestion {
    /// The id of the question.
    pub id: String,
    /// The names of the nodes from the root graph to the node that asks.
    pub path: Vec<String>,
    /// The question.
    pub value: Value,
}

/// The start or the end of a task. If an error handler takes over from a node, the task ends twice: with the error of
/// the node, and with the result of the handler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskEvent {
    /// The id of the task.
    pub id: Uuid,
    /// The name of the node. At the end of an error handler, the name has the prefix `__error_handler__`.
    pub node: String,
    /// The number of the superstep.
    pub step: i64,
    /// The start or the end, with its data.
    pub phase: TaskPhase,
}

/// The start or the end of a task, with its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// The task has started.
    Started {
        /// The names of the channels that triggered the task.
        triggers: Vec<String>,
        /// The payload if a Send started the task, and otherwise the state.
        input: Value,
    },
    /// The task has ended.
    Finished {
        /// The writes by channel. `{}` if there are none.
        result: Value,
        /// The error, or `None` if the task has not failed.
        error: Option<String>,
        /// The questions that the task asked.
        interrupts: Vec<LoggedQuestion>,
    },
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedCheckpoint {
    /// The id of the checkpoint.
    pub id: Uuid,
    /// The id of the previous checkpoint, or `None` for the first one.
    pub parent: Option<Uuid>,
    /// The number of the superstep.
    pub step: i64,
    /// The kind of operation that made the checkpoint.
    pub source: Source,
    /// The state.
    pub values: Value,
    /// The nodes that run next, one entry per task.
    pub next: Vec<String>,
}

/// A part of a model's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedMessage {
    /// The id of the message. All its parts have this id.
    pub id: String,
    /// The name of the node that called the model.
    pub node: String,
    /// The id of the task that called the model.
    pub task: Uuid,
    /// The number of the superstep.
    pub step: i64,
    /// The names of the nodes from the root graph to the agent.
    pub path: Vec<String>,
    /// The name of the agent.
    pub agent: String,
    /// The part. The last part contains the whole reply of the model.
    pub chunk: ChatChunk,
}

impl LogEvent {
    /// Returns the name of the stream mode to which the event belongs. If the event belongs to no mode, returns the
    /// name of the event, such as `end`.
    pub const fn mode(&self) -> &'static str {
        match self {
            Self::Start { .. } => "start",
            Self::End { .. } => "end",
            Self::Values(_) => "values",
            Self::Updates(_) | Self::Interrupted(_) => "updates",
            Self::Custom { .. } => "custom",
            Self::Task(_) => "tasks",
            Self::Debug { .. } => "debug",
            Self::Checkpoint(_) => "checkpoints",
            Self::Message(_) => "messages",
            Self::Lagged { .. } => "lagged",
            Self::StateUpdate { .. } => "state_update",
        }
    }

    /// Returns the payload of the event as JSON, in the form of LangGraph's events.
    pub fn data(&self) -> Value {
        match self {
            Self::Start { attempt, graph, .. } => json!({ "attempt": attempt, "graph": graph }),
            Self::End { status, error, rollback } => json!({ "status": status, "error": error, "rollback": rollback }),
            Self::Values(state) => state.clone(),
            Self::Updates(update) => update.to_json(),
            Self::Interrupted(questions) => json!({ "__interrupt__": questions }),
            Self::Custom { value, .. } => value.clone(),
            Self::Task(task) => task.to_json(),
            Self::Debug { timestamp, task } => json!({
                "step": task.step, "timestamp": timestamp, "type": task.phase.name(), "payload": task.to_json(),
            }),
            Self::Checkpoint(checkpoint) => checkpoint.to_json(),
            Self::Message(message) => message.to_json(),
            Self::Lagged { missed } => json!({ "missed": missed }),
            Self::StateUpdate { state, thread_id } => json!({ "state": state, "thread_id": thread_id }),
        }
    }

    /// Returns the estimated stored size in bytes, before compression and encryption.
    pub fn bytes(&self) -> u64 {
        let size = match self {
            Self::Start { graph, .. } => graph.len(),
            Self::End { error, .. } => error.as_ref().map_or(0, |failure| failure.message.len()),
            Self::Values(state) => json_bytes(state),
            Self::Updates(update) => update.node.len() + json_bytes(&update.writes),
            Self::Interrupted(questions) => question_bytes(questions),
            Self::Custom { node, value } => node.len() + json_bytes(value),
            Self::Task(task) | Self::Debug { task, .. } => task.bytes(),
            Self::Checkpoint(checkpoint) => json_bytes(&checkpoint.values) + text_bytes(&checkpoint.next),
            Self::Message(message) => message.bytes(),
            Self::Lagged { .. } => 0,
            Self::StateUpdate { state, thread_id } => json_bytes(state) + thread_id.len(),
        };
        32 + size as u64
    }
}

impl LoggedUpdate {
    /// Returns true if an error handler made the writes.
    pub fn is_by_handler(&self) -> bool {
        self.node.starts_with("__")
    }

    /// Returns the update as a JSON object with the name of the node as the key and the writes as the value.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert(self.node.clone(), self.writes.clone());
        if self.cached {
            object.insert("__metadata__".to_owned(), json!({ "cached": true }));
        }
        Value::Object(object)
    }
}

impl TaskEvent {
    fn bytes(&self) -> usize {
        let phase = match &self.phase {
            TaskPhase::Started { triggers, input } => text_bytes(triggers) + json_bytes(input),
            TaskPhase::Finished { result, error, interrupts } => {
                json_bytes(result) + error.as_ref().map_or(0, String::len) + question_bytes(interrupts)
            }
        };
        96 + self.node.len() + phase
    }

    /// Returns the task as JSON.
    pub fn to_json(&self) -> Value {
        let Self { id, node, .. } = self;
        match &self.phase {
            TaskPhase::Started { triggers, input } => {
                json!({ "id": id, "name": node, "input": input, "triggers": triggers })
            }
            TaskPhase::Finished { result, error, interrupts } => {
                json!({ "id": id, "name": node, "error": error, "result": result, "interrupts": interrupts })
            }
        }
    }
}

impl TaskPhase {
    /// Returns the type of the task in events of the mode `debug`: `task` or `task_result`.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Started { .. } => "task",
            Self::Finished { .. } => "task_result",
        }
    }
}

impl LoggedCheckpoint {
    fn to_json(&self) -> Value {
        json!({
            "config": { "checkpoint_id": self.id },
            "parent_config": self.parent.map(|id| json!({ "checkpoint_id": id })),
            "metadata": { "source": self.source, "step": self.step },
            "values": self.values,
            "next": self.next,
        })
    }
}

impl LoggedMessage {
    fn bytes(&self) -> usize {
        let chunk = match &self.chunk {
            ChatChunk::Done(response) => usize::try_from(serialized_bytes(&response.message)).unwrap_or(usize::MAX),
            part => part.text_bytes(),
        };
        160 + text_bytes(&self.path) + self.node.len() + self.agent.len() + chunk
    }

    fn to_json(&self) -> Value {
        let (kind, value) = self.chunk.field();
        json!({
            "path": self.path, "agent": self.agent, "id": self.id, "node": self.node, "task": self.task, "step": self.step, kind: value,
        })
    }
}

fn json_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 8,
        Value::String(text) => text.len() + 2,
        Value::Array(items) => 2 + items.iter().map(json_bytes).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields.iter().map(|(name, value)| name.len() + 4 + json_bytes(value)).sum::<usize>()
        }
    }
}

fn text_bytes(texts: &[String]) -> usize {
    texts.iter().map(|text| text.len() + 3).sum()
}

fn question_bytes(questions: &[LoggedQuestion]) -> usize {
    questions.iter().map(|question| 64 + text_bytes(&question.path) + json_bytes(&question.value)).sum()
}

/// Returns the size of a value as JSON. If the value cannot be serialized as a whole, the bytes before the failure count.
pub(super) fn serialized_bytes(value: &impl Serialize) -> u64 {
    let mut counter = Counter(0);
    let _ = serde_json::to_writer(&mut counter, value);
    counter.0
}

struct Counter(u64);

impl io::Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_round_trips() {
        let id = Uuid::nil();
        let question = json!({ "id": "q", "path": ["ask"], "value": { "ok": null } });
        let started = json!({ "started": { "triggers": ["n"], "input": { "n": 1.5 } } });
        let finished = json!({ "finished": { "result": {}, "error": "it broke", "interrupts": [question] } });
        let task = |phase: &Value| json!({ "id": id, "node": "ask", "step": -1, "phase": phase });
        let checkpoint = json!({
            "id": id, "parent": null, "step": -1, "source": "input", "values": {}, "next": ["ask"],
        });
        let message = |chunk: Value| json!({ "id": "m", "node": "ask", "task": id, "step": 2, "path": ["a"], "agent": "clerk", "chunk": chunk });
        let answer = json!({ "message": { "role": "assistant", "content": "hi", "id": "m" }, "model": null });
        for (kind, data) in [
            ("start", json!({ "attempt": 1, "graph": "g" })),
            ("end", json!({ "status": "error", "error": { "error": "E", "message": "m" }, "rollback": false })),
            ("values", json!(null)),
            ("updates", json!({ "node": "ask", "writes": null, "cached": true })),
            ("interrupted", json!([question])),
            ("custom", json!({ "node": "ask", "value": null })),
            ("task", task(&started)),
            ("debug", json!({ "timestamp": 7, "task": task(&finished) })),
            ("checkpoint", checkpoint),
            ("message", message(json!({ "call_arguments": { "id": "c", "text": "{" } }))),
            ("message", message(json!({ "done": answer }))),
            ("lagged", json!({ "missed": 3 })),
            ("state_update", json!({ "state": {}, "thread_id": "t" })),
        ] {
            let stored = json!({ "type": kind, "data": data });
            let event: LogEvent = serde_json::from_value(stored.clone()).unwrap();
            assert_eq!(json!(event), stored);
            let length = stored.to_string().len() as u64;
            assert!(event.bytes().abs_diff(length) <= 96 + length / 4, "{}, not {length}: {stored}", event.bytes());
        }
    }

    #[test]
    fn unknown_event_kind_is_named_in_the_error() {
        let error = serde_json::from_value::<LogEvent>(json!({ "type": "usage", "data": {} })).unwrap_err();
        assert!(error.to_string().starts_with("unknown variant `usage`"), "{error}");
    }
}
