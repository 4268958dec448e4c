//! Options of a run that its caller chooses.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A kind of events that a stream delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StreamMode {
    /// The state, when a run continues, and after each input or superstep that has written a channel or run a subgraph.
    Values,
    /// The writes of each node, when the node has ended.
    Updates,
    /// The values that nodes emit with `run.emit(…)`.
    Custom,
    /// The start and the end of each task.
    Tasks,
    /// The start and the end of each task, with the superstep and the time.
    Debug,
    /// The replies of models, chunk by chunk, including those in subgraphs.
    Messages,
    /// Each checkpoint with its next tasks. Needs a checkpointer.
    Checkpoints,
}

/// The time at which checkpoints are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Each superstep is stored before the next one starts. If a superstep has several tasks, the writes of each task
    /// are stored before the task counts as done.
    Sync,
    /// Supersteps are stored in the background, in order. A crash can lose the last supersteps, and a later run repeats
    /// them. When the run ends, everything is stored.
    #[default]
    Async,
    /// Everything is stored once, when the run ends. If the process crashes or the future of the run is dropped, no
    /// result of the run is stored. A command or an answer that continues a thread is stored at once. The history
    /// contains no checkpoints of single supersteps.
    Exit,
}

impl JsonSchema for Durability {
    fn schema_name() -> Cow<'static, str> {
        "Durability".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "When checkpoints are stored.", "type": "string", "enum": [Self::Sync, Self::Async, Self::Exit],
        })
    }
}

/// The action if the client of a run disconnects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDisconnect {
    /// The run continues.
    #[default]
    Continue,
    /// The run is cancelled.
    Cancel,
}

impl JsonSchema for OnDisconnect {
    fn schema_name() -> Cow<'static, str> {
        "OnDisconnect".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "What becomes of a run whose client has gone.", "type": "string",
            "enum": [Self::Continue, Self::Cancel],
        })
    }
}

/// The options with which a client of the server reads the events of a run. The server returns them in the field
/// `kwargs` of the run. The engine ignores them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunOptions {
    /// The stream modes that the client has chosen. Defaults to `values`.
    pub stream_mode: Vec<ClientMode>,
    /// True to include the events of subgraphs. Defaults to false.
    pub stream_subgraphs: bool,
    /// True to give each event an id, so that a client can resume the stream after a disconnect. Defaults to false.
    pub resumable: bool,
    /// The keys under which clients give feedback. `None` if the client has set no keys.
    pub feedback_keys: Option<Vec<String>>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { stream_mode: vec![ClientMode::Values], stream_subgraphs: false, resumable: false, feedback_keys: None }
    }
}

/// A stream mode of LangGraph's clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientMode {
    /// The state after each superstep.
    Values,
    /// The writes of nodes.
    Updates,
    /// Messages as they grow. Each event contains the part of a message that exists so far.
    Messages,
    /// Messages, chunk by chunk.
    MessagesTuple,
    /// The values that nodes emit.
    Custom,
    /// The start and the end of tasks.
    Tasks,
    /// Each checkpoint.
    Checkpoints,
    /// Tasks and checkpoints, with the time.
    Debug,
    /// LangChain's events of runnables.
    Events,
}

const NAMES: [(&str, ClientMode); 9] = [
    ("values", ClientMode::Values),
    ("updates", ClientMode::Updates),
    ("messages", ClientMode::Messages),
    ("messages-tuple", ClientMode::MessagesTuple),
    ("custom", ClientMode::Custom),
    ("tasks", ClientMode::Tasks),
    ("checkpoints", ClientMode::Checkpoints),
    ("debug", ClientMode::Debug),
    ("events", ClientMode::Events),
];

impl ClientMode {
    /// Returns the mode with this name. The error lists the names.
    pub fn parse(name: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode);
        found.ok_or_else(|| format!("`{name}` is not a stream mode: use {}", NAMES.map(|(name, _)| name).join(", ")))
    }

    /// Returns the name of the mode.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(_, mode)| *mode == self).map_or("values", |(name, _)| name)
    }
}

impl JsonSchema for ClientMode {
    fn schema_name() -> Cow<'static, str> {
        "StreamMode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": NAMES.map(|(name, _)| name) })
    }
}

impl<'de> Deserialize<'de> for ClientMode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl Serialize for ClientMode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
