//! The states of threads, as callers read them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::checkpoint::Source;
use crate::config::Config;
use crate::question::Question;
use crate::state::Values;

/// A thread at one moment, with values of the type `S`. See [`SnapshotOf`].
pub type StateSnapshot<S> = SnapshotOf<S, <S as Values>::Update>;

/// A task of a [`StateSnapshot`].
pub type TaskSnapshot<S> = SnapshotTask<<S as Values>::Update>;

/// A thread at one moment, with JSON values. A serialized snapshot contains only three options of each configuration:
/// the thread, the namespace and the checkpoint.
pub type DynSnapshot = SnapshotOf<Value, Value>;

/// A task of a [`DynSnapshot`].
pub type DynTask = SnapshotTask<Value>;

/// The state of a thread at one moment.
///
/// A superstep is *open* until the writes of its tasks are applied. A read without a checkpoint id returns the thread
/// as it is now. Then `values` includes the writes of the tasks that have finished in the open superstep, `next` leaves
/// out the nodes of these tasks, and `questions` contains only unanswered questions.
///
/// A history, or a read with a checkpoint id, returns the state at a checkpoint. Such a snapshot contains all tasks and
/// questions of the superstep that followed the checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotOf<V, W> {
    /// The state. In a [`DynSnapshot`], an object of the channels that have a value.
    pub values: V,
    /// The nodes that run next, one entry per task. An empty list does not mean that the thread has finished: use
    /// [`is_finished`](Self::is_finished).
    pub next: Vec<String>,
    /// The configuration that selects this checkpoint. If nothing is stored, it selects only the thread.
    #[serde(with = "address")]
    pub config: Config,
    /// The id of the checkpoint. `None` if nothing is stored.
    pub checkpoint: Option<Uuid>,
    /// The id of the previous checkpoint. `None` for the first checkpoint of a thread, or if nothing is stored.
    pub parent: Option<Uuid>,
    /// For a checkpoint of a subgraph: the ids of the checkpoints of all outer graphs at which the call of the subgraph
    /// began. The keys are the namespaces of the outer graphs. Empty for the root graph.
    pub parents: BTreeMap<String, Uuid>,
    /// The number of the superstep that ended with this checkpoint. The checkpoint of a thread's first input has the
    /// number −1. For a thread without a checkpoint, the number is −2.
    pub step: i64,
    /// The kind of operation that made the checkpoint. `None` if nothing is stored.
    pub source: Option<Source>,
    /// The metadata that the run's [`Config::metadata`] has added to the checkpoint.
    pub metadata: Map<String, Value>,
    /// The time at which the checkpoint was made. `None` if nothing is stored.
    pub created_at: Option<SystemTime>,
    /// All tasks of the superstep that follows the checkpoint, both finished and unfinished.
    pub tasks: Vec<SnapshotTask<W>>,
    /// The questions of the tasks. A read without a checkpoint id returns only the open questions.
    pub questions: Vec<Question>,
    /// The reason why this program cannot read the checkpoint. `None` for a readable checkpoint. Only a history
    /// contains unreadable snapshots. Their values are the initial ones, or null in a [`DynSnapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

impl<V, W> SnapshotOf<V, W> {
    /// Returns true if the thread has finished: no node runs next, and no result waits to be applied. Also returns true
    /// for a thread without a checkpoint.
    ///
    /// The list [`next`](Self::next) can be empty although the thread has not finished. If a process is killed after
    /// the last task of a superstep has ended, the results of the superstep are stored but not applied. A run with the
    /// input `()` applies them and continues.
    pub fn is_finished(&self) -> bool {
        self.next.is_empty() && self.tasks.is_empty() && self.unreadable.is_none()
    }
}

/// A task of the superstep that follows a checkpoint.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotTask<W> {
    /// The id of the task.
    pub id: Uuid,
    /// The name of the node.
    pub node: String,
    /// The number of the Send that started the task, counted from 0 among the Sends of the superstep. `None` if an edge
    /// started the task.
    pub send: Option<usize>,
    /// The writes of a finished task. `None` if the task has not finished. Also `None` for the only task of a
    /// superstep, because the engine stores the writes of such a task only in the next checkpoint.
    pub result: Option<W>,
    /// The error of a failed task. `None` if the task has not failed.
    pub error: Option<String>,
    /// The questions of the task. A read without a checkpoint id returns only the open questions.
    pub questions: Vec<Question>,
    /// The configuration that selects the checkpoints of the task's subgraph, for the
    /// [`state`](crate::graph::CompiledGraph::state) of the compiled subgraph. `None` if the node has no subgraph.
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
