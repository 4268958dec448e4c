//! The log of a thread, which contains its commits in order. A saver in memory records the commits of a slice. A *head*
//! is a stored copy of the thread that replaces all earlier entries of the log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Claim, Commit, Delivered, DueQuery, DueThread, Inbox, InboxMessage, Lease, LeaseState,
    MemorySaver, PostOutcome, SaverError, SaverLayer, WhenRunning,
};
use hier_core::drive;

use crate::wire::{LogEntry, LogSource};

/// A thread in memory that records commits.
#[derive(Clone, Debug)]
pub(crate) struct ThreadLog {
    saver: MemorySaver,
    entries: Arc<Mutex<Vec<LogEntry>>>,
}

impl ThreadLog {
    pub(crate) fn new(saver: MemorySaver) -> Self {
        Self { saver, entries: Arc::default() }
    }

    pub(crate) fn take(&self) -> Vec<LogEntry> {
        std::mem::take(&mut *self.entries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, entry: LogEntry) {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner).push(entry);
    }
}

/// Restores a thread from its log.
pub(crate) async fn rebuilt(thread: &str, source: LogSource) -> Result<MemorySaver, SaverError> {
    let saver = MemorySaver::new();
    if let Some(head) = &source.head {
        let damaged =
            |error| SaverError::Damaged { thread: thread.to_owned(), reason: format!("cannot read its head: {error}") };
        drive::load(&saver, thread, head).map_err(damaged)?;
    }
    replay(&saver, thread, source.entries).await?;
    Ok(saver)
}

pub(crate) async fn replay(saver: &MemorySaver, thread: &str, entries: Vec<LogEntry>) -> Result<(), SaverError> {
    let lease = saver.acquire(thread, Claim { when_running: WhenRunning::TakeOver, ..Claim::default() }).await?;
    for entry in entries {
        match entry {
            LogEntry::Commit(records, also) => {
                saver.commit(&lease, Commit::new(records).also(also)).await?;
            }
            LogEntry::Post(graph, letter) => {
                saver.post(thread, &graph, letter).await?;
            }
        }
    }
    saver.release(&lease).await
}

#[async_trait]
impl SaverLayer for ThreadLog {
    type Inner = MemorySaver;

    fn inner(&self) -> &MemorySaver {
        &self.saver
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        // Restate lets only one run at a time use a thread. A lease in this log belongs to a run that was dropped.
        self.saver.acquire(thread, Claim { when_running: WhenRunning::TakeOver, ..claim }).await
    }

    /// Commits never release the lease, which belongs to this process. The end of the run releases it.
    async fn commit(&self, lease: &Lease, mut commit: Commit) -> Result<LeaseState, SaverError> {
        commit.release = false;
        let stored = self.saver.commit(lease, commit.clone()).await?;
        if !commit.is_empty() {
            self.note(LogEntry::Commit(commit.records, commit.also.map(|also| *also).unwrap_or_default()));
        }
        Ok(stored)
    }

    /// Fails, because a run on a cluster can change only its own thread.
    async fn delete_thread(&self, _: &str) -> Result<(), SaverError> {
        let reason = "a run on a cluster cannot delete threads: delete the thread with the client";
        Err(SaverError::Invalid(reason.to_owned()))
    }

    /// Has no cache, because each part of a run creates its own log.
    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default().with_inbox(self).with_leases_expiring(false)
    }
}

#[async_trait]
impl Inbox for ThreadLog {
    async fn post(&self, thread: &str, graph: &str, letter: InboxMessage) -> Result<PostOutcome, SaverError> {
        let outcome = self.saver.post(thread, graph, letter.clone()).await?;
        if outcome.is_new() {
            self.note(LogEntry::Post(graph.to_owned(), letter));
        }
        Ok(outcome)
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        self.saver.messages(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.saver.due(query).await
    }
}

/// A saver whose threads cannot be claimed. With this saver, the engine only checks an input.
pub(crate) struct UnclaimedThread {
    saver: Arc<dyn Checkpointer>,
    requested: AtomicBool,
}

impl UnclaimedThread {
    pub(crate) fn new(saver: Arc<dyn Checkpointer>) -> Self {
        Self { saver, requested: AtomicBool::new(false) }
    }

    /// Returns true if the engine has accepted the input and requested the thread.
    pub(crate) fn was_requested(&self) -> bool {
        self.requested.load(Ordering::Relaxed)
    }
}

#[async_trait]
impl SaverLayer for UnclaimedThread {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &*self.saver
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        self.requested.store(true, Ordering::Relaxed);
        Err(SaverError::Busy { thread: thread.to_owned(), holder: claim.holder })
    }
}
