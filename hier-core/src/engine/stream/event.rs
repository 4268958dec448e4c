//! Events of a stream.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::ser::Error;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::checkpoint::Source;
use crate::message::ChatChunk;
use crate::question::Question;
use crate::state::{Update, Values};

/// The kinds of events that a stream delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StreamMode {
    /// The state after each superstep that wrote something.
    Values,
    /// The writes of each node, when it has ended.
    Updates,
    /// The values that nodes emit with `run.emit(…)`, at once.
    Custom,
    /// The start and the end of each task.
    Tasks,
    /// Like `Tasks`, each with the step and the time.
    Debug,
    /// The answers of models, piece by piece: those of subgraphs too.
    Messages,
    /// Each checkpoint, with what is to run next. Only with a checkpointer.
    Checkpoints,
}

impl StreamMode {
    /// The modes with their names.
    const NAMES: [(&str, Self); 7] = [
        ("values", Self::Values),
        ("updates", Self::Updates),
        ("custom", Self::Custom),
        ("tasks", Self::Tasks),
        ("debug", Self::Debug),
        ("messages", Self::Messages),
        ("checkpoints", Self::Checkpoints),
    ];

    /// The name of the mode, as LangGraph's clients write it.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }

    /// The mode with this name. Returns `None` for names that only a server knows.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }
}

/// A set of modes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modes(u8);

impl Modes {
    pub(crate) fn has(self, mode: StreamMode) -> bool {
        self.0 & (1 << mode as u8) != 0
    }
}

impl Modes {
    /// This mode, if it is among them.
    pub(crate) fn only(self, mode: StreamMode) -> Option<Self> {
        self.has(mode).then(|| Self(1 << mode as u8))
    }
}

impl FromIterator<StreamMode> for Modes {
    fn from_iter<I: IntoIterator<Item = StreamMode>>(modes: I) -> Self {
        Self(modes.into_iter().fold(0, |set, mode| set | 1 << mode as u8))
    }
}

/// One event of a stream, with the types of the graph that is streamed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<S: Values> {
    /// The state after a superstep that wrote something.
    Values(Arc<S>),
    /// A node has ended.
    Updates(NodeUpdate<S>),
    /// Nodes have asked something; the run ends.
    Interrupted(Vec<Question>),
    /// A node told something with `run.emit(…)`.
    Custom {
        /// The node.
        node: String,
        /// The emitted value.
        value: Value,
    },
    /// A task begins.
    TaskStarted(TaskStarted),
    /// A task has ended.
    TaskFinished(TaskFinished),
    /// A task begins or has ended, with step and time.
    Debug(DebugEvent),
    /// A checkpoint has been made, or the run goes on from it.
    Checkpoint(CheckpointEvent<S>),
    /// The model of an agent says something.
    Message(Box<MessageChunk>),
    /// An event of a subgraph, whose types are its own: as JSON.
    Nested(Nested),
    /// The consumer was slow, and this many events before the next were dropped.
    Lagged(usize),
}

/// A checkpoint has been made, or the run goes on from it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckpointEvent<S: Values> {
    /// The id of the checkpoint.
    pub id: Uuid,
    /// The checkpoint that it follows.
    pub parent: Option<Uuid>,
    /// The superstep.
    pub step: i64,
    /// The kind of event that made it.
    pub source: Source,
    /// The state.
    pub state: Arc<S>,
    /// The nodes that run next, one entry a task.
    pub next: Vec<String>,
}

/// A node has ended.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeUpdate<S: Values> {
    /// The node; `__error_handler__` and the node's name if its handler took over.
    pub node: String,
    /// Its writes.
    pub update: S::Update,
    /// Whether the result is an earlier one, kept by the node's `cache`.
    pub cached: bool,
}

/// A task begins.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskStarted {
    /// The id of the task.
    pub id: Uuid,
    /// The node.
    pub node: String,
    /// The superstep.
    pub step: i64,
    /// The channels that set it off, by the names that the reference gives them.
    pub triggers: Vec<String>,
    /// The payload of its Send, or else the state that it sees, as JSON.
    pub input: Value,
}

/// A task has ended.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskFinished {
    /// The id of the task.
    pub id: Uuid,
    /// The node.
    pub node: String,
    /// The superstep.
    pub step: i64,
    /// Its writes as JSON; `{}` if there are none.
    pub result: Value,
    /// Its error, if it failed.
    pub error: Option<String>,
    /// Its questions, if there are any.
    pub interrupts: Vec<Question>,
}

/// A task begins or has ended, with step and time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DebugEvent {
    /// Milliseconds since 1970.
    pub timestamp: u64,
    /// The superstep.
    pub step: i64,
    /// `task` or `task_result`.
    pub kind: &'static str,
    /// What [`TaskStarted`] or [`TaskFinished`] is as JSON.
    pub payload: Value,
}

impl DebugEvent {
    pub(crate) fn new(step: i64, kind: &'static str, payload: Value) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { timestamp: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), step, kind, payload }
    }
}

/// A piece of what the model of an agent says.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MessageChunk {
    /// The id of the message: that of all its pieces, and of the message in the state.
    pub id: String,
    /// The node that asked the model.
    pub node: String,
    /// The id of its task.
    pub task: Uuid,
    /// The superstep.
    pub step: i64,
    /// The path of the agent: the nodes from the root down to it. Empty for the root.
    pub path: Vec<String>,
    /// The same with the ids of the tasks, `node:task id`: another one for each call of an agent, also of those that run side
    /// by side.
    pub namespace: Vec<String>,
    /// The name of the agent.
    pub agent: String,
    /// The piece: of text, of reasoning, of a call, or, as the last, the whole answer.
    pub chunk: ChatChunk,
}

impl MessageChunk {
    fn to_json(&self) -> Result<Value, serde_json::Error> {
        let (kind, value) = self.chunk.field()?;
        Ok(json!({
            "path": self.path, "agent": self.agent, "id": self.id, "node": self.node, "task": self.task, "step": self.step, kind: value,
        }))
    }
}

/// An event of a subgraph.
#[derive(Clone, Debug, PartialEq)]
pub struct Nested {
    /// The path of the subgraph: `node:task id` for each level.
    pub namespace: Vec<String>,
    /// The mode, in lower case.
    pub mode: &'static str,
    /// The same event as JSON, as it would be of the root.
    pub data: Value,
}

impl TaskStarted {
    /// The event as JSON.
    pub fn to_json(&self) -> Value {
        json!({ "id": self.id, "name": self.node, "input": self.input, "triggers": self.triggers })
    }
}

impl TaskFinished {
    /// The event as JSON.
    pub fn to_json(&self) -> Value {
        let interrupts: Vec<Value> = self.interrupts.iter().map(Question::to_json).collect();
        json!({
            "id": self.id, "name": self.node, "error": self.error, "result": self.result, "interrupts": interrupts,
        })
    }
}

impl Question {
    /// The question as JSON.
    pub fn to_json(&self) -> Value {
        json!({ "id": self.id, "path": self.path, "value": self.value })
    }
}

/// The state as JSON: the channels that have a value, by name.
pub(crate) fn state_json<S: Values>(state: &S) -> Result<Value, serde_json::Error> {
    let mut object = Map::new();
    let mut channel = 0;
    while let Some(spec) = state.channel(channel) {
        let value = state.to_json(channel);
        let value = value.map_err(|error| Error::custom(format!("channel `{}`: {error}", spec.name)))?;
        if let Some(value) = value {
            object.insert(spec.name.clone().into_owned(), value);
        }
        channel += 1;
    }
    Ok(Value::Object(object))
}

impl<S: Values> Event<S> {
    /// The name of the mode that the event belongs to.
    pub fn mode(&self) -> &'static str {
        match self {
            Self::Values(_) => "values",
            Self::Updates(_) | Self::Interrupted(_) => "updates",
            Self::Custom { .. } => "custom",
            Self::TaskStarted(_) | Self::TaskFinished(_) => "tasks",
            Self::Debug(_) => "debug",
            Self::Checkpoint(_) => "checkpoints",
            Self::Message(_) => "messages",
            Self::Nested(nested) => nested.mode,
            Self::Lagged(_) => "lagged",
        }
    }

    /// The payload as JSON, in the form that the reference gives it.
    pub fn data(&self) -> Result<Value, serde_json::Error> {
        Ok(match self {
            Self::Values(state) => state_json(&**state)?,
            Self::Updates(update) => update.to_json()?,
            Self::Interrupted(questions) => {
                json!({ "__interrupt__": questions.iter().map(Question::to_json).collect::<Vec<_>>() })
            }
            Self::Custom { value, .. } => value.clone(),
            Self::TaskStarted(started) => started.to_json(),
            Self::TaskFinished(finished) => finished.to_json(),
            Self::Debug(DebugEvent { timestamp, step, kind, payload }) => {
                json!({ "step": step, "timestamp": timestamp, "type": kind, "payload": payload })
            }
            Self::Checkpoint(checkpoint) => checkpoint.to_json()?,
            Self::Message(spoken) => spoken.to_json()?,
            Self::Nested(nested) => nested.data.clone(),
            Self::Lagged(missed) => json!({ "missed": missed }),
        })
    }

    /// The whole event as JSON: `{"type": mode, "ns": namespace, "data": payload}`.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let namespace: &[String] = match self {
            Self::Nested(nested) => &nested.namespace,
            Self::Message(spoken) => &spoken.namespace,
            _ => &[],
        };
        Ok(json!({ "type": self.mode(), "ns": namespace, "data": self.data()? }))
    }
}

impl<S: Values> CheckpointEvent<S> {
    fn to_json(&self) -> Result<Value, serde_json::Error> {
        Ok(json!({
            "config": { "checkpoint_id": self.id },
            "parent_config": self.parent.map(|id| json!({ "checkpoint_id": id })),
            "metadata": { "source": self.source, "step": self.step },
            "values": state_json(&*self.state)?,
            "next": self.next,
        }))
    }
}

impl<S: Values> NodeUpdate<S> {
    fn to_json(&self) -> Result<Value, serde_json::Error> {
        let mut object = Map::new();
        object.insert(self.node.clone(), self.update.writes().to_json()?);
        if self.cached {
            object.insert("__metadata__".to_owned(), json!({ "cached": true }));
        }
        Ok(Value::Object(object))
    }
}
