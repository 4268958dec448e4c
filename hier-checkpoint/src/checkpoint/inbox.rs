//! Messages and signals to a thread, and the times at which threads are due.

use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::limits::MESSAGE_OVERHEAD;
use super::{CodecError, codec};

/// A message or a signal to a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct InboxMessage {
    /// The id. A thread ignores a second message with the same id, even if the first message has been removed.
    pub id: Uuid,
    /// The name of the signal. `None` for a message to the inbox channel.
    pub signal: Option<Arc<str>>,
    /// The value, encoded with [`codec::encode`](super::codec::encode).
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

    /// Decodes the value. To decode a value of unknown type, use [`serde_json::Value`].
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        codec::decode(&self.value)
    }

    /// Returns the number of bytes that the message occupies in the inbox.
    pub fn size(&self) -> usize {
        MESSAGE_OVERHEAD + self.value.len() + self.signal.as_ref().map_or(0, |name| name.len())
    }
}

/// A message or a signal in the inbox of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Delivered {
    /// The number of the message. It is greater than the numbers of all earlier messages to the thread.
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

/// Changes to the inbox and the timer of a thread. A commit stores them in the same transaction as its records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SideEffects {
    /// The ids of messages to remove from the inbox. If one of them is not in the inbox, the commit fails with
    /// [`SaverError::Invalid`](super::SaverError::Invalid).
    pub taken: Vec<Uuid>,
    /// The change of the thread's due time. `None` leaves the due time unchanged.
    pub due: Option<DueChange>,
    /// The id of the run that makes the commit, if the run may be rolled back. Until this run ends, the saver keeps the
    /// pending writes and the messages that the commit replaces or removes. `None` if the run cannot be rolled back.
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

    /// Returns true if there are no side effects.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A change of the time at which a thread is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum DueChange {
    /// Makes the thread due at the time `at`, or keeps an earlier due time. In both cases, the thread is then due for
    /// `graph`. A record of a run in progress ([`Self::Driven`]) stays.
    NoLaterThan {
        /// The due time.
        at: SystemTime,
        /// The name of the graph to run.
        graph: Arc<str>,
    },
    /// Makes the thread due at the time `at`, and removes the record of a run in progress ([`Self::Driven`]). If the
    /// inbox contains a signal with a number above `seen`, the thread is due at once, so that a run receives the
    /// signal.
    Exactly {
        /// The due time. With `None`, the thread is due only if the inbox contains a signal with a number above `seen`.
        at: Option<SystemTime>,
        /// The name of the graph to run.
        graph: Arc<str>,
        /// The highest message number that the caller knows. 0 if the caller knows no message.
        seen: u64,
    },
    /// Records that a run is in progress on the thread. When the run ends, it sets the next due time with
    /// [`Self::Exactly`]. If a sweeper finds that this record is due and that no run holds the thread, the process of
    /// the run was killed. The sweeper then resumes the thread.
    Driven {
        /// The time from which a sweeper checks the thread. If the thread is already due at an earlier time, that time
        /// stays.
        until: SystemTime,
        /// The name of the graph to run.
        graph: Arc<str>,
    },
    /// Moves the due time to the time `until`. A sweeper makes this change if it could not resume the thread. The graph
    /// for which the thread is due does not change. A record of a run in progress ([`Self::Driven`]) stays.
    Postponed {
        /// The next due time.
        until: SystemTime,
    },
}

/// A query for due threads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueQuery {
    /// Selects the threads that are due at this time or earlier.
    pub by: SystemTime,
    /// Selects the threads that are due for one of these graphs.
    pub graphs: Vec<String>,
    /// The maximum number of threads.
    pub limit: usize,
    /// The last thread of the previous page. `None` for the first page. Pages are sorted by due time and then by id.
    pub after: Option<DueThread>,
}

impl DueQuery {
    /// Creates a query for threads that are due for one of these graphs at the time `by` or earlier. The query returns
    /// at most `limit` threads.
    pub fn new(by: SystemTime, graphs: Vec<String>, limit: usize) -> Self {
        Self { by, graphs, limit, after: None }
    }

    /// Sets the thread after which the page starts: the last thread of the previous page. `None` starts at the first
    /// page.
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
    /// The time since which the thread is due.
    pub at: SystemTime,
    /// True if a run has begun on the thread and has not recorded its end ([`DueChange::Driven`]).
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
