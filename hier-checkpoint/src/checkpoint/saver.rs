//! The contract of savers: [`Checkpointer`].

use async_trait::async_trait;
use uuid::Uuid;

use super::capability::{Capabilities, Inbox, ThreadAdmin};
use super::{Claim, Lease, ListQuery, Listed, Saved, SaverError, SideEffects, WriteRecord};

/// Keeps the checkpoints of threads. Object-safe: graphs hold an `Arc<dyn Checkpointer>`.
///
/// A checkpoint is addressed by thread, namespace (of a subgraph; the root's is empty) and id. Ids are UUIDs of version 6. They sort by
/// time, and the *latest* checkpoint has the greatest id of its thread and namespace.
///
/// Every commit needs a [`Lease`]: the proof that its holder was the last to claim the thread.
///
/// A saver implements the seven required methods: leases, commits, reads and the deletion of a thread. Inboxes and timers
/// ([`Inbox`]), administration ([`ThreadAdmin`]) and faster reads ([`CheckpointCache`](super::CheckpointCache)) are separate traits. A
/// saver that implements one of them returns itself in [`capabilities`](Self::capabilities). A saver that wraps another one implements
/// [`SaverLayer`](super::SaverLayer) instead.
///
/// Write the implementation with [`async_trait`](crate::async_trait). A call begins when its future is first polled. If the order of
/// calls matters, it is the order of these polls.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a saver of threads",
    label = "not a saver",
    note = "savers are `MemorySaver::new()`, `Sqlite::open(…).await?`, `Postgres::connect(…).await?`, and an `Arc` of one: await a future \
            that opens a saver"
)]
#[async_trait]
pub trait Checkpointer: Send + Sync + 'static {
    /// Claims a thread for a run. The thread need not exist. The token of the lease is greater than the tokens of all earlier claims of
    /// the thread, even after the thread was deleted.
    ///
    /// # Errors
    ///
    /// [`SaverError::Invalid`] for a name that [`check_thread`](super::check_thread) rejects. [`SaverError::Busy`] if
    /// [`Claim::when_running`] does not allow a takeover and another run holds the thread.
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError>;

    /// Renews the lease for another [`Claim::lasts`].
    ///
    /// # Errors
    ///
    /// [`SaverError::Superseded`] if another claim has taken the thread over.
    async fn renew(&self, lease: &Lease) -> Result<(), SaverError>;

    /// Releases the thread. Does nothing if another claim has taken it over.
    async fn release(&self, lease: &Lease) -> Result<(), SaverError>;

    /// Stores the records of a commit in order, together with its [side effects](Commit::also): all of them or none, and not before the
    /// records of earlier calls. When the future resolves they survive a crash.
    ///
    /// A checkpoint with the id of an existing one replaces it. A pending write to a slot from 0 on is stored once: a second write of the
    /// same task to the same slot is ignored. A slot below 0 is overwritten.
    ///
    /// If the commit [asks for it](Commit::release), a saver may release the lease in the same transaction, as [`release`](Self::release)
    /// does. It reports that with [`LeaseState::Released`]. A saver that never does so returns [`LeaseState::Held`].
    ///
    /// A saver without an [`Inbox`] refuses side effects: it calls [`Commit::into_records`].
    ///
    /// # Errors
    ///
    /// After an error nothing is stored, and the lease is held as before. [`SaverError::Superseded`] if another claim has taken the thread
    /// over. [`SaverError::Gone`] if a checkpoint refers to a version of a channel, or a delta to a base, that is neither stored in its
    /// namespace nor part of this commit (see [`builds_on`](super::builds_on)): it was deleted during the run. [`SaverError::Invalid`] if
    /// the commit takes a message that is not in the inbox of the thread.
    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError>;

    /// Returns the checkpoint with this id, or the latest one, with its values and pending writes. The pending writes are in the order of
    /// (path, task, slot).
    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError>;

    /// Returns checkpoints without their values, newest first.
    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError>;

    /// Deletes the checkpoints, values, pending writes and inbox messages of a thread, in all namespaces, and those of its
    /// [background threads](super::background). An unknown thread is not an error.
    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError>;

    /// Returns the optional capabilities of this saver. Defaults to none.
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
    }

    /// Returns the inboxes of this saver's threads. A saver overrides [`capabilities`](Self::capabilities) instead of this method.
    ///
    /// # Errors
    ///
    /// [`SaverError::NotSupported`] if the saver has none.
    fn inbox(&self) -> Result<&dyn Inbox, SaverError> {
        self.capabilities().inbox.ok_or_else(|| SaverError::not_supported("timers and inboxes"))
    }

    /// Returns the administration of this saver's threads. A saver overrides [`capabilities`](Self::capabilities) instead of this method.
    ///
    /// # Errors
    ///
    /// [`SaverError::NotSupported`] if the saver has none.
    fn admin(&self) -> Result<&dyn ThreadAdmin, SaverError> {
        self.capabilities().admin.ok_or_else(|| SaverError::not_supported("administration of threads"))
    }
}

/// Records, and changes next to them, that a saver stores in one transaction.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Commit {
    /// The records, in order.
    pub records: Vec<WriteRecord>,
    /// Changes of the thread's inbox and timer. None if the commit has only records.
    pub also: Option<Box<SideEffects>>,
    /// True for the last commit of a run: the saver may release the lease with it.
    pub release: bool,
}

impl Commit {
    /// Creates a commit of these records.
    pub fn new(records: Vec<WriteRecord>) -> Self {
        Self { records, ..Self::default() }
    }

    /// Adds side effects.
    #[must_use]
    pub fn also(mut self, also: SideEffects) -> Self {
        self.also = (!also.is_empty()).then(|| Box::new(also));
        self
    }

    /// Asks the saver to release the lease with this commit.
    #[must_use]
    pub fn release(mut self) -> Self {
        self.release = true;
        self
    }

    /// Returns the records, for savers without an [`Inbox`].
    ///
    /// # Errors
    ///
    /// [`SaverError::NotSupported`] if the commit has side effects.
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
