//! The stored tasks of the next superstep.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::names::Names;

/// The tasks of the next superstep. Names identify the nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NextTasks {
    /// True if the input was stored and is not yet applied.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub start: bool,
    /// True if the input comes from an `update_state` call with `as_node` set to `__input__`, and not from a run. The
    /// run that applies the input then enters the graph with it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unentered: bool,
    /// The nodes to which edges and commands lead, sorted by name.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub ready: Names,
    /// The tasks that Sends start, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sends: Vec<SendRecord>,
    /// The deferred nodes to which an edge leads. They wait until no other node is ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Arc<str>>,
    /// The nodes in `waiting` that the engine has released, because no other node was ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Arc<str>>,
    /// The progress of each join, if at least one of its sources has run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub joins: Vec<JoinRecord>,
    /// The nodes in `ready` to which several edges led at once. At least one of these edges is a join.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tied: Vec<Arc<str>>,
    /// The node that ran last.
    #[serde(skip_serializing_if = "LastRan::is_nothing")]
    pub last: LastRan,
    /// The nodes after which the run that made the checkpoint stops, because they have a breakpoint. Only a repeated
    /// part of this run reads them.
    #[doc(hidden)]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stops_after: Vec<Arc<str>>,
    /// The checkpoints from which subgraphs with `checkpoints: per_thread` continue in this branch of the history.
    /// `None` without such subgraphs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<Arc<Kept>>,
}

impl NextTasks {
    #[doc(hidden)]
    pub fn is_empty(&self) -> bool {
        let waits = !self.waiting.is_empty() || !self.released.is_empty();
        !self.start && !waits && self.ready.is_empty() && self.sends.is_empty()
    }
}

/// The checkpoint from which each subgraph with `checkpoints: per_thread` continues. The key is the last segment of the
/// subgraph's namespace.
pub type Kept = BTreeMap<Arc<str>, Uuid>;

/// A task that a Send starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SendRecord {
    /// The name of the node.
    pub node: Arc<str>,
    /// The encoded payload.
    #[serde(with = "serde_bytes")]
    pub payload: Vec<u8>,
}

impl SendRecord {
    /// Creates a task for this node with this encoded payload.
    pub fn new(node: impl Into<Arc<str>>, payload: Vec<u8>) -> Self {
        Self { node: node.into(), payload }
    }
}

/// The progress of a join.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct JoinRecord {
    /// The name under which checkpoints store the progress of the join: `join:a+b:target`.
    pub join: Arc<str>,
    /// The sources that have run.
    pub seen: Vec<Arc<str>>,
    /// True if the target is a deferred node and the engine has released it, because no other node was ready.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub released: bool,
}

impl JoinRecord {
    /// Creates the record of a join whose sources in `seen` have run.
    pub fn new(join: impl Into<Arc<str>>, seen: Vec<Arc<str>>, released: bool) -> Self {
        Self { join: join.into(), seen, released }
    }
}

/// The node that ran last. The engine attributes an update without `as_node` to this node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LastRan {
    /// No node has run.
    #[default]
    Nothing,
    /// The input was applied, and no node has run since then.
    Start,
    /// The node with this name ran last.
    Node(Arc<str>),
    /// Several nodes may have run last, and the checkpoint does not contain their names. An update must name a node
    /// with `as_node`.
    Several,
    /// The nodes that may have run last. An update must name a node with `as_node`, because the engine cannot select
    /// one. A list with a single node is not a [`Self::Node`]: several edges led to this node at once
    /// ([`NextTasks::tied`]).
    Among(Vec<Arc<str>>),
}

impl LastRan {
    fn is_nothing(&self) -> bool {
        *self == Self::Nothing
    }
}
