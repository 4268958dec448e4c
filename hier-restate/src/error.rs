//! The errors of clients and workers.

use hier_core::RunError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The failure of a run on the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct RunFailure {
    /// The name of the error for programs: `NodeError`, `GraphRecursionError`, `InvalidUpdateError`, `EmptyInputError`,
    /// `AnswerError`, `Cancelled`, `Busy`, `Superseded`, `PayloadTooLarge`, `RunError`, …
    pub kind: String,
    /// The whole message, including the graphs and nodes on the way.
    pub message: String,
    /// The message of the innermost error, such as that of the node.
    pub cause: String,
    /// Details from the worker: see [`Endpoint::describe`](crate::Endpoint::describe).
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

/// The error of a call of a [`Client`](crate::Client) or an [`Endpoint`](crate::Endpoint).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run or the request to the thread failed.
    #[error(transparent)]
    Run(#[from] RunFailure),
    /// Restate cannot be reached or rejects the call.
    #[error("Restate at `{place}`: {reason}")]
    Restate {
        /// The URL.
        place: String,
        /// The reason.
        reason: String,
    },
    /// A response cannot be read.
    #[error(
        "cannot read the response of `{place}`: {reason}; check that the client and the workers have the same version of hier"
    )]
    Unreadable {
        /// The URL.
        place: String,
        /// The reason.
        reason: String,
    },
    /// An input cannot be sent.
    #[error("{0}")]
    Input(String),
    /// The worker cannot listen.
    #[error("cannot listen at `{address}`: {error}")]
    Listen {
        /// The address.
        address: String,
        /// The cause.
        error: std::io::Error,
    },
}
