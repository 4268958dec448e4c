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

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Modes(u8);

impl Modes {
    pub(crate) fn has(self, mode: StreamMode) -> bool {
        self.0 & (1 << mode as u8) != 0
    }

    /// Limits the set to this mode. Returns `None` if the set does not contain it.
    pub(crate) fn only(self, mode: StreamMode) -> Option<Self> {
        self.has(mode).then(|| Self(1 << mode as u8))
    }
}

impl FromIterator<StreamMode> for Modes {
    fn from_iter<I: IntoIterator<Item = StreamMode>>(modes: I) -> Self {
        Self(modes.into_iter().fold(0, |set, mode| set | 1 << mode as u8))
    }
}

/// An event of a run. The states and updates in an event have the types of the graph.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<S: Values> {
    /// The state: when a run continues, and after each input or superstep that has written a channel or run a subgraph.
    Values(Arc<S>),
    /// The update that a node returned.
    Updates(NodeUpdate<S>),
    /// The open questions of a task, for which the run will stop. The list is empty if the run stops at a breakpoint.
    Interrupted(Vec<Question>),
    /// A value that a node sent with [`Run::emit`](crate::Run::emit).
    Custom {
        /// The name of the node.
        node: String,
        /// The value.
        value: Value,
    },
    /// The start or the end of a task.
    Task(TaskEvent),
    /// The start or the end of a task, with the time and the superstep.
    Debug(DebugEvent),
    /// A new checkpoint, or the checkpoint from which the run continues.
    Checkpoint(CheckpointEvent<S>),
    /// A part of a message from an agent's model.
    Message(Box<MessageChunk>),
    /// An event of a subgraph, as JSON.
    Nested(Nested),
    /// A gap in the stream: the number of events that the stream dropped because the consumer was too slow.
    Lagged(usize),
}

/// A new checkpoint, or the checkpoint from which the run continues.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckpointEvent<S: Values> {
    /// The id of the checkpoint.
    pub id: Uuid,
    /// The id of the previous checkpoint. `None` for the first checkpoint of a thread.
    pub parent: Option<Uuid>,
    /// The number of the superstep that ended with this checkpoint.
    pub step: i64,
    /// The kind of operation that made the checkpoint.
    pub source: Source,
    /// The state in the checkpoint.
    pub state: Arc<S>,
    /// The nodes that run next, with one entry per task.
    pub next: Vec<String>,
}

/// The update that a node returned.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct NodeUpdate<S: Values> {
    /// The name of the node. If the node's error handler returned the update, the name has the prefix
    /// `__error_handler__`.
    pub node: String,
    /// The writes of the node.
    pub update: S::Update,
    /// True if the node did not run: the update comes from the node's `cache`, or an earlier run has stored it.
    pub cached: bool,
}

/// The start or the end of a task, with the time and the superstep.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DebugEvent {
    /// The time in milliseconds since 1970-01-01 UTC.
    pub timestamp: u64,
    /// The start of the task with its input, or the end of the task with its writes, as JSON.
    pub task: TaskEvent,
}

impl DebugEvent {
    pub(crate) fn new(task: TaskEvent) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { timestamp: u64::try_from(now.as_millis()).unwrap_or(u64::MAX), task }
    }
}

/// A part of a message from an agent's model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MessageChunk {
    /// The id of the message. All chunks of a message have the same id, which is also the id of the complete message in
    /// the state.
    pub id: String,
    /// The name of the node that called the model.
    pub node: String,
    /// The id of the task that called the model.
    pub task: Uuid,
    /// The number of the superstep in which the node called the model.
    pub step: i64,
    /// The names of the nodes on the path from the root graph to the agent. Empty if the agent is the root graph.
    pub path: Vec<String>,
    /// The namespace of the agent, with one entry `node:task id` for each level of its path. Concurrent calls of one
    /// agent have different namespaces.
    pub namespace: Vec<String>,
    /// The name of the agent.
    pub agent: String,
    /// A piece of text, of reasoning or of a tool call. The last chunk contains the whole reply of the model.
    pub chunk: ChatChunk,
}

/// An event of a subgraph.
#[derive(Clone, Debug, PartialEq)]
pub struct Nested {
    /// The namespace of the subgraph, with one entry `node:task id` for each level of its path.
    pub namespace: Vec<String>,
    /// The event, with states and writes as JSON.
    pub event: LogEvent,
}

/// Converts questions to their form in the log.
pub(crate) fn logged(questions: &[Question]) -> Vec<LoggedQuestion> {
    let logged = |asked: &Question| LoggedQuestion {
        id: asked.id.clone(),
        path: asked.path.clone(),
        value: asked.value.clone(),
    };
    questions.iter().map(logged).collect()
}

/// Returns the state as a JSON object of the channels with a value.
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
    /// Converts the event to the form that the log of a thread stores. This form has JSON in place of the graph's
    /// types.
    ///
    /// # Errors
    ///
    /// Fails if a state or an update cannot be converted to JSON.
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

    /// Returns the payload of the event as JSON, in the form of LangGraph's events.
    pub fn data(&self) -> Result<Value, serde_json::Error> {
        Ok(self.clone().into_log()?.body.data())
    }

    /// Returns the whole event as JSON: `{"type": mode, "ns": namespace, "data": payload}`.
    pub fn to_json(&self) -> Result<Value, serde_json::Error> {
        let event = self.clone().into_log()?;
        Ok(json!({ "type": event.mode(), "ns": event.namespace, "data": event.body.data() }))
    }
}
