//! The errors of clients and workers.

use hier_core::RunError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The failure of a run or of a request on the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct RunFailure {
    /// The kind of the error, as a name that programs can compare. The most frequent kinds are `NodeError`,
    /// `GraphRecursionError`, `InvalidUpdateError`, `EmptyInputError`, `AnswerError`, `Cancelled`, `Busy`,
    /// `Superseded`, `PayloadTooLarge` and `RunError`.
    pub kind: String,
    /// The full message, which also names the graphs and nodes in which the error occurred.
    pub message: String,
    /// The message of the innermost error, such as the error that a node returned.
    pub cause: String,
    /// Details that the worker adds with [`Endpoint::describe`](crate::Endpoint::describe). Null if it adds none.
    pub details: Value,
}

impl RunFailure {
    pub(crate) fn new(kind: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind: kind.to_owned(), cause: message.clone(), message, details: Value::Null }
    }

    pub(crate) fn from_run_error(error: &RunError) -> Self {
        let root = error.root();
        let cause = match root {
            RunError::Node { error, .. } => error.to_string(),
            other => other.to_string(),
        };
        Self { kind: root.name().to_owned(), message: error.to_string(), cause, details: Value::Null }
    }
}

/// An error of a [`Client`](crate::Client) or an [`Endpoint`](crate::Endpoint).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run failed, or the cluster refused the request to the thread.
    #[error(transparent)]
    Run(#[from] RunFailure),
    /// The client cannot reach Restate, or Restate rejects the call.
    #[error("Restate at `{place}`: {reason}")]
    Restate {
        /// The URL.
        place: String,
        /// The reason.
        reason: String,
    },
    /// The client cannot read a response.
    #[error(
        "cannot read the response of `{place}`: {reason}; check that the client and the workers have the same version of hier"
    )]
    Unreadable {
        /// The URL.
        place: String,
        /// The reason.
        reason: String,
    },
    /// The call is invalid, for example because it names no thread.
    #[error("{0}")]
    Input(String),
    /// The worker or the [`Hub`](crate::Hub) cannot listen at the address.
    #[error("cannot listen at `{address}`: {error}")]
    Listen {
        /// The address at which to listen.
        address: String,
        /// The cause.
        error: std::io::Error,
    },
}
