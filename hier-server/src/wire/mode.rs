//! The modes in which clients follow a run.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// What a client asks to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Mode {
    Values,
    Updates,
    /// Messages that grow, one event for each state of each of them.
    Messages,
    /// Messages piece by piece.
    MessagesTuple,
    Custom,
    Tasks,
    Checkpoints,
    Debug,
    /// LangChain's events of runnables.
    Events,
}

/// The names.
const NAMES: [(&str, Mode); 9] = [
    ("values", Mode::Values),
    ("updates", Mode::Updates),
    ("messages", Mode::Messages),
    ("messages-tuple", Mode::MessagesTuple),
    ("custom", Mode::Custom),
    ("tasks", Mode::Tasks),
    ("checkpoints", Mode::Checkpoints),
    ("debug", Mode::Debug),
    ("events", Mode::Events),
];

impl Mode {
    /// The mode with this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, _)| *known == name).map(|(_, mode)| *mode)
    }

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, mode)| *mode == self).map_or("values", |(name, _)| name)
    }

    /// What is said of a name that no mode has.
    pub(crate) fn unknown(name: &str) -> String {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        format!("`{name}` is no stream mode: those are {}", names.join(", "))
    }
}

impl JsonSchema for Mode {
    fn schema_name() -> Cow<'static, str> {
        "StreamMode".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": NAMES.map(|(name, _)| name) })
    }
}

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::parse(&name).ok_or_else(|| serde::de::Error::custom(Self::unknown(&name)))
    }
}

impl Serialize for Mode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}
