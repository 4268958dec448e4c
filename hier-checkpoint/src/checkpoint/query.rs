use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use uuid::Uuid;

use super::record::Checkpoint;

/// A query for checkpoints. A field that is `None` does not restrict the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListQuery {
    /// The id of the thread.
    pub thread: Option<String>,
    /// The namespace. The root graph has an empty namespace.
    pub namespace: Option<String>,
    /// The metadata that a checkpoint must have. The filter can contain the keys of the run's metadata, and the keys
    /// `source` (the name of a [`Source`](super::Source)) and `step` (a number).
    pub filter: Map<String, Value>,
    /// The id of a checkpoint. Selects only checkpoints with a smaller id, which are older.
    pub before: Option<Uuid>,
    /// The maximum number of checkpoints.
    pub limit: Option<usize>,
}

impl ListQuery {
    /// Creates a query for all checkpoints of the root graph of a thread.
    pub fn thread(thread: impl Into<String>) -> Self {
        Self { thread: Some(thread.into()), namespace: Some(String::new()), ..Self::default() }
    }

    /// Returns true if the checkpoint has the metadata in the filter and, if [`before`](Self::before) is set, a smaller
    /// id. Does not check the thread and the namespace.
    pub fn wants(&self, checkpoint: &Checkpoint) -> bool {
        self.before.is_none_or(|before| checkpoint.id < before) && self.matches(checkpoint)
    }

    /// Returns true if the checkpoint has the metadata in the [`filter`](Self::filter). Savers call this method for
    /// each checkpoint, so that a filter never becomes part of an SQL statement.
    pub fn matches(&self, checkpoint: &Checkpoint) -> bool {
        self.filter.iter().all(|(key, wanted)| match (key.as_str(), checkpoint.metadata.get(key)) {
            ("source", _) => wanted == checkpoint.source.name(),
            ("step", _) => *wanted == checkpoint.step,
            (_, found) => found == Some(wanted),
        })
    }
}

/// A checkpoint in the result of [`Checkpointer::list`](super::Checkpointer::list).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Listed {
    /// The id of the thread.
    pub thread: Arc<str>,
    /// The namespace.
    pub namespace: Arc<str>,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
}

impl Listed {
    /// Creates a list entry.
    pub fn new(thread: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, checkpoint: Checkpoint) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), checkpoint }
    }
}

/// A thread in the result of [`ThreadAdmin::threads`](super::ThreadAdmin::threads).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// The id of the thread.
    pub thread: Arc<str>,
    /// The number of checkpoints in all namespaces.
    pub checkpoints: u64,
    /// The latest checkpoint of the root graph. `None` if the root graph has no checkpoint.
    pub latest: Option<Checkpoint>,
    /// The name of the run that holds the lease. `None` if no run holds it.
    pub holder: Option<String>,
    /// The time after which a sweep deletes the thread. `None` if the thread does not expire.
    pub expires: Option<SystemTime>,
}

impl ThreadInfo {
    /// Creates a thread without checkpoints or a holder. Set the other fields afterwards.
    pub fn new(thread: impl Into<Arc<str>>) -> Self {
        Self { thread: thread.into(), checkpoints: 0, latest: None, holder: None, expires: None }
    }
}

/// A request to delete checkpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prune {
    /// The ids of the threads to prune. The prune includes the threads of their background subagents. `None` prunes all
    /// threads.
    pub threads: Option<Vec<String>>,
    /// The checkpoints to keep.
    pub strategy: Strategy,
    /// The minimum age of the checkpoints to delete. `None` for any age.
    pub older_than: Option<Duration>,
}

/// The checkpoints that a prune keeps, with those of subgraphs that they need. If the graph is not finished and its
/// runs have ids (`Config::run_id`), all but `Delete` also keep the newest ones before the latest run for a rollback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// Keeps the latest checkpoint of each thread and namespace.
    #[default]
    KeepLatest,
    /// Keeps this number of the latest checkpoints of each thread and namespace. `Keep(0)` has the effect of
    /// [`Strategy::Delete`].
    Keep(usize),
    /// Keeps no checkpoint.
    Delete,
}

impl Strategy {
    /// Returns the number of checkpoints to keep in each thread and namespace.
    pub const fn kept(self) -> usize {
        match self {
            Self::KeepLatest => 1,
            Self::Keep(count) => count,
            Self::Delete => 0,
        }
    }
}

impl Checkpoint {
    /// Returns the time at which the checkpoint was created. The id of the checkpoint contains this time.
    pub fn created_at(&self) -> SystemTime {
        let time = self.id.get_timestamp().map(|time| time.to_unix()).unwrap_or_default();
        UNIX_EPOCH + Duration::new(time.0, time.1)
    }
}
