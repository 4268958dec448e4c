//! Messages and signals to a thread, and the times at which threads are due.

use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::limits::MESSAGE_OVERHEAD;
use super::{CodecError, codec};

/// A message or signal to a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxMessage {
    /// The id. A thread ignores a second message with the same id, even if the first has been removed.
    pub id: Uuid,
    /// The name of the signal. `None` for a message.
    pub signal: Option<Arc<str>>,
    /// The encoded value.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

impl InboxMessage {
    /// Creates a message for the inbox channel of the thread's graph.
    pub fn message(id: Uuid, value: Vec<u8>) -> Self {
        Self { id, signal: None, value }
    }

    /// Creates a signal.
    pub fn signal(id: Uuid, name: impl Into<Arc<str>>, value: Vec<u8>) -> Self {
        Self { id, signal: Some(name.into()), value }
    }

    /// Decodes the value. A [`serde_json::Value`] can hold any value.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        codec::decode(&self.value)
    }

    /// Returns the number of bytes that the message occupies in the inbox.
    pub fn size(&self) -> usize {
        MESSAGE_OVERHEAD + self.value.len() + self.signal.as_ref().map_or(0, |name| name.len())
    }
}

/// A message or signal in an inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivered {
    /// The number of the message, greater than those of all earlier messages to the thread.
    pub number: u64,
    /// The message.
    pub message: InboxMessage,
}

impl Delivered {
    /// Creates a numbered message.
    pub fn new(number: u64, message: InboxMessage) -> Self {
        Self { number, message }
    }
}

/// Changes to the inbox and the timer of a thread, which a commit makes in the same transaction as its records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideEffects {
    /// The ids of messages to remove from the inbox. All of them must exist.
    pub taken: Vec<Uuid>,
    /// The change of the thread's due time.
    pub due: Option<DueChange>,
    /// The id of a run that may be rolled back. Until it ends, a run store keeps the pending writes and messages that
    /// it replaces or removes.
    pub run: Option<Uuid>,
}

impl SideEffects {
    /// Creates side effects that remove these messages.
    pub fn taking(taken: Vec<Uuid>) -> Self {
        Self { taken, ..Self::default() }
    }

    /// Creates side effects that change the due time.
    pub fn due(due: DueChange) -> Self {
        Self { due: Some(due), ..Self::default() }
    }

    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A change of the time at which a thread is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DueChange {
    /// Due at this time, or earlier if the thread is already due earlier. Does not affect a thread that is
    /// [`Self::Driven`].
    NoLaterThan {
        /// The due time.
        at: SystemTime,
        /// The name of the graph to run.
        graph: Arc<str>,
    },
    /// Due at exactly this time, or not at all. If a signal arrived after the message with the number `seen`, the
    /// thread stays due for the signal.
    Exactly {
        /// The due time. `None` if the thread is not due.
        at: Option<SystemTime>,
        /// The name of the graph to run.
        graph: Arc<str>,
        /// The highest message number that the caller knows. 0 if it knows none.
        seen: u64,
    },
    /// A run is advancing the thread, and sets the next due time with [`Self::Exactly`] when it ends. If the thread is
    /// found due before that and has no lease, the process of the run was killed, and the thread is resumed.
    Driven {
        /// The time at which to check if the run has ended. An earlier due time stays.
        until: SystemTime,
        /// The name of the graph to run.
        graph: Arc<str>,
    },
    /// A due thread could not be advanced, and is due again at this time. Its graph and its [`Self::Driven`] state do
    /// not change.
    Postponed {
        /// The next due time.
        until: SystemTime,
    },
}

/// A query for due threads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueQuery {
    /// The latest due time.
    pub by: SystemTime,
    /// The names of the graphs.
    pub graphs: Vec<String>,
    /// The maximum number of threads.
    pub limit: usize,
    /// The last thread of the previous page. `None` for the first page. The list is sorted by time, then by name.
    pub after: Option<DueThread>,
}

impl DueQuery {
    /// Creates a query for at most `limit` threads of these graphs that are due at this time.
    pub fn new(by: SystemTime, graphs: Vec<String>, limit: usize) -> Self {
        Self { by, graphs, limit, after: None }
    }

    /// Continues after the last thread of the previous page.
    #[must_use]
    pub fn after(mut self, last: Option<DueThread>) -> Self {
        self.after = last;
        self
    }
}

/// A thread that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueThread {
    /// The id of the thread.
    pub thread: Arc<str>,
    /// The time since which it is due.
    pub at: SystemTime,
    /// True if a run has started to advance the thread and has not ended ([`DueChange::Driven`]).
    pub driven: bool,
}

impl DueThread {
    /// Creates a thread that has been due since this time.
    pub fn new(thread: impl Into<Arc<str>>, at: SystemTime) -> Self {
        Self { thread: thread.into(), at, driven: false }
    }

    /// Sets [`Self::driven`].
    #[must_use]
    pub fn driven(mut self, driven: bool) -> Self {
        self.driven = driven;
        self
    }
}
