//! The messages between clients, Restate and workers. They have the encoding of checkpoints.

use hier_core::Outcome;
use hier_core::checkpoint::{CodecError, DueChange, InboxMessage, SideEffects, WriteRecord, codec};
use hier_core::drive::{PartialStep, Settings};
use hier_core::graph::{DynInput, DynUpdates};
use hier_core::runs::StreamMode;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::RunFailure;
use crate::slice::SliceProgress;

/// Returns the name of the service for the tasks of a graph.
pub(crate) fn task_service(graph: &str) -> String {
    format!("{graph}.task")
}

/// Returns the name of the service for the runs of a graph.
pub(crate) fn run_service(graph: &str) -> String {
    format!("{graph}.run")
}

/// An entry of a thread's log: one change of the thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum LogEntry {
    Commit(Vec<WriteRecord>, SideEffects),
    Post(String, InboxMessage),
}

impl LogEntry {
    /// Returns the ids of the messages that the entry takes from the inbox.
    pub(crate) fn taken(&self) -> &[Uuid] {
        match self {
            Self::Commit(_, also) => &also.taken,
            Self::Post(..) => &[],
        }
    }

    /// Makes an entry of a task keep an earlier due time of the thread, because the task knows no other tasks.
    pub(crate) fn keep_earlier_due(&mut self) {
        if let Self::Commit(_, also) = self
            && let Some(DueChange::Exactly { at, graph, .. }) = &also.due
        {
            also.due = at.map(|at| DueChange::NoLaterThan { at, graph: graph.clone() });
        }
    }
}

/// Encoded entries of a log. Only a worker that loads the thread decodes the entries.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct EncodedEntries(#[serde(with = "serde_bytes")] Vec<u8>);

impl EncodedEntries {
    pub(crate) fn encode(entries: &[LogEntry]) -> Result<Self, CodecError> {
        if entries.is_empty() {
            return Ok(Self::default());
        }
        codec::encode_record(entries).map(Self)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn read(&self) -> Result<Vec<LogEntry>, CodecError> {
        if self.is_empty() { Ok(Vec::new()) } else { codec::decode(&self.0) }
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) run: Uuid,
    /// The time of the request, in milliseconds since 1970.
    pub(crate) asked: u64,
    pub(crate) input: DynInput,
    pub(crate) settings: Settings,
    /// The awakeable that receives the end of the run.
    pub(crate) awakeable: Option<String>,
    pub(crate) listener: Option<StreamListener>,
}

/// The receiver of a run's events.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StreamListener {
    pub(crate) address: String,
    pub(crate) token: Uuid,
    pub(crate) modes: Vec<StreamMode>,
}

pub(crate) type Ended = Result<Outcome<Value>, RunFailure>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UpdateState {
    /// The time of the request, in milliseconds since 1970.
    pub(crate) asked: u64,
    pub(crate) settings: Settings,
    pub(crate) supersteps: Vec<Vec<DynUpdates>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Post {
    pub(crate) letter: InboxMessage,
}

/// A wake-up of a thread that may be due.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wake {
    /// The time at which the thread was expected to be due, in milliseconds since 1970.
    pub(crate) due: u64,
}

/// A message that deletes a thread after its time to live.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Expire {
    /// The version of the thread when the message was sent.
    pub(crate) number: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StateRequest {
    pub(crate) settings: Settings,
    /// The requested part of the history, or `None` for the state.
    pub(crate) history: Option<HistoryRange>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HistoryRange {
    pub(crate) limit: Option<usize>,
    pub(crate) before: Option<Uuid>,
    pub(crate) filter: Map<String, Value>,
}

/// The data from which a worker restores a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct LogSource {
    #[serde(with = "serde_bytes")]
    pub(crate) head: Option<Vec<u8>>,
    pub(crate) entries: Vec<LogEntry>,
    pub(crate) whole: bool,
}

/// An encoded thread, from which a worker that executes a task restores the thread.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct ThreadDump(#[serde(with = "serde_bytes")] pub(crate) Vec<u8>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ThreadVersion {
    pub(crate) thread: String,
    pub(crate) epoch: Uuid,
    pub(crate) version: u64,
}

/// The run to which a slice belongs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct SliceContext {
    pub(crate) run: Uuid,
    /// The time at which the slice begins, in milliseconds since 1970. If the slice is repeated, the time stays the
    /// same.
    pub(crate) clock: u64,
    pub(crate) settings: Settings,
    pub(crate) progress: SliceProgress,
    /// The number of the slice. The first slice has the number 0.
    pub(crate) slice: u64,
    pub(crate) listener: Option<StreamListener>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskCall {
    pub(crate) at: ThreadVersion,
    pub(crate) piece: SliceContext,
    pub(crate) part: PartialStep,
    /// The encoded thread. `None` if it is large.
    #[serde(with = "serde_bytes")]
    pub(crate) base: Option<Vec<u8>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskDone {
    /// The entries of each slice of the task.
    pub(crate) entries: Vec<EncodedEntries>,
    pub(crate) end: Result<TaskEnd, RunFailure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TaskEnd {
    Done,
    Asked,
    /// The task stopped at a breakpoint inside its graph.
    Stopped,
}
