//! Graphs and threads without their types. The type of an inner graph is often unknown outside of it.

use std::collections::BTreeMap;
use std::time::SystemTime;

use futures_core::future::BoxFuture;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::{Checkpoints, DynCommand, GraphFacts, SecretChannel};
use crate::checkpoint::{ListQuery, Source};
use crate::config::Config;
use crate::engine::log::saver::Saver;
use crate::error::RunError;
use crate::question::{Question, QuestionType};

/// Reads and updates the threads of a graph of unknown types. The namespace of each `config` must be that of this graph.
pub trait ErasedGraph: Send + Sync {
    /// The name of the graph.
    fn name(&self) -> &str;

    /// Returns the graph of a node, by its current or an earlier name.
    ///
    /// # Errors
    ///
    /// The names of the nodes that are graphs, if this node is not one of them.
    fn inner(&self, node: &str) -> Result<InnerGraph<'_>, Vec<String>>;

    /// Returns the secret channels of this graph and of the graphs in it.
    fn secret_channels(&self) -> Vec<SecretChannel>;

    /// Returns true if this channel of the graph is secret.
    fn hides(&self, channel: &str) -> bool;

    /// Returns the questions that this graph and the graphs in it declare, each once.
    fn question_types(&self) -> Vec<QuestionType>;

    /// Returns the channels as a JSON Schema. Types without `JsonSchema` have an empty one.
    fn state_schema(&self) -> Value;

    /// Returns the facts on which stored threads of the graph depend. The generator collects the schemas of named types.
    fn facts(&self, generator: &mut schemars::SchemaGenerator) -> GraphFacts;

    /// Returns the state of a thread.
    fn state<'a>(&'a self, saver: &'a Saver, config: &'a Config) -> BoxFuture<'a, Result<DynSnapshot, RunError>>;

    /// Returns the history of a thread.
    fn history<'a>(
        &'a self,
        saver: &'a Saver,
        config: &'a Config,
        query: ListQuery,
    ) -> BoxFuture<'a, Result<Vec<DynSnapshot>, RunError>>;

    /// Updates the state of a thread.
    fn update<'a>(
        &'a self,
        saver: &'a Saver,
        config: &'a Config,
        supersteps: &'a [Vec<DynUpdates>],
    ) -> BoxFuture<'a, Result<Config, RunError>>;
}

/// A graph at a node of another graph.
pub struct InnerGraph<'a> {
    /// The graph.
    pub graph: &'a dyn ErasedGraph,
    /// The kind of its checkpoints.
    pub checkpoints: Checkpoints,
    /// The earlier names of the node.
    pub earlier: Vec<String>,
    /// The current name of the node.
    pub name: String,
}

/// The input of a run, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DynInput {
    /// A new input: an object of channels, or a list of pairs of a channel and a value.
    New(Value),
    /// A whole state. A thread with a checkpoint refuses it.
    Whole(Value),
    /// No input: the thread continues where it stopped.
    Continue,
    /// A command: an answer, an update, or targets.
    Command(DynCommand),
}

/// An update of a thread from outside, as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynUpdates {
    /// The update: an object of channels, a list of pairs, or null.
    pub values: Value,
    /// The node that makes the update. Defaults to the node that ran last. `__start__`, `__end__`, `__input__` and `__copy__` have the
    /// meaning of [`StateUpdate::as_node`](crate::StateUpdate::as_node).
    pub as_node: Option<String>,
    /// A command instead of the values: `{"update": …, "goto": …}`.
    pub command: Option<DynCommand>,
}

impl DynUpdates {
    /// Creates an update as the node that ran last.
    pub fn values(values: Value) -> Self {
        Self { values, ..Self::default() }
    }

    /// Makes the update as this node.
    #[must_use]
    pub fn as_node(mut self, node: impl Into<String>) -> Self {
        self.as_node = Some(node.into());
        self
    }
}

/// A thread at one moment: a [`StateSnapshot`](crate::StateSnapshot) with JSON values. Configurations are serialized as thread, namespace
/// and checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynSnapshot {
    /// The channels with a value, by name.
    pub values: Value,
    /// The nodes that run next. To find out if the thread has finished, use [`is_finished`](Self::is_finished).
    pub next: Vec<String>,
    /// The configuration that addresses this checkpoint.
    #[serde(with = "address")]
    pub config: Config,
    /// The checkpoint. None if nothing is stored.
    pub checkpoint: Option<Uuid>,
    /// The id of the previous checkpoint.
    pub parent: Option<Uuid>,
    /// The checkpoints of the outer graphs in whose steps this one was made, by their namespaces. Empty for the root graph.
    pub parents: BTreeMap<String, Uuid>,
    /// The superstep.
    pub step: i64,
    /// The kind of operation that made the checkpoint.
    pub source: Option<Source>,
    /// The metadata of the run's configuration.
    pub metadata: Map<String, Value>,
    /// The time at which the checkpoint was made.
    pub created_at: Option<SystemTime>,
    /// The tasks of the step.
    pub tasks: Vec<DynTask>,
    /// The open questions.
    pub questions: Vec<Question>,
    /// The reason why the program cannot read the checkpoint. Only set in a history, with empty values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

impl DynSnapshot {
    /// Returns true if the thread has finished, like [`StateSnapshot::is_finished`](crate::StateSnapshot::is_finished).
    pub fn is_finished(&self) -> bool {
        self.next.is_empty() && self.tasks.is_empty() && self.unreadable.is_none()
    }
}

/// A task of an open step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynTask {
    /// The id of the task.
    pub id: Uuid,
    /// The name of the node.
    pub node: String,
    /// The number of the Send that started the task. None if an edge started it.
    pub send: Option<usize>,
    /// The writes of a finished task.
    pub result: Option<Value>,
    /// The error of a failed task.
    pub error: Option<String>,
    /// The questions of the task, open or answered.
    pub questions: Vec<Question>,
    /// The configuration that addresses the checkpoints of the graph that the node runs, if it runs one.
    #[serde(with = "address::option")]
    pub state: Option<Config>,
}

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

/// Serializes a configuration as its [`ConfigAddress`].
mod address {
    use super::{Config, ConfigAddress, Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(config: &Config, serializer: S) -> Result<S::Ok, S::Error> {
        ConfigAddress::from(config).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Config, D::Error> {
        ConfigAddress::deserialize(deserializer).map(Config::from)
    }

    /// Serializes an optional configuration.
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
