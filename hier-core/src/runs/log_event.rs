//! What an event of the log says.
//!
//! [`LogEvent`] is made once, from the engine's event, and is what the log stores and every reader matches on. Its stored form has a tag.
//! A build that does not know the tag of an event refuses the event with an error, so no event is lost silently.

use std::io;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::error::Failure;
use super::run::RunStatus;
use crate::checkpoint::Source;
use crate::message::ChatChunk;

/// What an event of a thread's log says.
///
/// The protocols of a server match on every variant: who adds one decides for each protocol how it is shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", content = "data", rename_all = "snake_case")]
pub enum LogEvent {
    /// A worker has claimed the run. Of several attempts, the events after the last start count.
    Start {
        /// The number of the attempt, from 1 on.
        attempt: u32,
        /// The graph.
        graph: String,
    },
    /// The run has ended. Each run has exactly one such event, its last.
    End {
        /// The final status.
        status: RunStatus,
        /// The reason of a failure.
        error: Option<Failure>,
        /// True if the run was deleted, with its checkpoints.
        rollback: bool,
    },
    /// The state after a superstep that wrote something.
    Values(Value),
    /// A node has ended and has written something.
    Updates(LoggedUpdate),
    /// Nodes have asked something.
    Interrupted(Vec<LoggedQuestion>),
    /// A node has emitted a value.
    Custom {
        /// The node.
        node: String,
        /// The value, as the node emitted it.
        value: Value,
    },
    /// A task begins or has ended.
    Task(LoggedTask),
    /// A task begins or has ended, with the time.
    Debug {
        /// Milliseconds since 1970.
        timestamp: u64,
        /// The task.
        task: LoggedTask,
    },
    /// A checkpoint has been made, or the run goes on from it.
    Checkpoint(LoggedCheckpoint),
    /// A model has sent a piece of a message.
    Message(Box<LoggedMessage>),
    /// Events are missing here.
    Lagged {
        /// The number of missing events.
        missed: u64,
    },
    /// A client has changed the state of the thread.
    StateUpdate {
        /// The new state, as clients read it.
        state: Value,
        /// The thread.
        thread_id: String,
    },
}

/// The writes of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedUpdate {
    /// The node; `__error_handler__` and the node's name if its handler took over.
    pub node: String,
    /// The writes by channel; null if there are none.
    pub writes: Value,
    /// True if the node's `cache` had the result.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cached: bool,
}

/// A question of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedQuestion {
    /// The id of the question.
    pub id: String,
    /// The node that asks, after the nodes of the graphs around it.
    pub path: Vec<String>,
    /// The question.
    pub value: Value,
}

/// A task that begins or has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedTask {
    /// The id of the task.
    pub id: Uuid,
    /// The node.
    pub node: String,
    /// The superstep.
    pub step: i64,
    /// The part of the task's life that the event reports.
    pub phase: TaskPhase,
}

/// The begin or the end of a task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskPhase {
    /// The task begins.
    Started {
        /// The channels that triggered it.
        triggers: Vec<String>,
        /// The payload of its Send, or the state that it reads.
        input: Value,
    },
    /// The task has ended.
    Finished {
        /// Its writes; `{}` if there are none.
        result: Value,
        /// Its error, if it failed.
        error: Option<String>,
        /// Its questions.
        interrupts: Vec<LoggedQuestion>,
    },
}

/// A checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedCheckpoint {
    /// The id of the checkpoint.
    pub id: Uuid,
    /// The checkpoint that it follows.
    pub parent: Option<Uuid>,
    /// The superstep.
    pub step: i64,
    /// The kind of event that made it.
    pub source: Source,
    /// The state.
    pub values: Value,
    /// The nodes that run next, one entry per task.
    pub next: Vec<String>,
}

/// A piece of a model's message.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoggedMessage {
    /// The id of the message, shared by all of its pieces.
    pub id: String,
    /// The node that called the model.
    pub node: String,
    /// The id of its task.
    pub task: Uuid,
    /// The superstep.
    pub step: i64,
    /// The nodes from the root graph down to the agent.
    pub path: Vec<String>,
    /// The name of the agent.
    pub agent: String,
    /// The piece; the last one is the whole answer.
    pub chunk: ChatChunk,
}

impl LogEvent {
    /// The name of the stream mode that the event belongs to, or that of the event if it belongs to none.
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

    /// The payload as JSON, in the form that LangGraph gives it.
    pub fn data(&self) -> Value {
        match self {
            Self::Start { attempt, graph } => json!({ "attempt": attempt, "graph": graph }),
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

    /// The size of the stored event in bytes, before compression and encryption.
    pub fn bytes(&self) -> u64 {
        let mut counter = Counter(0);
        // If the rest cannot be serialized, the part before it counts.
        let _ = serde_json::to_writer(&mut counter, self);
        counter.0
    }
}

impl LoggedUpdate {
    /// Returns true if the update is that of an error handler.
    pub fn is_by_handler(&self) -> bool {
        self.node.starts_with("__")
    }

    /// The update as JSON: the writes under the name of the node.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert(self.node.clone(), self.writes.clone());
        if self.cached {
            object.insert("__metadata__".to_owned(), json!({ "cached": true }));
        }
        Value::Object(object)
    }
}

impl LoggedTask {
    /// The task as JSON.
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
    /// The name in events of the mode `debug`: `task` or `task_result`.
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
    fn to_json(&self) -> Value {
        let (kind, value) = match &self.chunk {
            ChatChunk::Text(text) => ("text", json!(text)),
            ChatChunk::Reasoning(text) => ("reasoning", json!(text)),
            ChatChunk::CallStarted { id, name } => ("call", json!({ "id": id, "name": name })),
            ChatChunk::CallArguments { id, text } => ("arguments", json!({ "id": id, "text": text })),
            ChatChunk::Done(response) => ("message", json!(response.message)),
        };
        json!({
            "path": self.path, "agent": self.agent, "id": self.id, "node": self.node, "task": self.task, "step": self.step, kind: value,
        })
    }
}

/// Counts the bytes that are written to it.
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
    use crate::message::{ChatResponse, Message};

    fn message(chunk: ChatChunk) -> LogEvent {
        let (path, agent) = (vec!["desk".to_owned()], "clerk".to_owned());
        let (id, node, task) = ("m".to_owned(), "model".to_owned(), Uuid::from_u128(1));
        LogEvent::Message(Box::new(LoggedMessage { id, node, task, step: 2, path, agent, chunk }))
    }

    fn task(phase: TaskPhase) -> LoggedTask {
        LoggedTask { id: Uuid::from_u128(1), node: "ask".to_owned(), step: -1, phase }
    }

    fn events() -> Vec<LogEvent> {
        let question =
            LoggedQuestion { id: "q".to_owned(), path: vec!["ask".to_owned()], value: json!({ "ok": null }) };
        let finished = TaskPhase::Finished { result: json!({}), error: None, interrupts: vec![question.clone()] };
        let started = TaskPhase::Started { triggers: vec!["n".to_owned()], input: json!({ "n": 1.5 }) };
        let error = Some(Failure::new("NodeError", "it broke"));
        vec![
            LogEvent::Start { attempt: 1, graph: "g".to_owned() },
            LogEvent::End { status: RunStatus::Error, error, rollback: false },
            LogEvent::Values(json!({ "n": 1 })),
            LogEvent::Updates(LoggedUpdate { node: "ask".to_owned(), writes: Value::Null, cached: true }),
            LogEvent::Interrupted(vec![question]),
            LogEvent::Custom { node: "ask".to_owned(), value: Value::Null },
            LogEvent::Task(task(started)),
            LogEvent::Debug { timestamp: 7, task: task(finished) },
            LogEvent::Checkpoint(LoggedCheckpoint {
                id: Uuid::from_u128(2),
                parent: None,
                step: -1,
                source: Source::Input,
                values: json!({}),
                next: vec!["ask".to_owned()],
            }),
            message(ChatChunk::CallArguments { id: "c".to_owned(), text: "{".to_owned() }),
            message(ChatChunk::Done(ChatResponse::new(Message::assistant("hi").with_extra("k", 1)))),
            LogEvent::Lagged { missed: 3 },
            LogEvent::StateUpdate { state: json!({}), thread_id: "t".to_owned() },
        ]
    }

    #[test]
    fn every_event_is_read_as_it_was_stored() {
        for event in events() {
            let stored = serde_json::to_vec(&event).unwrap();
            assert_eq!(event.bytes(), stored.len() as u64);
            assert_eq!(serde_json::from_slice::<LogEvent>(&stored).unwrap(), event);
        }
    }

    #[test]
    fn an_event_of_an_unknown_kind_is_an_error_that_names_it() {
        let error = serde_json::from_value::<LogEvent>(json!({ "type": "usage", "data": {} })).unwrap_err();
        assert!(error.to_string().starts_with("unknown variant `usage`"), "{error}");
    }
}
