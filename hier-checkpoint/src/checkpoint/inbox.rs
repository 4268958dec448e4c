//! Messages and signals to a thread, and the times at which threads are due.

use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::limits::MESSAGE_OVERHEAD;
use super::{CodecError, codec};

/// A message to a thread: for the inbox of its graph, or a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxMessage {
    /// The id. A second message with the id of an earlier one to the same thread is ignored, even if the first was taken.
    pub id: Uuid,
    /// The name of the signal; none for a message.
    pub signal: Option<Arc<str>>,
    /// The value, encoded.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

impl InboxMessage {
    /// Creates a message for the inbox of the thread's graph.
    pub fn message(id: Uuid, value: Vec<u8>) -> Self {
        Self { id, signal: None, value }
    }

    /// Creates a signal.
    pub fn signal(id: Uuid, name: impl Into<Arc<str>>, value: Vec<u8>) -> Self {
        Self { id, signal: Some(name.into()), value }
    }

    /// Parses the value. A [`serde_json::Value`] can hold any value.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        codec::decode(&self.value)
    }

    /// Returns the size of the message in the inbox, in bytes.
    pub fn size(&self) -> usize {
        MESSAGE_OVERHEAD + self.value.len() + self.signal.as_ref().map_or(0, |name| name.len())
    }
}

/// A message in an inbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivered {
    /// The number, greater than the numbers of all earlier messages to the thread.
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

/// Changes that a commit makes in addition to its records, in the same transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideEffects {
    /// The messages to take from the thread's inbox. All of them must exist.
    pub taken: Vec<Uuid>,
    /// The change of the time at which the thread is due.
    pub due: Option<DueChange>,
    /// The run that may be rolled back. Until it ends, a store of runs keeps the overwritten pending writes and the taken messages
    pub run: Option<Uuid>,
}

impl SideEffects {
    /// Takes these messages.
    pub fn taking(taken: Vec<Uuid>) -> Self {
        Self { taken, ..Self::default() }
    }

    /// Changes the time at which the thread is due.
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
    /// Due at this time, or earlier if it is already due earlier. A run that advances the thread ([`Self::Driven`]) is not affected.
    NoLaterThan {
        /// The due time.
        at: SystemTime,
        /// The graph that is to be driven.
        graph: Arc<str>,
    },
    /// Due at this time, which replaces any earlier time. None if the thread is not due. If a signal arrived after the
    /// message with the number `seen`, the thread stays due for the signal.
    Exactly {
        /// The due time.
        at: Option<SystemTime>,
        /// The graph that is to be driven.
        graph: Arc<str>,
        /// The greatest message number that the caller knows. 0 for none.
        seen: u64,
    },
    /// A run is advancing the thread. When it ends, it sets the next due time with [`Self::Exactly`]. If the thread is found due before
    /// that and has no lease, the run's process was killed, and the thread is resumed.
    Driven {
        /// Time at which to check whether the run has ended; earlier, if the thread is already due earlier.
        until: SystemTime,
        /// The graph to drive.
        graph: Arc<str>,
    },
    /// A thread that is due could not be advanced, and is due again at this time. Everything else about it is kept: its graph, and
    /// whether a run was advancing it ([`Self::Driven`]).
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
    /// The graphs of the threads.
    pub graphs: Vec<String>,
    /// Maximum number of threads.
    pub limit: usize,
    /// Only threads after this one in the order of the list: by time, then by name. None for the first page.
    pub after: Option<DueThread>,
}

impl DueQuery {
    /// Returns at most this many threads of these graphs that are due at this time.
    pub fn new(by: SystemTime, graphs: Vec<String>, limit: usize) -> Self {
        Self { by, graphs, limit, after: None }
    }

    /// Continues after this thread: the next page of a list that ended with it.
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
    /// The thread.
    pub thread: Arc<str>,
    /// Since when.
    pub at: SystemTime,
    /// True if a run has started to advance the thread and has not ended: [`DueChange::Driven`].
    pub driven: bool,
}

impl DueThread {
    /// Creates a thread that is due since this time.
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
