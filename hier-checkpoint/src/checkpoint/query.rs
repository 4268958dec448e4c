//! Queries to savers.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value};
use uuid::Uuid;

use super::record::Checkpoint;

/// A query for checkpoints. A field that is `None` does not restrict the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListQuery {
    /// The thread.
    pub thread: Option<String>,
    /// The namespace. Empty for the root.
    pub namespace: Option<String>,
    /// Metadata that a checkpoint must have: `source` (by name), `step`, and the metadata of the run.
    pub filter: Map<String, Value>,
    /// Only checkpoints with a smaller id.
    pub before: Option<Uuid>,
    /// Maximum number of checkpoints.
    pub limit: Option<usize>,
}

impl ListQuery {
    /// Selects all checkpoints of a thread's root graph.
    pub fn thread(thread: impl Into<String>) -> Self {
        Self { thread: Some(thread.into()), namespace: Some(String::new()), ..Self::default() }
    }

    /// Returns true if the query matches the checkpoint.
    pub fn wants(&self, checkpoint: &Checkpoint) -> bool {
        self.before.is_none_or(|before| checkpoint.id < before) && self.matches(checkpoint)
    }

    /// Returns true if a checkpoint has the metadata of the filter. Savers filter with this function, so that no key or
    /// value of a filter becomes part of a statement.
    pub fn matches(&self, checkpoint: &Checkpoint) -> bool {
        self.filter.iter().all(|(key, wanted)| match (key.as_str(), checkpoint.metadata.get(key)) {
            ("source", _) => wanted == checkpoint.source.name(),
            ("step", _) => *wanted == checkpoint.step,
            (_, found) => found == Some(wanted),
        })
    }
}

/// A checkpoint in a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Listed {
    /// The thread.
    pub thread: Arc<str>,
    /// The namespace.
    pub namespace: Arc<str>,
    /// The checkpoint.
    pub checkpoint: Checkpoint,
}

impl Listed {
    /// Selects a checkpoint of this thread and namespace.
    pub fn new(thread: impl Into<Arc<str>>, namespace: impl Into<Arc<str>>, checkpoint: Checkpoint) -> Self {
        Self { thread: thread.into(), namespace: namespace.into(), checkpoint }
    }
}

/// A thread in a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThreadInfo {
    /// The thread.
    pub thread: Arc<str>,
    /// The number of checkpoints in all namespaces.
    pub checkpoints: u64,
    /// The latest checkpoint of the root graph, if there is one.
    pub latest: Option<Checkpoint>,
    /// The holder of its lease, if there is one.
    pub holder: Option<String>,
    /// The time from which a sweep deletes it.
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
    /// The threads to prune. None for all.
    pub threads: Option<Vec<String>>,
    /// The checkpoints that stay.
    pub strategy: Strategy,
    /// Selects only checkpoints that are older than this.
    pub older_than: Option<Duration>,
}

/// The checkpoints that a prune leaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// The latest checkpoint of each thread and namespace.
    #[default]
    KeepLatest,
    /// The given number of latest checkpoints of each thread and namespace; 0 is the same as [`Strategy::Delete`].
    Keep(usize),
    /// No checkpoint.
    Delete,
}

impl Strategy {
    /// Returns the number of checkpoints that stay in each thread and namespace.
    pub const fn kept(self) -> usize {
        match self {
            Self::KeepLatest => 1,
            Self::Keep(count) => count,
            Self::Delete => 0,
        }
    }
}

impl Checkpoint {
    /// Returns the time of creation, which is part of the id.
    pub fn created_at(&self) -> SystemTime {
        let time = self.id.get_timestamp().map(|time| time.to_unix()).unwrap_or_default();
        UNIX_EPOCH + Duration::new(time.0, time.1)
    }
}
