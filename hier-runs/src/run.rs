use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::document::Document;
use super::error::Failure;
use super::event::NewEvent;
use super::log_event::serialized_bytes;
use super::options::OnDisconnect;
use super::request::Request;
use super::status::RunStatus;
use super::thread::{NewThread, ThreadIndex, ThreadIs};
use hier_checkpoint::checkpoint::{Lease, SideEffects, WriteRecord};

/// The rule for a new run on a thread with an earlier run that has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MultitaskStrategy {
    /// Refuses the new run.
    Reject,
    /// Adds the new run to the queue, after the earlier runs.
    #[default]
    Enqueue,
    /// Cancels the earlier runs. Everything that they have stored is kept.
    Interrupt,
    /// Cancels the earlier runs, and deletes them with everything that they have stored.
    Rollback,
}

impl MultitaskStrategy {
    /// Returns true for a strategy that does not cancel earlier runs.
    pub const fn spares_others(self) -> bool {
        matches!(self, Self::Reject | Self::Enqueue)
    }
}

/// The way in which a run is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cancel {
    /// Ends the run with the status [`RunStatus::Interrupted`]. Everything that the run has stored is kept.
    Interrupt,
    /// Deletes the run with its checkpoints.
    Rollback,
}

/// A run: the row that a run store keeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Run {
    /// The id.
    pub id: Uuid,
    /// The id of the thread.
    pub thread: String,
    /// The name under which workers know the graph.
    pub graph: String,
    /// The id of the assistant, if the run was started with one.
    pub assistant: Option<String>,
    /// The status.
    pub status: RunStatus,
    /// The request.
    pub request: Request,
    /// The metadata from callers.
    pub metadata: Map<String, Value>,
    /// The rule that was applied, when this run was added, to the earlier runs of the thread that had not ended.
    pub multitask_strategy: MultitaskStrategy,
    /// The action if the client of the run disconnects.
    pub on_disconnect: OnDisconnect,
    /// The number of times that a worker has claimed the run. A claim that ended with `requeue` does not count.
    pub attempts: u32,
    /// True if the thread already contains the input of the run. The next attempt of the run then continues the thread
    /// and does not apply the input again.
    #[serde(default)]
    pub entered: bool,
    /// True if the run has changed more than its own checkpoints: it has replaced pending writes or removed messages.
    /// The previous data is kept until the run ends.
    #[serde(default)]
    pub undoable: bool,
    /// The cancellation that a caller has requested. `None` if no caller has cancelled the run, or if the run ended at
    /// the time of the cancellation.
    pub cancel: Option<Cancel>,
    /// True if the caller has requested to delete the thread soon after the run has ended. Has no effect if the thread
    /// existed before the run.
    pub temporary: bool,
    /// The time at which the run was added.
    pub created: SystemTime,
    /// The time of the last change.
    pub updated: SystemTime,
    /// The earliest time at which the run may start.
    pub starts: SystemTime,
    /// The time of the first claim. `None` if no worker has claimed the run.
    pub started: Option<SystemTime>,
    /// The time at which the run ended. `None` if the run has not ended.
    pub ended: Option<SystemTime>,
    /// The failure, if the run has failed.
    pub error: Option<Failure>,
    /// The state at the end of the run, and the questions for which the run stopped:
    /// `{"values": …, "interrupts": […]}`. `None` if the status of the run is not [`RunStatus::Success`].
    pub output: Option<Value>,
    /// The number of the run. A store gives each new run a greater number than all earlier runs.
    pub number: u64,
}

impl Run {
    /// Returns the size of everything in the run that a caller chooses, as JSON.
    pub(super) fn request_bytes(&self) -> u64 {
        serialized_bytes(&(&self.request, &self.metadata))
    }

    /// Returns true if the run has stored something that a rollback has to undo.
    pub(super) const fn has_stored(&self) -> bool {
        self.entered || self.undoable
    }
}

/// A run to add.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct NewRun {
    /// The id. Defaults to a random one.
    pub id: Option<Uuid>,
    /// The id of the thread.
    pub thread: String,
    /// The thread to create if it does not exist. If `None` and the thread does not exist, adding the run fails with
    /// [`RunsError::NoThread`](super::RunsError::NoThread).
    pub new_thread: Option<NewThread>,
    /// A condition on the thread, or `None` to accept any thread. If the thread does not meet the condition, for
    /// example because another thread has the id by now, adding the run fails with
    /// [`NoThread`](super::RunsError::NoThread).
    pub on: Option<ThreadIs>,
    /// The name of the graph.
    pub graph: String,
    /// The id of the assistant, if the run is started with one.
    pub assistant: Option<String>,
    /// The request.
    pub request: Request,
    /// The metadata.
    pub metadata: Map<String, Value>,
    /// The rule for earlier runs on the thread that have not ended.
    pub multitask_strategy: MultitaskStrategy,
    /// The action if the client of the run disconnects.
    pub on_disconnect: OnDisconnect,
    /// The delay before the run starts.
    pub after: Duration,
    /// True to delete the thread soon after the run has ended. Has no effect on a thread that exists already.
    pub temporary: bool,
    /// A document to store in the same transaction, or `None` to store no document. If the stored document has another
    /// revision than [`Document::revision`], adding the run fails with [`RunsError::Stale`](super::RunsError::Stale). A
    /// cron uses this to add each run only once.
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

    /// Sets [`new_thread`](Self::new_thread), so that adding the run creates the thread if it does not exist.
    #[must_use]
    pub fn create_thread(mut self) -> Self {
        self.new_thread = Some(NewThread::new(self.thread.clone()));
        self
    }
}

/// A worker's request for runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunClaim {
    /// The name of the worker, for error messages.
    pub holder: String,
    /// The time after which the lease expires if its holder does not renew it.
    pub lasts: Duration,
    /// The names of the worker's graphs. `None` accepts all graphs. The name [`CANCELLED`] in the list also accepts
    /// cancelled runs of other graphs.
    pub graphs: Option<Vec<String>>,
}

/// A name in [`RunClaim::graphs`] that stands for cancelled runs of any graph. With this name, any worker can end a
/// cancelled run if no worker with the run's graph does so within some seconds.
pub const CANCELLED: &str = "";

impl RunClaim {
    /// Creates a request for runs of these graphs. The request also accepts cancelled runs of other graphs that have
    /// waited for some seconds.
    pub fn new<G: Into<String>>(
        holder: impl Into<String>,
        lasts: Duration,
        graphs: impl IntoIterator<Item = G>,
    ) -> Self {
        let graphs = graphs.into_iter().map(Into::into).chain([CANCELLED.to_owned()]);
        Self { holder: holder.into(), lasts, graphs: Some(graphs.collect()) }
    }
}

/// A claimed run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Claimed {
    /// The run.
    pub run: Run,
    /// The lease of the thread.
    pub lease: Lease,
}

impl Claimed {
    /// Creates a claimed run from the run and the lease of its thread.
    pub const fn new(run: Run, lease: Lease) -> Self {
        Self { run, lease }
    }
}

/// The result of `create_claimed`: the added run, and the claim if the call has also claimed the run.
#[derive(Clone, Debug, PartialEq)]
pub struct AddedRun {
    /// The run as it was added.
    pub run: Run,
    /// The claimed run. `None` if the call has not claimed the run.
    pub claimed: Option<Claimed>,
}

/// The end of a run, as a commit stores it.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct RunEnd {
    /// The id of the run.
    pub run: Uuid,
    /// The final status.
    pub status: RunStatus,
    /// The failure, if the run has failed.
    pub error: Option<Failure>,
    /// The value to store in [`Run::output`].
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

    /// Sets the failure that ended the run.
    #[must_use]
    pub fn because(mut self, error: Failure) -> Self {
        self.error = Some(error);
        self
    }

    /// Sets the value to store in [`Run::output`].
    #[must_use]
    pub fn output(mut self, output: Value) -> Self {
        self.output = Some(output);
        self
    }

    /// Creates an end that rolls the run back. The store then deletes the run with its checkpoints.
    pub fn rolled_back(run: Uuid) -> Self {
        Self { rollback: true, ..Self::new(run, RunStatus::Interrupted) }
    }
}

/// The data that one transaction stores for a run.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct RunCommit {
    /// The checkpoints and the writes of tasks.
    pub records: Vec<WriteRecord>,
    /// The changes of the inbox and the timer.
    pub also: SideEffects,
    /// The events to append.
    pub events: Vec<NewEvent>,
    /// The changes of the thread's row in the index. `None` keeps the row.
    pub index: Option<ThreadIndex>,
    /// The id of a run whose changes the store undoes, or `None` to undo nothing. The checkpoints of this run are
    /// deleted, the pending writes that it has replaced are restored, and the messages that it has removed return to
    /// the inbox. The run does not end, and keeps its lease.
    pub undo: Option<Uuid>,
    /// The end of the run, or `None` if the run continues. A commit with an end releases the lease.
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

    /// Sets the changes of the thread's row in the index.
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
