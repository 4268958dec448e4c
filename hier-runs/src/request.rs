//! The request of a run.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::options::{Durability, RunOptions, StreamMode};

/// The request of a run, as the caller sent it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Request {
    /// The input. If it is null and `command` is `None`, the run continues where the thread stopped.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// A command instead of the input: `{"resume": …, "update": …, "goto": …}`. `None` if the run has no command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Value>,
    /// The ids of the questions that the command answers. An answer without an id is the answer to the only question in
    /// this list. If a run that has not ended has one of these ids, the new run is refused with
    /// [`RunsError::Answered`](super::RunsError::Answered). If all runs of the thread have ended and one of these
    /// questions is not open, the new run is refused with [`RunsError::Stale`](super::RunsError::Stale), unless the new
    /// run starts from a checkpoint.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<String>,
    /// The configuration: `{"recursion_limit": …, "configurable": {…}, "tags": […]}`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// The value from which the worker creates the context of the run.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// The stream modes whose events the worker stores.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stream_modes: Vec<StreamMode>,
    /// True to store the events of subgraphs.
    pub stream_subgraphs: bool,
    /// The nodes before which the run stops. `*` means all nodes. Defaults to the breakpoints of the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_before: Option<Vec<String>>,
    /// The nodes after which the run stops. `*` means all nodes. Defaults to the breakpoints of the graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_after: Option<Vec<String>>,
    /// The time at which checkpoints are stored.
    pub durability: Durability,
    /// The checkpoint from which the run starts. Defaults to the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Uuid>,
    /// The namespace of the checkpoint in `checkpoint`, or of the subgraph call that the run continues. Empty for the
    /// root graph.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checkpoint_ns: String,
    /// The maximum duration of the run in milliseconds. A run that exceeds it ends with
    /// [`RunStatus::Timeout`](super::RunStatus::Timeout). `None` means that the duration is not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The URL to which a worker sends a message when the run has ended. See [`Webhooks`](super::Webhooks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The options with which a client reads the events of the run.
    pub options: RunOptions,
    /// The names of the graph's secret channels. The server removes these channels from responses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// True for a run that continues a detached subagent on its background thread. Such a run has no input.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub detached: bool,
}

impl Request {
    /// Creates a request with this input.
    pub fn input(input: Value) -> Self {
        Self { input, ..Self::default() }
    }

    /// Creates a request with this command.
    pub fn command(command: Value) -> Self {
        Self { command: Some(command), ..Self::default() }
    }

    /// Removes the input, the command and the start of a request. A run of this request continues its thread.
    pub fn continue_thread(&mut self) {
        (self.input, self.command, self.checkpoint) = (Value::Null, None, None);
        self.answers.clear();
        self.checkpoint_ns.clear();
    }
}
