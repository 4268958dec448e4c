//! Events of a stream.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::ser::Error;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::checkpoint::Source;
use crate::message::ChatChunk;
use crate::question::Question;
pub use crate::runs::StreamMode;
use crate::runs::{LogEvent, LoggedCheckpoint, LoggedMessage, LoggedQuestion, LoggedUpdate, NewEvent, TaskEvent};
use crate::state::{Update, Values};

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
    /// A task begins or has ended.
    Task(TaskEvent),
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

/// A task begins or has ended, with step and time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DebugEvent {
    /// Milliseconds since 1970.
    pub timestamp: u64,
    /// The task, with what it reads or has written as JSON.
    pub task: TaskEvent,
}

impl DebugEvent {
    pub(crate) fn new(task: TaskEvent) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { timestamp: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), task }
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

/// An event of a subgraph.
#[derive(Clone, Debug, PartialEq)]
pub struct Nested {
    /// The path of the subgraph: `node:task id` for each level.
    pub namespace: Vec<String>,
    /// The event, with states and writes as JSON.
    pub event: LogEvent,
}

/// Questions as the log shows them.
pub(crate) fn logged(questions: &[Question]) -> Vec<LoggedQuestion> {
    let logged = |asked: &Question| LoggedQuestion {
        id: asked.id.clone(),
        path: asked.path.clone(),
        value: asked.value.clone(),
    };
    questions.iter().map(logged).collect()
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
    /// The event as the log of a thread stores it: without the types of the graph.
    pub fn into_log(self) -> Result<NewEvent, serde_json::Error> {
        let mut namespace = Vec::new();
        let body = match self {
            Self::Values(state) => LogEvent::Values(state_json(&*state)?),
            Self::Updates(NodeUpdate { node, update, cached }) => {
                LogEvent::Updates(LoggedUpdate { node, writes: update.writes().to_json()?, cached })
            }
            Self::Interrupted(questions) => LogEvent::Interrupted(logged(&questions)),
            Self::Custom { node, value } => LogEvent::Custom { node, value },
            Self::Task(task) => LogEvent::Task(task),
            Self::Debug(DebugEvent { timestamp, task }) => LogEvent::Debug { timestamp, task },
            Self::Checkpoint(CheckpointEvent { id, parent, step, source, state, next }) => {
                LogEvent::Checkpoint(LoggedCheckpoint { id, parent, step, source, values: state_json(&*state)?, next })
            }
            Self::Message(spoken) => {
                let MessageChunk { id, node, task, step, path, agent, chunk, namespace: of } = *spoken;
                namespace = of;
                LogEvent::Message(Box::new(LoggedMessage { id, node, task, step, path, agent, chunk }))
            }
            Self::Nested(nested) => {
                namespace = nested.namespace;
                nested.event
            }
            Self::Lagged(missed) => LogEvent::Lagged { missed: missed as u64 },
        };
        Ok(NewEvent::new(None, body).namespace(namespace))
    }

    /// The payload as JSON, in the form that LangGraph gives it.
    pub fn data(&self) -> Result<Value, serde_json::Error> {
        Ok(self.clone().into_log()?.body.data())
    }

    /// The whole event as JSON: `{"type": mode, "ns": namespace, "data": payload}`.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let event = self.clone().into_log()?;
        Ok(json!({ "type": event.mode(), "ns": event.namespace, "data": event.body.data() }))
    }
}
