//! An error of a store of runs.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use hier_checkpoint::checkpoint::SaverError;

/// An error of a store of runs.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// The database failed, or the lease was lost.
    #[error(transparent)]
    Saver(#[from] SaverError),
    /// The thread does not exist.
    #[error("there is no thread `{thread}`: create it first, or let the run create it (`if_not_exists: create`)")]
    NoThread {
        /// Its id.
        thread: String,
    },
    /// The run does not exist.
    #[error("there is no run `{run}`")]
    NoRun {
        /// Its id.
        run: Uuid,
    },
    /// The document does not exist.
    #[error("there is no {kind} `{id}`")]
    NoDocument {
        /// The kind: `assistant`, `cron`.
        kind: String,
        /// Its id.
        id: String,
    },
    /// The object already exists.
    #[error("{kind} `{id}` exists already: choose another id, or set `if_exists` to do nothing")]
    Exists {
        /// The kind: `thread`, `run`, `assistant`, `cron`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// The document was changed since it was read.
    #[error("{kind} `{id}` was changed meanwhile: read it again")]
    Stale {
        /// The kind: `cron`, `webhook`.
        kind: String,
        /// Its id.
        id: String,
    },
    /// The thread has a run that has not ended, and the strategy of the new run is to reject.
    #[error(
        "thread `{thread}` is already running run `{run}`: wait for it, or choose another multitask strategy \
         (`enqueue`, `interrupt`, `rollback`)"
    )]
    Busy {
        /// The id of the thread.
        thread: String,
        /// The run that is in the way.
        run: Uuid,
    },
    /// The run has not ended.
    #[error("run `{run}` has not ended: cancel it first, then delete it")]
    Live {
        /// The run.
        run: Uuid,
    },
    /// The request is not valid.
    #[error("{0}")]
    Invalid(String),
}

/// The failure of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of the error, a name that programs can match: that of the error's type, where a node failed with one
    /// (`NodeError::name`); `NodeError`, `GraphRecursionError`.
    pub error: String,
    /// The readable message.
    pub message: String,
    /// The place where it happened, if a node failed: ``node `assess` of graph `review` ``.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Failure {
    /// Creates a failure of this kind.
    pub fn new(error: impl Into<String>, message: impl Into<String>) -> Self {
        Self { error: error.into(), message: message.into(), place: None }
    }

    /// Sets the place where it happened.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }
}
