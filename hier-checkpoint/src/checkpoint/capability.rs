//! Optional capabilities of savers: inboxes, administration, faster reads.

use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Conversations, Delivered, DueQuery, DueThread, InboxMessage, Prune, Saved, SaverError, ThreadInfo};

/// The optional capabilities of a saver. [`Checkpointer::capabilities`](super::Checkpointer::capabilities) returns
/// them. By default, a saver has no optional capabilities, and its leases expire.
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
    /// The inboxes, signals and timers of threads. `None` if the saver does not support them.
    pub inbox: Option<&'a dyn Inbox>,
    /// The methods that list, copy, prune and sweep threads. `None` if the saver does not have them.
    pub admin: Option<&'a dyn ThreadAdmin>,
    /// The methods with which the engine keeps conversations in memory between runs. `None` if the engine must read
    /// each conversation again.
    pub cache: Option<&'a dyn CheckpointCache>,
    /// True if a lease expires when its holder does not renew it. Only a saver that no other process can access may set
    /// this to false.
    pub leases_expire: bool,
    /// True if no other program can read stored values, because the saver encrypts them or keeps them in the memory of
    /// the process. Secret channels need such a saver.
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

/// The inboxes, signals and timers of threads. This trait has the methods that add and read messages and find due
/// threads. To remove a message or to set a timer, use the [side effects](super::Commit::also) of a commit.
#[async_trait]
pub trait Inbox: Send + Sync {
    /// Adds a message to the inbox of a thread. When the future resolves, the message is stored, and a crash does not
    /// lose it.
    ///
    /// The thread need not exist, and a run may hold its lease. If an earlier message to this thread had the same id,
    /// the saver ignores the new message, even if the earlier message has been removed.
    ///
    /// A signal makes the thread due at once, so that a sweeper runs the graph `graph` on it. If the thread is already
    /// due for another graph, it stays due for that graph.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::InboxFull`] if the inbox would exceed [`INBOX_BYTES`](super::INBOX_BYTES). Fails with
    /// [`SaverError::Invalid`] for an id that [`check_thread`](super::check_thread) rejects.
    async fn post(&self, thread: &str, graph: &str, message: InboxMessage) -> Result<PostOutcome, SaverError>;

    /// Returns the messages in the inbox of a thread, oldest first. Deleting a thread deletes its inbox. Copying a
    /// thread does not copy its inbox.
    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError>;

    /// Returns the threads that are due, sorted by due time and then by id. To get the next page, use
    /// [`DueQuery::after`]. Implementations should use an index.
    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError>;
}

/// The result of [`Inbox::post`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostOutcome {
    /// The message is in the inbox.
    Stored,
    /// An earlier message to the thread had the same id. The inbox is unchanged.
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

/// The administration of stored threads: methods that list, copy and delete them.
#[async_trait]
pub trait ThreadAdmin: Send + Sync {
    /// Returns the threads that have a checkpoint, sorted by the time of their latest checkpoint, newest first. `limit`
    /// is the maximum number of threads. `None` means all threads.
    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError>;

    /// Replaces the history of the thread `to` with a copy of the history of the thread `from`. The thread `from` does
    /// not change. The copy includes all namespaces, the pending writes and the due time, but not the inbox. If the
    /// thread `from` does not exist, `to` has no history afterwards.
    ///
    /// Also deletes the inbox of the thread `to`, and the threads of its [background subagents](super::background). If
    /// `from` is the thread of such a subagent, keeps `from` and the threads of the background subagents of `from`.
    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError>;

    /// Deletes the checkpoints of these runs in all threads and namespaces, with their pending writes. The entry
    /// `run_id` in the metadata of a checkpoint identifies its run. Keeps the values that other checkpoints need, and
    /// ignores unknown ids.
    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError>;

    /// Deletes the checkpoints that `prune` does not keep, and returns the number of deleted checkpoints. The remaining
    /// checkpoints stay readable. A checkpoint whose parent is deleted has no parent afterwards.
    /// [`PrunePlan`](super::PrunePlan) describes the rules for the threads of [background
    /// subagents](super::background).
    async fn prune(&self, prune: Prune) -> Result<u64, SaverError>;

    /// Deletes the expired threads that no run holds, and returns their number. A thread expires when the time
    /// [`Claim::time_to_live`](super::Claim::time_to_live) has passed since its last claim or commit. The thread of a
    /// [background subagent](super::background) is kept as long as the thread to which it belongs.
    async fn sweep(&self) -> Result<u64, SaverError>;
}

/// The methods that a saver implements so that the engine can keep conversations in memory between runs.
#[async_trait]
pub trait CheckpointCache: Send + Sync {
    /// Returns a checkpoint as [`Checkpointer::get`](super::Checkpointer::get) does, but may leave out values that the
    /// caller already has. `known` lists these values by the name of the channel and the version.
    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError>;

    /// Returns the cache in which the engine keeps conversations between runs. Returns `None` to disable the cache.
    /// When a saver deletes a thread, it must call [`Conversations::forget`] after the deletion and before the call
    /// returns.
    fn conversations(&self) -> Option<&Conversations>;
}
