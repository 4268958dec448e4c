//! Options of a run that its caller chooses.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The kinds of events that a stream delivers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
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
    /// Each checkpoint with its next tasks. Only with a checkpointer.
    Checkpoints,
}

/// The time at which checkpoints are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// Stores each step before the next one starts, and the writes of a task before the task counts as done.
    Sync,
    /// Stores steps in the background, in order. A crash may lose the last steps, never their order. At the end of
    /// the run everything is stored.
    #[default]
    Async,
    /// Stores once, when the run ends, unless it crashes or its future is dropped. The steps have no history.
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

/// The treatment of a run when its client disconnects.
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

/// Options with which clients of a server follow a run. The server returns them as `kwargs`. The engine ignores them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RunOptions {
    /// The modes in which the run is followed. Defaults to `values`.
    pub stream_mode: Vec<ClientMode>,
    /// True if the client follows the events of subgraphs too. Defaults to false.
    pub stream_subgraphs: bool,
    /// True if events have ids, from which a client can join the stream again. Defaults to false.
    pub resumable: bool,
    /// The keys under which clients give feedback.
    pub feedback_keys: Option<Vec<String>>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self { stream_mode: vec![ClientMode::Values], stream_subgraphs: false, resumable: false, feedback_keys: None }
    }
}

/// A mode in which a client follows a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientMode {
    /// States.
    Values,
    /// Writes of nodes.
    Updates,
    /// Messages that grow, one event for each state of each of them.
    Messages,
    /// Messages piece by piece.
    MessagesTuple,
    /// Values that nodes emit.
    Custom,
    /// Begins and ends of tasks.
    Tasks,
    /// Checkpoints.
    Checkpoints,
    /// Tasks and checkpoints, with the time.
    Debug,
    /// LangChain's events of runnables.
    Events,
}

/// The names.
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

    /// Its name.
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
