//! The facts of a compiled graph that decide whether its stored threads can be resumed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Checkpoints;
use crate::channel::ChannelSpec;
use crate::engine::log::saver::Saver;
use crate::error::RunError;

/// The properties of a graph on which its stored threads depend. A program compares them with those of an earlier
/// version of the graph.
#[derive(Clone, Debug)]
pub struct GraphFacts {
    /// The name of the graph. Threads are stored under this name.
    pub name: String,
    /// The earlier names of the graph and its nodes, as pairs of the earlier and the current name.
    pub renamed: Vec<(String, String)>,
    /// The version of the state.
    pub version: u32,
    /// The oldest state version that the migrations accept.
    pub migrates_from: u32,
    /// The channels of the state.
    pub channels: Vec<ChannelFacts>,
    /// The channels that nodes write, and that no node, route or output reads. The argument types of a node show the
    /// channels that the node reads. A node without typed arguments counts as a reader of all channels.
    pub unread: Vec<String>,
    /// The nodes.
    pub nodes: Vec<NodeFacts>,
    /// The nodes to which START leads.
    pub entry: Exits,
    /// The joins that lead to a node. Joins that lead to END are not in this list.
    pub joins: Vec<JoinFacts>,
    /// The questions that the graph and its subgraphs declare.
    pub questions: Vec<AskedFacts>,
}

/// A declared question.
#[derive(Clone, Debug)]
pub struct AskedFacts {
    /// The name under which checkpoints store the question.
    pub name: String,
    /// The JSON Schema of the question, including the schemas of named types.
    pub question: Value,
    /// The JSON Schema of the answer, including the schemas of named types.
    pub answer: Value,
}

/// A channel of a state.
#[derive(Clone, Debug)]
pub struct ChannelFacts {
    /// The name, kind and options of the channel.
    pub spec: ChannelSpec,
    /// The JSON Schema of the channel's type, or `None` if the type has no schema. The generator has the schemas of the
    /// named types to which this schema refers.
    pub schema: Option<Value>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The name of the node.
    pub name: String,
    /// True if the node is deferred: it waits until no other task is left.
    pub defer: bool,
    /// The nodes that this node leads to.
    pub exits: Exits,
    /// The subgraph that the node runs. `None` if the node is a function.
    pub inner: Option<InnerFacts>,
}

/// The nodes to which a node or START leads, except through joins.
#[derive(Clone, Debug, PartialEq)]
pub struct Exits {
    /// The nodes to which plain edges lead. These nodes run each time that the source of the edges has run.
    pub always: BTreeSet<String>,
    /// The nodes that routes and commands may choose. `None` if a command may choose any node of the graph.
    pub chosen: Option<BTreeSet<String>>,
}

impl Default for Exits {
    fn default() -> Self {
        Self { always: BTreeSet::new(), chosen: Some(BTreeSet::new()) }
    }
}

impl Exits {
    /// Returns the nodes in [`always`](Self::always), and then those in [`chosen`](Self::chosen), if it is not `None`.
    /// A node in both lists appears twice.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.always.iter().chain(self.chosen.iter().flatten()).map(String::as_str)
    }
}

/// The subgraph of a node.
#[derive(Clone, Debug)]
pub struct InnerFacts {
    /// The properties of the subgraph.
    pub graph: GraphFacts,
    /// The way in which checkpoints store the state of the subgraph.
    pub checkpoints: Checkpoints,
    /// True if the subgraph takes the payload of a Send as its initial state.
    pub takes_state: bool,
    /// True if a route of the outer graph sends payloads to the node that runs the subgraph.
    pub is_sent: bool,
    /// The names and values of the options that decide which values the subgraph receives and returns. Empty if the
    /// subgraph and the outer graph share one state.
    pub policy: Vec<(&'static str, String)>,
}

/// A join that leads to a node.
#[derive(Clone, Debug)]
pub struct JoinFacts {
    /// The name under which checkpoints store the progress of the join.
    pub name: String,
    /// The nodes that must all have run before the join starts its target.
    pub from: Vec<String>,
    /// The target node of the join.
    pub to: String,
}

/// The name of a secret channel, with the name of its graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretChannel {
    /// The name of the graph.
    pub graph: String,
    /// The name of the channel.
    pub channel: String,
}

impl SecretChannel {
    /// Refuses a saver that stores plain values, if the graph has secret channels.
    pub(crate) fn check(found: Vec<Self>, saver: &Saver) -> Result<(), RunError> {
        match found.into_iter().next().filter(|_| !saver.protects_values()) {
            Some(Self { graph, channel }) => Err(RunError::Unencrypted { graph, channel }),
            None => Ok(()),
        }
    }
}
