//! What crosses between client, Restate and workers. Everything is encoded as checkpoints are.

use bytes::Bytes;
use hier_core::Outcome;
use hier_core::checkpoint::{CodecError, InboxMessage, SideEffects, WriteRecord, codec};
use hier_core::drive::{PartialStep, Settings};
use hier_core::graph::{DynInput, DynUpdates};
use hier_core::runs::StreamMode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::error::Failure;
use crate::slice::Progress;

/// A payload in the format of checkpoints.
#[derive(Clone, Debug)]
pub(crate) struct Packed<T>(pub(crate) T);

impl<T: Serialize> restate_sdk::serde::Serialize for Packed<T> {
    type Error = CodecError;

    fn serialize(&self) -> Result<Bytes, CodecError> {
        codec::encode_record(&self.0).map(Bytes::from)
    }
}

impl<T: DeserializeOwned> restate_sdk::serde::Deserialize for Packed<T> {
    type Error = CodecError;

    fn deserialize(bytes: &mut Bytes) -> Result<Self, CodecError> {
        codec::decode(bytes).map(Self)
    }
}

/// The service of the tasks of a graph.
pub(crate) fn task_service(graph: &str) -> String {
    format!("{graph}.task")
}

/// The service that begins runs and waits for their ends.
pub(crate) fn run_service(graph: &str) -> String {
    format!("{graph}.run")
}

/// A change of a thread: the entries of its log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// A commit of the engine's.
    Commit(Vec<WriteRecord>, SideEffects),
    /// A letter.
    Post(String, InboxMessage),
}

/// Entries of a log as they are stored. They pass through journals, and only who takes up the thread reads them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Entries(#[serde(with = "serde_bytes")] Vec<u8>);

impl Entries {
    pub(crate) fn of(entries: &[Entry]) -> Result<Self, CodecError> {
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

    pub(crate) fn read(&self) -> Result<Vec<Entry>, CodecError> {
        if self.is_empty() { Ok(Vec::new()) } else { codec::decode(&self.0) }
    }
}

/// A run that is to begin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) run: Uuid,
    /// When it was asked for, in milliseconds since 1970.
    pub(crate) asked: u64,
    pub(crate) input: DynInput,
    pub(crate) settings: Settings,
    /// Who is told how it ended.
    pub(crate) awakeable: Option<String>,
    pub(crate) listener: Option<Listener>,
}

/// Where events are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Listener {
    pub(crate) address: String,
    pub(crate) token: Uuid,
    pub(crate) modes: Vec<StreamMode>,
}

/// How a run ended.
pub(crate) type Ended = Result<Outcome<Value>, Failure>;

/// An update of a thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct UpdateState {
    pub(crate) settings: Settings,
    pub(crate) supersteps: Vec<Vec<DynUpdates>>,
}

/// A letter for a thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Post {
    pub(crate) letter: InboxMessage,
}

/// A thread that may be due.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Wake {
    /// When it was said to be due, in milliseconds since 1970.
    pub(crate) due: u64,
}

/// The end of a thread's life.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Expire {
    /// The version that the thread had when this was sent.
    pub(crate) number: u64,
}

/// A question about a thread.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Read {
    pub(crate) settings: Settings,
    /// The most states of the history, or all.
    pub(crate) history: Option<HistoryQuery>,
}

/// Which states of the history.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct HistoryQuery {
    pub(crate) limit: Option<usize>,
    pub(crate) before: Option<Uuid>,
    pub(crate) filter: Map<String, Value>,
}

/// What a thread's log is loaded from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    #[serde(with = "serde_bytes")]
    pub(crate) head: Option<Vec<u8>>,
    pub(crate) entries: Vec<Entry>,
    pub(crate) whole: bool,
}

/// A thread's state as it is needed, of a certain version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct At {
    pub(crate) thread: String,
    pub(crate) epoch: Uuid,
    pub(crate) version: u64,
}

/// The run that a piece of work is part of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Piece {
    pub(crate) run: Uuid,
    /// The time at which the slice begins, in milliseconds since 1970: it is the same if the slice is done again.
    pub(crate) clock: u64,
    pub(crate) settings: Settings,
    pub(crate) progress: Progress,
    /// The number of the slice, from 0.
    pub(crate) slice: u64,
    pub(crate) listener: Option<Listener>,
}

/// A task for a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskCall {
    pub(crate) at: At,
    pub(crate) piece: Piece,
    pub(crate) part: PartialStep,
    /// The thread, if it is small.
    #[serde(with = "serde_bytes")]
    pub(crate) base: Option<Vec<u8>>,
}

/// What a task did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskDone {
    /// Of each of its pieces.
    pub(crate) entries: Vec<Entries>,
    pub(crate) end: Result<TaskEnd, Failure>,
}

/// How a task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum TaskEnd {
    Done,
    Asked,
    /// At a breakpoint inside.
    Stopped,
}
