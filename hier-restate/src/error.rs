//! What can go wrong, as clients see it.

use hier_core::RunError;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a run on the cluster failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct Failure {
    /// The name of the error for programs: `NodeError`, `GraphRecursionError`, `InvalidUpdateError`, `EmptyInputError`, `AnswerError`,
    /// `Cancelled`, `Busy`, `Superseded`, `PayloadTooLarge`, `RunError`, …
    pub kind: String,
    /// The whole message, with the graphs and nodes on the way.
    pub message: String,
    /// The message of the innermost error: what the node said.
    pub cause: String,
    /// What the worker adds ([`Endpoint::describe`](crate::Endpoint::describe)).
    pub details: Value,
}

impl Failure {
    pub(crate) fn new(kind: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind: kind.to_owned(), cause: message.clone(), message, details: Value::Null }
    }

    pub(crate) fn of(error: &RunError) -> Self {
        let root = error.root();
        let cause = match root {
            RunError::Node { error, .. } => error.to_string(),
            other => other.to_string(),
        };
        Self { kind: root.name().to_owned(), message: error.to_string(), cause, details: Value::Null }
    }
}

/// Why a call of a [`Client`](crate::Client) or an [`Endpoint`](crate::Endpoint) failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run, or what was asked of the thread, failed.
    #[error(transparent)]
    Run(#[from] Failure),
    /// Restate cannot be reached, or refuses the call.
    #[error("Restate at `{place}`: {reason}")]
    Restate {
        /// The URL.
        place: String,
        /// Why.
        reason: String,
    },
    /// What came back cannot be read.
    #[error(
        "what came from `{place}` cannot be read: {reason}; are the client and the workers of the same version of hier?"
    )]
    Unreadable {
        /// The URL.
        place: String,
        /// Why.
        reason: String,
    },
    /// What was given cannot be sent.
    #[error("{0}")]
    Input(String),
    /// The worker cannot listen.
    #[error("a worker cannot listen at `{address}`: {error}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        error: std::io::Error,
    },
}
