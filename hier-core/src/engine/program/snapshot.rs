//! The states of threads as callers read them.

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::checkpoint::Source;
use crate::config::Config;
use crate::question::Question;
use crate::state::Values;

/// A thread at one moment, with the state `S`: see [`SnapshotOf`].
pub type StateSnapshot<S> = SnapshotOf<S, <S as Values>::Update>;

/// A task of a [`StateSnapshot`].
pub type TaskSnapshot<S> = SnapshotTask<<S as Values>::Update>;

/// A thread at one moment, with JSON values. Configurations are serialized as thread, namespace and checkpoint.
pub type DynSnapshot = SnapshotOf<Value, Value>;

/// A task of a [`DynSnapshot`].
pub type DynTask = SnapshotTask<Value>;

/// A thread at one moment.
///
/// The *live* view is that of the latest checkpoint, without an id in the configuration. It shows the results of the open step, and only
/// tasks and questions that are still open. The *record* is that of a checkpoint by its id, and of a history. It shows the state before the
/// step, and all of its tasks with their results.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotOf<V, W> {
    /// The state. As JSON: the channels with a value, by name.
    pub values: V,
    /// The nodes that run next, with one entry per task. Empty if the thread has finished. In the live view it is also empty if all tasks
    /// of the open step have finished and are not applied yet. To find out if the thread has finished, use
    /// [`is_finished`](Self::is_finished).
    pub next: Vec<String>,
    /// The configuration that addresses this checkpoint, or the thread if nothing is stored.
    #[serde(with = "address")]
    pub config: Config,
    /// The checkpoint. None if nothing is stored.
    pub checkpoint: Option<Uuid>,
    /// The id of the previous checkpoint.
    pub parent: Option<Uuid>,
    /// The checkpoints of the outer graphs in whose steps this one was made, by their namespaces. Empty for the root graph.
    pub parents: BTreeMap<String, Uuid>,
    /// The superstep. The first input has −1.
    pub step: i64,
    /// The kind of operation that made the checkpoint.
    pub source: Option<Source>,
    /// The metadata of the run's configuration.
    pub metadata: Map<String, Value>,
    /// The time at which the checkpoint was made.
    pub created_at: Option<SystemTime>,
    /// The tasks of the step.
    pub tasks: Vec<SnapshotTask<W>>,
    /// The open questions in the live view, and the last questions in a record.
    pub questions: Vec<Question>,
    /// The reason why this program cannot read the checkpoint. Only set in a history, with the initial values of the graph or without
    /// JSON values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<String>,
}

impl<V, W> SnapshotOf<V, W> {
    /// Returns true if the thread has finished: no node runs next, and no result of the open step waits to be applied. Also true if nothing is
    /// stored.
    ///
    /// An empty [`next`](Self::next) is not enough. If a process is killed after the last task of a step, the results are stored but not
    /// applied. A run with `()` then continues with them.
    pub fn is_finished(&self) -> bool {
        self.next.is_empty() && self.tasks.is_empty() && self.unreadable.is_none()
    }
}

/// A task of an open step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SnapshotTask<W> {
    /// The id of the task.
    pub id: Uuid,
    /// The name of the node.
    pub node: String,
    /// The number of the Send that started the task. None if an edge started it.
    pub send: Option<usize>,
    /// The writes of a finished task. A finished task that ran alone is part of the next checkpoint and has no result here.
    pub result: Option<W>,
    /// The error of a failed task.
    pub error: Option<String>,
    /// The questions of the task, open or answered.
    pub questions: Vec<Question>,
    /// The configuration that addresses the checkpoints of the graph that the node runs, for that graph's own
    /// [`state`](crate::graph::CompiledGraph::state).
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
