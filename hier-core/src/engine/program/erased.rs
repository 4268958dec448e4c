//! Threads without the types of their graphs: what goes in, and what is read of them. A graph of which only this is known can be
//! one inside another, whose type nobody outside of that can name.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Checkpoints, DynCommand};
use crate::checkpoint::{ListQuery, Source};
use crate::config::Config;
use crate::engine::log::saver::Saver;
use crate::error::RunError;
use crate::question::Question;

/// A graph whose threads are read and changed from outside, whatever its state is. The namespace of the configuration is the
/// graph's own, wherever it is.
pub trait ErasedGraph: Send + Sync {
    /// The name of the graph.
    fn name(&self) -> &str;

    /// The nodes that are graphs.
    fn inner(&self) -> Vec<String>;

    /// The names that a node has had, the one that it has now last; it is told by any of them. None if there is no such node.
    fn names(&self, node: &str) -> Vec<String>;

    /// The graph that a node runs, by the node's name now or an earlier one, and where its checkpoints are.
    fn inside(&self, node: &str) -> Option<(&dyn ErasedGraph, Checkpoints)>;

    /// The channels as a JSON Schema: of those whose types implement `JsonSchema`, what they are.
    fn state_schema(&self) -> Value;

    /// The state of a thread.
    fn state<'a>(&'a self, saver: &'a Saver, config: &'a Config) -> BoxFuture<'a, Result<DynSnapshot, RunError>>;

    /// The history of a thread.
    fn history<'a>(
        &'a self,
        saver: &'a Saver,
        config: &'a Config,
        query: ListQuery,
    ) -> BoxFuture<'a, Result<Vec<DynSnapshot>, RunError>>;

    /// Changes the state of a thread.
    fn update<'a>(
        &'a self,
        saver: &'a Saver,
        config: &'a Config,
        supersteps: &'a [Vec<DynUpdates>],
    ) -> BoxFuture<'a, Result<Config, RunError>>;
}

/// What a run starts with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DynInput {
    /// A new input: an object of channel names, or a list of pairs of a name and a value.
    New(Value),
    /// A whole state, which a thread that has a checkpoint refuses.
    Whole(Value),
    /// Nothing: the thread goes on where it was.
    Continue,
    /// An answer, an update, where to go.
    Command(DynCommand),
}

/// An update of a thread from outside.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynUpdates {
    /// What is written: an object of channel names, a list of pairs, or null.
    pub values: Value,
    /// As which node; as the one that ran last if none. `__start__`, `__end__`, `__input__` and `__copy__` mean what they mean
    /// for [`StateUpdate::as_node`](crate::StateUpdate::as_node).
    pub as_node: Option<String>,
    /// A command, instead of the values: `{"update": …, "goto": …}`.
    pub command: Option<DynCommand>,
}

impl DynUpdates {
    /// An update as the node that ran last.
    pub fn values(values: Value) -> Self {
        Self { values, ..Self::default() }
    }

    /// The same as this node.
    #[must_use]
    pub fn as_node(mut self, node: impl Into<String>) -> Self {
        self.as_node = Some(node.into());
        self
    }
}

/// A thread at one moment: a [`StateSnapshot`](crate::StateSnapshot) whose values are JSON. Serialized, a configuration is what it
/// addresses: thread, namespace and checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynSnapshot {
    /// The channels that have a value, by name.
    pub values: Value,
    /// The nodes that run next. Whether anything is left to do is told by [`is_finished`](Self::is_finished).
    pub next: Vec<String>,
    /// Addresses this checkpoint.
    #[serde(with = "address")]
    pub config: Config,
    /// The checkpoint; none if nothing is stored.
    pub checkpoint: Option<Uuid>,
    /// The checkpoint that it follows.
    pub parent: Option<Uuid>,
    /// Of a graph inside others: in which step of each of them it was made, as their checkpoints by their namespaces.
    pub parents: BTreeMap<String, Uuid>,
    /// The superstep.
    pub step: i64,
    /// What made the checkpoint.
    pub source: Option<Source>,
    /// What was given with the run's configuration.
    pub metadata: Map<String, Value>,
    /// When the checkpoint was made.
    pub created_at: Option<SystemTime>,
    /// The tasks of the step.
    pub tasks: Vec<DynTask>,
    /// The open questions.
    pub questions: Vec<Question>,
    /// The reason why the program cannot read the checkpoint. Only set in a history; the values are then empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

impl DynSnapshot {
    /// Whether nothing is left to do, as [`StateSnapshot::is_finished`](crate::StateSnapshot::is_finished) says.
    pub fn is_finished(&self) -> bool {
        self.next.is_empty() && self.tasks.is_empty() && self.unreadable.is_none()
    }
}

/// A task of an open step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynTask {
    /// The id.
    pub id: Uuid,
    /// The node.
    pub node: String,
    /// The number of the Send that started it; none if an edge did.
    pub send: Option<usize>,
    /// What it wrote, if it is done.
    pub result: Option<Value>,
    /// Why it failed, if it did.
    pub error: Option<String>,
    /// What it asks, or asked.
    pub questions: Vec<Question>,
    /// Addresses the checkpoints of the graph that the node runs, if it is one.
    #[serde(with = "address::option")]
    pub state: Option<Config>,
}

/// What a configuration addresses.
#[derive(Serialize, Deserialize)]
struct ConfigAddress {
    thread: Option<String>,
    namespace: String,
    checkpoint: Option<Uuid>,
}

impl From<&Config> for ConfigAddress {
    fn from(config: &Config) -> Self {
        Self { thread: config.thread.clone(), namespace: config.namespace.clone(), checkpoint: config.checkpoint }
    }
}

impl From<ConfigAddress> for Config {
    fn from(address: ConfigAddress) -> Self {
        let mut config = Self::default().namespace(address.namespace);
        (config.thread, config.checkpoint) = (address.thread, address.checkpoint);
        config
    }
}

/// Writes a configuration as its [`ConfigAddress`].
mod address {
    use super::{Config, ConfigAddress, Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(config: &Config, serializer: S) -> Result<S::Ok, S::Error> {
        ConfigAddress::from(config).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Config, D::Error> {
        ConfigAddress::deserialize(deserializer).map(Config::from)
    }

    /// The same of one that may be missing.
    pub(super) mod option {
        use super::{Config, ConfigAddress, Deserialize, Deserializer, Serialize, Serializer};

        #[expect(clippy::ref_option, reason = "serde calls it so")]
        pub(crate) fn serialize<S: Serializer>(config: &Option<Config>, serializer: S) -> Result<S::Ok, S::Error> {
            config.as_ref().map(ConfigAddress::from).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Config>, D::Error> {
            Ok(Option::<ConfigAddress>::deserialize(deserializer)?.map(Config::from))
        }
    }
}
