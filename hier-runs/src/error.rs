use serde::{Deserialize, Serialize};
use uuid::Uuid;

use hier_checkpoint::checkpoint::SaverError;

/// An error of a run store.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunsError {
    /// The database failed, or another claim has taken over the thread.
    #[error(transparent)]
    Saver(#[from] SaverError),
    /// The thread does not exist.
    #[error("there is no thread `{thread}`: create it first, or let the run create it (`if_not_exists: create`)")]
    NoThread {
        /// The id of the thread.
        thread: String,
    },
    /// The run does not exist.
    #[error("there is no run `{run}`")]
    NoRun {
        /// The id of the run.
        run: Uuid,
    },
    /// The document does not exist.
    #[error("there is no {kind} `{id}`")]
    NoDocument {
        /// The kind of document, such as `assistant`.
        kind: String,
        /// The id of the document.
        id: String,
    },
    /// A thread, run, assistant or cron with this id already exists.
    #[error("{kind} `{id}` already exists: choose another id, or set `if_exists` to `do_nothing`")]
    Exists {
        /// The kind: `thread`, `run`, `assistant` or `cron`.
        kind: &'static str,
        /// The id that exists.
        id: String,
    },
    /// The stored document has another revision than the caller has read, because another caller has changed it. With
    /// the kind `thread`, the run answers a question that is no longer open.
    #[error("another caller has changed {kind} `{id}`: read it again, and repeat the change")]
    Stale {
        /// The kind of document, such as `cron`, or `thread`.
        kind: String,
        /// The id of the document or the thread.
        id: String,
    },
    /// The thread has a run that has not ended, and the strategy of the new run is
    /// [`MultitaskStrategy::Reject`](super::MultitaskStrategy::Reject).
    #[error(
        "thread `{thread}` is already executing run `{run}`: wait for its end, or choose another multitask strategy \
         (`enqueue`, `interrupt`, `rollback`)"
    )]
    Busy {
        /// The id of the thread.
        thread: String,
        /// The id of the run that has not ended.
        run: Uuid,
    },
    /// A run that has not ended answers a question that the new run [answers](super::Request::answers), too.
    #[error(
        "run `{run}` of thread `{thread}` already answers question `{question}`: wait for its end, or replace its answer \
         (multitask strategy `rollback`)"
    )]
    Answered {
        /// The id of the thread.
        thread: String,
        /// The id of the question.
        question: String,
        /// The id of the run that has not ended.
        run: Uuid,
    },
    /// With the new run, the requests of the thread's runs that have not ended would exceed the limit
    /// [`QUEUE_BYTES`](super::QUEUE_BYTES).
    #[error(
        "the runs of thread `{thread}` that have not ended would contain more than {limit} bytes of requests: wait until \
         one of them has ended, cancel one, or send a smaller input"
    )]
    QueueFull {
        /// The id of the thread.
        thread: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The run has not ended.
    #[error("run `{run}` has not ended: cancel it first, then delete it")]
    Live {
        /// The id of the run.
        run: Uuid,
    },
    /// A caller has cancelled the run with [`Cancel::Rollback`](super::Cancel::Rollback), so a commit cannot end the run
    /// in another way.
    #[error("run `{run}` is cancelled and must be rolled back")]
    Cancelled {
        /// The id of the run.
        run: Uuid,
    },
    /// The request is invalid. The string is the reason.
    #[error("{0}")]
    Invalid(String),
}

/// The failure of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Failure {
    /// The name of the error, for programs that match on it. For the error of a node, this is the name of its type
    /// (`NodeError::name`). Other errors have names such as `GraphRecursionError`.
    pub error: String,
    /// The error message.
    pub message: String,
    /// The node that has failed, as a text such as ``node `assess` of graph `review` ``. `None` if the failure is not
    /// the error of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

impl Failure {
    /// Creates a failure with this error name.
    pub fn new(error: impl Into<String>, message: impl Into<String>) -> Self {
        Self { error: error.into(), message: message.into(), place: None }
    }

    /// Sets the [`place`](Self::place) of the failure.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.place = Some(place.into());
        self
    }
}
