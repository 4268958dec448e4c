use async_trait::async_trait;
use uuid::Uuid;

use super::capability::{Capabilities, Inbox, ThreadAdmin};
use super::{Claim, Lease, ListQuery, Listed, Saved, SaverError, SideEffects, WriteRecord};

/// A saver, which stores the checkpoints of threads. The trait is object-safe. Implement it with
/// [`async_trait`](crate::async_trait).
///
/// Three values identify a checkpoint: its thread, its namespace (empty for the root graph), and its id, a UUID of
/// version 6. Ids sort by time. The *latest* checkpoint of a thread and namespace is the one with the greatest id.
///
/// Every commit needs a [`Lease`], which is the exclusive right to write to the thread. If another claim has taken over
/// the thread, the saver refuses the commit.
///
/// The seven required methods cover leases, commits, reads and the deletion of threads. Three more traits are optional:
/// [`Inbox`] for inboxes and timers, [`ThreadAdmin`] for administration, and
/// [`CheckpointCache`](super::CheckpointCache) for faster reads. If a saver implements them, it returns them in
/// [`capabilities`](Self::capabilities). To wrap another saver, implement [`SaverLayer`](super::SaverLayer) instead of
/// this trait.
///
/// A call begins when its future is first polled. The order of calls is the order of these first polls.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a saver of threads",
    label = "not a saver",
    note = "savers are `MemorySaver::new()`, `Sqlite::open(…).await?`, `Postgres::connect(…).await?`, and an `Arc` of one: await a future \
            that opens a saver"
)]
#[async_trait]
pub trait Checkpointer: Send + Sync + 'static {
    /// Claims a thread for a run. The thread need not exist. The token of the lease is greater than the tokens of all
    /// earlier claims on the thread, even if the thread was deleted in between.
    ///
    /// Cancel safety: if the future is dropped, the saver releases a lease that it has granted, or the lease expires.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Invalid`] for an id that [`check_thread`](super::check_thread) rejects, and with
    /// [`SaverError::Busy`] if another run holds the thread and [`Claim::when_running`] does not allow a takeover.
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError>;

    /// Renews the lease. It then expires after another [`Claim::lasts`].
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Superseded`] if another claim has taken over the thread, or if the thread was deleted.
    async fn renew(&self, lease: &Lease) -> Result<(), SaverError>;

    /// Releases the thread. Does nothing if another claim has taken over the thread.
    async fn release(&self, lease: &Lease) -> Result<(), SaverError>;

    /// Stores the records of a commit in order, together with its [side effects](Commit::also), in one transaction.
    /// Commits take effect in the order of the calls. When the future resolves, the commit is stored, and a crash does
    /// not lose it.
    ///
    /// * A checkpoint replaces an existing one with the same id.
    /// * In a slot from 0 upwards, the saver keeps the first pending write of a task, and ignores other writes to this
    ///   slot. In a slot below 0, a later write replaces the earlier one.
    /// * If [`Commit::release`] is true, the saver may release the lease in the transaction. A saver that releases the
    ///   lease returns [`LeaseState::Released`]. Otherwise, it returns [`LeaseState::Held`].
    /// * A saver without an [`Inbox`] calls [`Commit::into_records`], which fails if the commit has side effects.
    ///
    /// Cancel safety: if the future is dropped, the commit is stored as a whole or not at all.
    ///
    /// # Errors
    ///
    /// After an error, the saver has stored nothing of the commit, and has not released the lease.
    ///
    /// * [`SaverError::Superseded`]: another claim has taken over the thread, or the thread was deleted.
    ///   [`SaverError::superseded`] distinguishes the two.
    /// * [`SaverError::Gone`]: a checkpoint refers to a value that was deleted during the run. Such a value is neither
    ///   stored in the namespace of the checkpoint nor part of this commit (see [`builds_on`](super::builds_on)).
    /// * [`SaverError::Invalid`]: a message to remove is not in the inbox.
    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError>;

    /// Returns the checkpoint with this id, with its values and pending writes. If `id` is `None`, returns the latest
    /// checkpoint. Returns `None` if the checkpoint does not exist. The pending writes are sorted by path, then by
    /// task and then by slot.
    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError>;

    /// Returns the checkpoints that match the query, newest first, without their values.
    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError>;

    /// Deletes a thread and the threads of its [background subagents](super::background), with all namespaces, values,
    /// pending writes and inbox messages. Does nothing if the thread does not exist.
    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError>;

    /// Returns the optional capabilities of this saver. By default, a saver has no optional capabilities.
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }

    /// Returns the saver's implementation of [`Inbox`]. To offer inboxes, override
    /// [`capabilities`](Self::capabilities), and not this method.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::NotSupported`] if the saver has no inboxes.
    fn inbox(&self) -> Result<&dyn Inbox, SaverError> {
        self.capabilities().inbox.ok_or_else(|| SaverError::not_supported("timers and inboxes"))
    }

    /// Returns the saver's implementation of [`ThreadAdmin`]. To offer administration, override
    /// [`capabilities`](Self::capabilities), and not this method.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::NotSupported`] if the saver has no administration.
    fn admin(&self) -> Result<&dyn ThreadAdmin, SaverError> {
        self.capabilities().admin.ok_or_else(|| SaverError::not_supported("administration of threads"))
    }
}

/// The records and side effects that a saver stores in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Commit {
    /// The records, in order.
    pub records: Vec<WriteRecord>,
    /// The changes to the inbox and the timer of the thread.
    pub also: Option<Box<SideEffects>>,
    /// True for the last commit of a run. The saver may then release the lease in the transaction of this commit.
    pub release: bool,
}

impl Commit {
    /// Creates a commit of these records.
    pub fn new(records: Vec<WriteRecord>) -> Self {
        Self { records, ..Self::default() }
    }

    /// Sets the side effects. Replaces the side effects of an earlier call.
    #[must_use]
    pub fn also(mut self, also: SideEffects) -> Self {
        self.also = (!also.is_empty()).then(|| Box::new(also));
        self
    }

    /// Marks the commit as the last one of its run.
    #[must_use]
    pub fn release(mut self) -> Self {
        self.release = true;
        self
    }

    /// Returns the records of the commit. A saver that does not implement [`Inbox`] calls this method.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::NotSupported`] if the commit has side effects.
    pub fn into_records(self) -> Result<Vec<WriteRecord>, SaverError> {
        if self.also.is_some() { Err(SaverError::not_supported("timers and inboxes")) } else { Ok(self.records) }
    }

    /// Returns true if the commit has neither records nor side effects.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty() && self.also.is_none()
    }
}

impl From<Vec<WriteRecord>> for Commit {
    fn from(records: Vec<WriteRecord>) -> Self {
        Self::new(records)
    }
}

/// The state of a lease after a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseState {
    /// The caller still holds the lease.
    Held,
    /// The saver has released the lease in the transaction of the commit.
    Released,
}
