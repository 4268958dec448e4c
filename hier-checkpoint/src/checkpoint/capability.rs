//! Optional capabilities of savers: inboxes, administration, faster reads.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Conversations, Delivered, DueQuery, DueThread, InboxMessage, Prune, Saved, SaverError, ThreadInfo};

/// The optional parts of a saver. [`Checkpointer::capabilities`](super::Checkpointer::capabilities) returns them.
///
/// The default has no capability, and leases that expire.
///
/// ```
/// # use hier_checkpoint::checkpoint::{Capabilities, MemorySaver, Checkpointer};
/// let saver = MemorySaver::new();
/// let all = Capabilities::default().with_inbox(&saver).with_admin(&saver).with_cache(&saver);
/// assert!(all.inbox.is_some() && all.leases_expire);
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
#[must_use]
pub struct Capabilities<'a> {
    /// Inboxes, signals and timers.
    pub inbox: Option<&'a dyn Inbox>,
    /// Lists, copies, prunes and sweeps threads.
    pub admin: Option<&'a dyn ThreadAdmin>,
    /// Reads that leave out what the engine still has in memory.
    pub cache: Option<&'a dyn CheckpointCache>,
    /// False if a lease ends only when it is released or taken over, so that a long run need not renew it. Only a saver that no other
    /// process can see may say so.
    pub leases_expire: bool,
    /// True if stored values are unreadable for others: the saver encrypts them, or they never leave the process. Channels that are
    /// `secret` need this.
    pub protects_values: bool,
}

impl Default for Capabilities<'_> {
    fn default() -> Self {
        Self { inbox: None, admin: None, cache: None, leases_expire: true, protects_values: false }
    }
}

impl<'a> Capabilities<'a> {
    /// Sets [`Self::inbox`].
    pub fn with_inbox(self, inbox: &'a dyn Inbox) -> Self {
        Self { inbox: Some(inbox), ..self }
    }

    /// Sets [`Self::admin`].
    pub fn with_admin(self, admin: &'a dyn ThreadAdmin) -> Self {
        Self { admin: Some(admin), ..self }
    }

    /// Sets [`Self::cache`].
    pub fn with_cache(self, cache: &'a dyn CheckpointCache) -> Self {
        Self { cache: Some(cache), ..self }
    }

    /// Sets [`Self::leases_expire`].
    pub fn with_leases_expiring(self, leases_expire: bool) -> Self {
        Self { leases_expire, ..self }
    }

    /// Sets [`Self::protects_values`].
    pub fn with_protected_values(self, protects_values: bool) -> Self {
        Self { protects_values, ..self }
    }
}

impl std::fmt::Debug for Capabilities<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Capabilities")
            .field("inbox", &self.inbox.is_some())
            .field("admin", &self.admin.is_some())
            .field("cache", &self.cache.is_some())
            .field("leases_expire", &self.leases_expire)
            .field("protects_values", &self.protects_values)
            .finish()
    }
}

/// Inboxes, signals and timers of threads. A commit takes messages out and sets the timer with its
/// [side effects](super::Commit::also).
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Puts a message into the inbox of a thread. The thread need not exist, and may be leased. A message with an id that was sent to the
    /// thread before changes nothing, even if the earlier message was taken. When the future resolves, the message survives a crash.
    /// A signal makes the thread due at once: for this graph, if it is not due for another.
    ///
    /// # Errors
    ///
    /// [`SaverError::InboxFull`] if the inbox would hold more than [`INBOX_BYTES`](super::INBOX_BYTES).
    async fn post(&self, thread: &str, graph: &str, message: InboxMessage) -> Result<PostOutcome, SaverError>;

    /// Returns the messages in the inbox of a thread, in the order in which they were posted. The inbox is deleted with its thread, and
    /// is not copied.
    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError>;

    /// Returns the threads that are due, the longest overdue first, and threads of equal time by name. Uses an index. A caller with many
    /// threads asks page by page ([`DueQuery::after`]).
    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError>;
}

/// The result of [`Inbox::post`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// The message is in the inbox.
    Stored,
    /// A message with this id was posted before. Nothing has changed.
    Duplicate,
}

impl PostOutcome {
    /// Returns true for [`PostOutcome::Stored`].
    pub const fn is_new(self) -> bool {
        matches!(self, Self::Stored)
    }
}

impl From<bool> for PostOutcome {
    fn from(is_new: bool) -> Self {
        if is_new { Self::Stored } else { Self::Duplicate }
    }
}

/// The administration of stored threads.
#[async_trait]
pub trait ThreadAdmin: Send + Sync {
    /// Returns the threads that have a checkpoint, those with the newest first.
    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError>;

    /// Copies the whole history of a thread to another thread and replaces its history. The copy includes all namespaces and pending
    /// writes. The source is not changed. If the source is unknown, the target has no history afterwards. The copy is due at the same
    /// time as the source. The inbox of the source is not copied.
    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError>;

    /// Deletes the checkpoints whose metadata has one of these ids as `run_id`, in all threads and namespaces, with their pending writes.
    /// Values that other checkpoints still need stay. Unknown ids are not an error.
    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError>;

    /// Deletes the checkpoints that the query does not keep, and returns their number. Every checkpoint that stays can be read as before.
    /// Its parent link is cut if the parent is gone. [`PrunePlan`](super::PrunePlan) has the rules of [background
    /// threads](super::background).
    async fn prune(&self, prune: Prune) -> Result<u64, SaverError>;

    /// Deletes the threads whose time to live has passed ([`Claim::time_to_live`](super::Claim::time_to_live)) and that no run holds.
    /// A [background thread](super::background) stays as long as the thread to which it belongs. Returns the number of threads that
    /// have expired.
    async fn sweep(&self) -> Result<u64, SaverError>;
}

/// Reads for an engine that keeps conversations in memory between runs.
#[async_trait]
pub trait CheckpointCache: Send + Sync {
    /// Returns a checkpoint as [`Checkpointer::get`](super::Checkpointer::get) does. The saver may leave out a value if the caller
    /// has its exact version. `known` are names of channels with their versions.
    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError>;

    /// Returns the conversations that the engine keeps between runs. None disables them. A saver
    /// [forgets](Conversations::forget) a thread that it deletes: after the deletion, before the call returns.
    fn conversations(&self) -> Option<&Conversations>;
}
