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

/// A graph without its types, to read and update threads. Each `config` argument must select this graph: its namespace
/// must be that of this graph.
pub trait ErasedGraph: Send + Sync {
    /// Returns the name of the graph.
    fn name(&self) -> &str;

    /// Returns the subgraph of a node. `node` is the current or an earlier name of the node.
    ///
    /// # Errors
    ///
    /// If the node does not run a subgraph, returns the names of the nodes that do.
    fn inner(&self, node: &str) -> Result<InnerGraph<'_>, Vec<String>>;

    /// Returns the secret channels of this graph and its subgraphs.
    fn secret_channels(&self) -> Vec<SecretChannel>;

    /// Returns true if this channel of the graph is secret.
    fn hides(&self, channel: &str) -> bool;

    /// Returns the questions that this graph and its subgraphs declare, without duplicates.
    fn question_types(&self) -> Vec<QuestionType>;

    /// Returns the JSON Schema of the state: an object of channels. A channel whose type does not implement
    /// `JsonSchema` has an empty schema.
    fn state_schema(&self) -> Value;

    /// Returns the properties on which stored threads of the graph depend. The generator collects the schemas of named
    /// types.
    fn facts(&self, generator: &mut schemars::SchemaGenerator) -> GraphFacts;

    /// Returns the state of a thread. See [`CompiledGraph::state`](crate::graph::CompiledGraph::state).
    fn state<'a>(&'a self, saver: &'a Saver, config: &'a Config) -> BoxFuture<'a, Result<DynSnapshot, RunError>>;

    /// Returns the states of a thread, newest first. See
    /// [`CompiledGraph::history`](crate::graph::CompiledGraph::history).
    fn history<'a>(
        &'a self,
        saver: &'a Saver,
        config: &'a Config,
        query: ListQuery,
    ) -> BoxFuture<'a, Result<Vec<DynSnapshot>, RunError>>;

    /// Updates the state of a thread, with one superstep for each list of updates. Returns the configuration that
    /// selects the last new checkpoint.
    fn update<'a>(
        &'a self,
        saver: &'a Saver,
        config: &'a Config,
        supersteps: &'a [Vec<DynUpdates>],
    ) -> BoxFuture<'a, Result<Config, RunError>>;
}

/// A subgraph at a node of another graph.
pub struct InnerGraph<'a> {
    /// The subgraph.
    pub graph: &'a dyn ErasedGraph,
    /// The way in which checkpoints store the state of the subgraph.
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
    /// A command with answers, an update or targets for the thread.
    Command(DynCommand),
}

/// An update of a thread's state as JSON. The update does not come from a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct DynUpdates {
    /// The update: an object of channels, a list of `[channel, value]` pairs, or null for no update.
    pub values: Value,
    /// The node to which the engine attributes the update. `None` means the node that ran last. For the special names,
    /// see [`StateUpdate::as_node`](crate::StateUpdate::as_node).
    pub as_node: Option<String>,
    /// A command, which replaces `values`: `{"update": …, "goto": …}`. `None` means that `values` is the update.
    pub command: Option<DynCommand>,
}

impl DynUpdates {
    /// Creates an update that the engine attributes to the node that ran last.
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
