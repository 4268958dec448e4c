//! Why a store of runs could not do what it was asked for.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::checkpoint::SaverError;

/// Why a store of runs could not do what it was asked for.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// The database failed, or the lease was lost.
    #[error(transparent)]
    Saver(#[from] SaverError),
    /// There is no such thread.
    #[error("there is no thread `{thread}`: create it first, or let the run create it (`if_not_exists: create`)")]
    NoThread {
        /// Its id.
        thread: String,
    },
    /// There is no such run.
    #[error("there is no run `{run}`")]
    NoRun {
        /// Its id.
        run: Uuid,
    },
    /// There is no such document.
    #[error("there is no {kind} `{id}`")]
    NoDocument {
        /// What it would be: `assistant`, `cron`.
        kind: String,
        /// Its id.
        id: String,
    },
    /// It is there already.
    #[error("{kind} `{id}` exists already: give another id, or say that nothing is to be done then")]
    Exists {
        /// What it is: `thread`, `run`, `assistant`, `cron`.
        kind: &'static str,
        /// Its id.
        id: String,
    },
    /// Somebody else has changed it since it was read.
    #[error("{kind} `{id}` was changed by somebody else meanwhile: read it again")]
    Stale {
        /// What it is: `cron`, `webhook`.
        kind: String,
        /// Its id.
        id: String,
    },
    /// The thread has a run that has not ended, and the new one asked to be rejected then.
    #[error(
        "thread `{thread}` is already running run `{run}`: wait for it, or choose another multitask strategy \
         (`enqueue`, `interrupt`, `rollback`)"
    )]
    Busy {
        /// The thread.
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
    /// What was asked for makes no sense.
    #[error("{0}")]
    Invalid(String),
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The kind of the error, a name that programs can match: that of the error's type, where a node failed with one
    /// (`NodeError::name`); `NodeError`, `GraphRecursionError`.
    pub error: String,
    /// What people read.
    pub message: String,
    /// Where it happened, if a node failed: ``node `assess` of graph `review` ``.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(error: impl Into<String>, message: impl Into<String>) -> Self {
        Self { error: error.into(), message: message.into(), place: None }
    }

    /// The same failure, which happened here.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }
}
