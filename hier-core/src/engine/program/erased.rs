//! Graphs and threads without their types. The type of a subgraph is often unknown outside of its graph.

use futures_core::future::BoxFuture;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Checkpoints, DynSnapshot, GraphFacts, SecretChannel};
use crate::checkpoint::ListQuery;
use crate::command::DynCommand;
use crate::config::Config;
use crate::engine::log::saver::Saver;
use crate::error::RunError;
use crate::question::QuestionType;

/// A graph of unknown types, whose threads can be read and updated. The namespace of each `config` must be that of this
/// graph.
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

/// The input of a run as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum DynInput {
    /// A new input: an object of channels, or a list of `[channel, value]` pairs.
    New(Value),
    /// A complete state, for a new thread. If the thread has a checkpoint, the run fails.
    Whole(Value),
    /// No input. The thread continues where it stopped.
    Continue,
    /// A command: an answer, an update, or targets.
    Command(DynCommand),
}

/// A JSON update of a thread from outside its runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynUpdates {
    /// The update: an object of channels, a list of `[channel, value]` pairs, or null.
    pub values: Value,
    /// The node that the update is attributed to. Defaults to the node that ran last. For the special names, see
    /// [`StateUpdate::as_node`](crate::StateUpdate::as_node).
    pub as_node: Option<String>,
    /// A command instead of `values`: `{"update": …, "goto": …}`.
    pub command: Option<DynCommand>,
}

impl DynUpdates {
    /// Creates an update that is attributed to the node that ran last.
    pub fn values(values: Value) -> Self {
        Self { values, ..Self::default() }
    }

    /// Attributes the update to this node.
    #[must_use]
    pub fn as_node(mut self, node: impl Into<String>) -> Self {
        self.as_node = Some(node.into());
        self
    }
}
