//! Messages and signals to a thread, and the times at which threads are due.

use std::sync::Arc;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Checkpointer, Claim, CodecError, Commit, SaverError, codec};
use crate::guard::guarded;

/// Maximum size of the mailbox of one thread, in bytes. Letters taken by a run that may still be rolled back count. A letter that does not
/// fit is refused with [`SaverError::MailboxFull`](super::SaverError::MailboxFull).
pub const MAILBOX_BYTES: usize = 16 << 20;

/// Size of a message in the inbox in addition to its value, in bytes.
pub const LETTER_OVERHEAD: usize = 256;

/// Something that was sent to a thread: a message for the inbox of its graph, or a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Letter {
    /// The id: of two letters with one id to one thread the second is ignored, also once the first was taken.
    pub id: Uuid,
    /// The name of the signal; none for a message.
    pub signal: Option<Arc<str>>,
    /// The value, encoded.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

impl Letter {
    /// A message for the inbox of the thread's graph.
    pub fn message(id: Uuid, value: Vec<u8>) -> Self {
        Self { id, signal: None, value }
    }

    /// A signal.
    pub fn signal(id: Uuid, name: impl Into<Arc<str>>, value: Vec<u8>) -> Self {
        Self { id, signal: Some(name.into()), value }
    }

    /// The value: of a signal what was sent, of a message what the inbox takes. As a [`serde_json::Value`], whatever it is.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, CodecError> {
        codec::decode(&self.value)
    }

    /// Returns the size of the message in the inbox, in bytes.
    pub fn size(&self) -> usize {
        LETTER_OVERHEAD + self.value.len() + self.signal.as_ref().map_or(0, |name| name.len())
    }
}

/// A letter that waits in a mailbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Posted {
    /// Its number: greater than that of every letter that was posted to the thread before.
    pub number: u64,
    /// The letter.
    pub letter: Letter,
}

impl Posted {
    /// A letter with its number.
    pub fn new(number: u64, letter: Letter) -> Self {
        Self { number, letter }
    }
}

/// Takes a message out of the inbox of a thread without reading it. Returns false if the inbox does not have it.
///
/// The function claims the thread, and releases it at the end, even if the saver fails or panics. If the future is dropped, the
/// message may or may not be taken, and the thread may stay claimed until the lease expires.
pub async fn discard(
    saver: &(impl Checkpointer + ?Sized),
    thread: &str,
    claim: Claim,
    id: Uuid,
) -> Result<bool, SaverError> {
    let inbox = saver.inbox()?;
    let has = |messages: &[Posted]| messages.iter().any(|posted| posted.letter.id == id);
    if !has(&inbox.messages(thread).await?) {
        return Ok(false);
    }
    let lease = saver.acquire(thread, claim).await?;
    // A run may have taken the message until now. From now on none can.
    let taking = async {
        if !has(&inbox.messages(thread).await?) {
            return Ok(false);
        }
        saver.commit(&lease, Commit::default().also(Also::taking(vec![id]))).await.map(|_| true)
    };
    let taken: Result<bool, SaverError> = guarded(taking).await;
    let released = guarded(saver.release(&lease)).await;
    taken.and_then(|taken| released.map(|()| taken))
}

/// Changes that a commit makes in addition to its records, in the same transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Also {
    /// The letters that are taken from the thread's mailbox. All of them must be there.
    pub taken: Vec<Uuid>,
    /// When the thread is due.
    pub due: Option<DueChange>,
    /// The run that may be rolled back. Until it ends, a store of runs keeps the overwritten pending writes and the taken letters
    /// ([`Settlement::undo`](crate::runs::Settlement::undo)).
    pub run: Option<Uuid>,
}

impl Also {
    /// Takes these letters.
    pub fn taking(taken: Vec<Uuid>) -> Self {
        Self { taken, ..Self::default() }
    }

    /// Says when the thread is due.
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
        /// Then.
        at: SystemTime,
        /// The graph that is to be driven.
        graph: Arc<str>,
    },
    /// Due at this time, which replaces any earlier time. None if the thread is not due. If a signal arrived after the
    /// message with the number `seen`, the thread stays due for the signal.
    Exactly {
        /// Then.
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
        /// Then.
        until: SystemTime,
    },
}

/// A query for due threads.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueQuery {
    /// Those that are due then or before.
    pub by: SystemTime,
    /// Those of these graphs.
    pub graphs: Vec<String>,
    /// At most so many.
    pub limit: usize,
    /// Those that come after this one in the order of the list: by time, then by name. From the first on if none.
    pub after: Option<DueThread>,
}

impl DueQuery {
    /// Threads of these graphs that are due at this time, at most so many.
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
    /// A thread that is due since then.
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
