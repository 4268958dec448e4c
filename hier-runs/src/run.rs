//! A run as a row, and its request.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::document::Document;
use super::error::Failure;
use super::event::NewEvent;
use super::options::{Durability, OnDisconnect, RunOptions, StreamMode};
use super::status::RunStatus;
use super::thread::{NewThread, ThreadIndex, ThreadIs};
use hier_checkpoint::checkpoint::{Lease, SideEffects, WriteRecord};

/// The treatment of a new run while its thread has one that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultitaskStrategy {
    /// Rejects the new run.
    Reject,
    /// Queues the new run behind earlier runs.
    #[default]
    Enqueue,
    /// Cancels earlier runs. The store keeps everything that they stored.
    Interrupt,
    /// Cancels earlier runs and deletes them with everything that they stored.
    Rollback,
}

impl MultitaskStrategy {
    /// Returns true if earlier runs are not changed.
    pub const fn spares_others(self) -> bool {
        matches!(self, Self::Reject | Self::Enqueue)
    }
}

/// The way in which a run is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancel {
    /// Ends the run as [`RunStatus::Interrupted`]. The store keeps everything that it stored.
    Interrupt,
    /// Deletes the run with its checkpoints.
    Rollback,
}

/// The request of a run, as the caller gave it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Request {
    /// The input. Null continues with the stored state.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// A command, `{"resume": …, "update": …, "goto": …}`; it wins over an input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<Value>,
    /// The configuration: `{"recursion_limit": …, "configurable": {…}, "tags": […]}`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
    /// The run's context, from which the worker makes the graph's context.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub context: Value,
    /// The stream modes whose events are stored.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stream_modes: Vec<StreamMode>,
    /// True to store the events of subgraphs.
    pub stream_subgraphs: bool,
    /// Nodes before which the run stops; `*` is every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_before: Option<Vec<String>>,
    /// Nodes after which the run stops; `*` is every node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interrupt_after: Option<Vec<String>>,
    /// The time at which checkpoints are stored.
    pub durability: Durability,
    /// The checkpoint to begin from, instead of the latest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<Uuid>,
    /// The namespace of that checkpoint, or of the graph whose open call the run continues. Empty for the root graph.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checkpoint_ns: String,
    /// Maximum duration of the run, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The address that receives the end of the run: see [`Webhooks`](super::Webhooks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Options with which clients follow the run.
    pub options: RunOptions,
    /// The names of the graph's secret channels, which responses leave out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

impl Request {
    /// Creates a run with this input.
    pub fn input(input: Value) -> Self {
        Self { input, ..Self::default() }
    }

    /// Creates a run with this command.
    pub fn command(command: Value) -> Self {
        Self { command: Some(command), ..Self::default() }
    }
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// The id.
    pub id: Uuid,
    /// The id of the thread.
    pub thread: String,
    /// The graph, by the name under which workers know it.
    pub graph: String,
    /// The assistant, if it was started with one.
    pub assistant: Option<String>,
    /// The status.
    pub status: RunStatus,
    /// The request.
    pub request: Request,
    /// The metadata that callers wrote.
    pub metadata: Map<String, Value>,
    /// The strategy towards earlier runs of the thread.
    pub multitask_strategy: MultitaskStrategy,
    /// The treatment when its client disconnects.
    pub on_disconnect: OnDisconnect,
    /// The number of claims.
    pub attempts: u32,
    /// True if the input is stored. The next attempt then continues the thread without it.
    #[serde(default)]
    pub entered: bool,
    /// True if the run has changed more than its own checkpoints. The records that it has overwritten and taken are kept until it ends.
    #[serde(default)]
    pub undoable: bool,
    /// Set once a caller has requested its cancellation.
    pub cancel: Option<Cancel>,
    /// True if the thread is deleted when the run has ended.
    pub temporary: bool,
    /// The time at which it was added.
    pub created: SystemTime,
    /// The time of its last change.
    pub updated: SystemTime,
    /// The time before which the run does not begin.
    pub starts: SystemTime,
    /// The time of its first claim.
    pub started: Option<SystemTime>,
    /// The time of its end.
    pub ended: Option<SystemTime>,
    /// The failure.
    pub error: Option<Failure>,
    /// The output of the graph, and its questions.
    pub output: Option<Value>,
    /// A number that grows with each run of the store.
    pub number: u64,
}

impl Run {
    /// Returns true if the run has stored something that a rollback has to undo.
    pub(super) const fn has_stored(&self) -> bool {
        self.entered || self.undoable
    }
}

/// A new run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NewRun {
    /// The id. Defaults to a random one.
    pub id: Option<Uuid>,
    /// The id of the thread.
    pub thread: String,
    /// The thread to create if it does not exist. None returns [`RunsError::NoThread`](super::RunsError::NoThread) in
    /// that case.
    pub new_thread: Option<NewThread>,
    /// The thread must have this key. Otherwise the call fails with [`NoThread`](super::RunsError::NoThread): an id may outlive its thread.
    pub on: Option<ThreadIs>,
    /// The name of the graph.
    pub graph: String,
    /// The assistant.
    pub assistant: Option<String>,
    /// The request.
    pub request: Request,
    /// The metadata.
    pub metadata: Map<String, Value>,
    /// The treatment if the thread has a run that has not ended.
    pub multitask_strategy: MultitaskStrategy,
    /// The treatment when its client disconnects.
    pub on_disconnect: OnDisconnect,
    /// The delay after which the run begins.
    pub after: Duration,
    /// True to delete the thread when the run has ended.
    pub temporary: bool,
    /// A document that is stored in the same transaction, in the place of the one with its revision. The run is added only if
    /// that is the latest; else [`RunsError::Stale`](super::RunsError::Stale). So the run of a cron is added once.
    pub document: Option<Document>,
}

impl NewRun {
    /// Creates a run of a graph on a thread.
    pub fn new(thread: impl Into<String>, graph: impl Into<String>, request: Request) -> Self {
        Self {
            id: None,
            thread: thread.into(),
            new_thread: None,
            on: None,
            graph: graph.into(),
            assistant: None,
            request,
            metadata: Map::new(),
            multitask_strategy: MultitaskStrategy::default(),
            on_disconnect: OnDisconnect::default(),
            after: Duration::ZERO,
            temporary: false,
            document: None,
        }
    }

    /// Makes the thread if it is not there.
    #[must_use]
    pub fn create_thread(mut self) -> Self {
        self.new_thread = Some(NewThread::new(self.thread.clone()));
        self
    }
}

/// A worker's claim on a run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunClaim {
    /// The claimant, as readable text.
    pub holder: String,
    /// The time until the lease expires, unless it is renewed.
    pub lasts: Duration,
    /// The graphs of the worker. None accepts any graph. With [`CANCELLED`], also cancelled runs of other graphs.
    pub graphs: Option<Vec<String>>,
}

/// The name by which claims ask for cancelled runs of graphs that no worker may have any more.
pub const CANCELLED: &str = "";

impl RunClaim {
    /// Creates a claim on a run of one of these graphs. Also on a cancelled run that has waited for a worker with its graph for
    /// some seconds: ending a run takes no graph.
    pub fn new<G: Into<String>>(
        holder: impl Into<String>,
        lasts: Duration,
        graphs: impl IntoIterator<Item = G>,
    ) -> Self {
        let graphs = graphs.into_iter().map(Into::into).chain([CANCELLED.to_owned()]);
        Self { holder: holder.into(), lasts, graphs: Some(graphs.collect()) }
    }
}

/// A run that was claimed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Claimed {
    /// The run.
    pub run: Run,
    /// The right to write its thread.
    pub lease: Lease,
}

impl Claimed {
    /// Creates a claimed run from the run and the lease of its thread.
    pub const fn new(run: Run, lease: Lease) -> Self {
        Self { run, lease }
    }
}

/// A run that was added, and its claim if it was claimed at once.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedRun {
    /// The run as it was added.
    pub run: Run,
    /// The claim.
    pub claimed: Option<Claimed>,
}

/// The end of a run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunEnd {
    /// The run.
    pub run: Uuid,
    /// Its status.
    pub status: RunStatus,
    /// The failure.
    pub error: Option<Failure>,
    /// The output.
    pub output: Option<Value>,
    /// True to delete the run with its checkpoints.
    pub rollback: bool,
}

impl RunEnd {
    /// Creates the end of a run with this status.
    pub const fn new(run: Uuid, status: RunStatus) -> Self {
        Self { run, status, error: None, output: None, rollback: false }
    }

    /// Creates the end of a failed run.
    pub fn failed(run: Uuid, error: Failure) -> Self {
        Self::new(run, RunStatus::Error).because(error)
    }

    /// Sets the reason why the run ended early.
    #[must_use]
    pub fn because(mut self, error: Failure) -> Self {
        self.error = Some(error);
        self
    }

    /// Sets the output.
    #[must_use]
    pub fn output(mut self, output: Value) -> Self {
        self.output = Some(output);
        self
    }

    /// Marks the run as rolled back: it is deleted with its checkpoints.
    pub fn rolled_back(run: Uuid) -> Self {
        Self { rollback: true, ..Self::new(run, RunStatus::Interrupted) }
    }
}

/// Everything that one transaction stores for a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunCommit {
    /// Checkpoints, and what tasks have done.
    pub records: Vec<WriteRecord>,
    /// Changes of the inbox and the timer.
    pub also: SideEffects,
    /// The events.
    pub events: Vec<NewEvent>,
    /// The new entry in the index of threads.
    pub index: Option<ThreadIndex>,
    /// A run to undo: its checkpoints are deleted, pending writes at other runs' checkpoints are restored, and the messages that it took
    /// are back in the inbox. The run has not ended and keeps its lease.
    pub undo: Option<Uuid>,
    /// The run has ended; the lease is released.
    pub end: Option<RunEnd>,
}

impl RunCommit {
    /// Creates a commit with records only.
    pub fn records(records: Vec<WriteRecord>) -> Self {
        Self { records, ..Self::default() }
    }

    /// Creates a commit with events only.
    pub fn events(events: Vec<NewEvent>) -> Self {
        Self { events, ..Self::default() }
    }

    /// Sets the new entry in the index of threads.
    #[must_use]
    pub fn index(mut self, index: ThreadIndex) -> Self {
        self.index = Some(index);
        self
    }

    /// Sets the end of the run.
    #[must_use]
    pub fn end(mut self, end: RunEnd) -> Self {
        self.end = Some(end);
        self
    }
}
