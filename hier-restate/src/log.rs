//! The log of a thread: its commits, in order. A saver records what a slice writes.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use hier_core::checkpoint::{
    Also, Checkpointer, Claim, Conversations, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, MemorySaver,
    Posted, Prune, Record, Saved, SaverError, ThreadInfo, WhenRunning,
};
use hier_core::drive;
use uuid::Uuid;

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

/// Repeats recorded commits.
pub(crate) async fn replay(saver: &MemorySaver, thread: &str, entries: Vec<LogEntry>) -> Result<(), SaverError> {
    let lease = saver.acquire(thread, Claim { when_running: WhenRunning::TakeOver, ..Claim::default() }).await?;
    for entry in entries {
        match entry {
            LogEntry::Commit(records, also) => saver.commit_also(&lease, records, also).await?,
            LogEntry::Post(graph, letter) => {
                saver.post(thread, &graph, letter).await?;
            }
        }
    }
    saver.release(&lease).await
}

/// A run changes only its own thread.
fn not_here(what: &str) -> SaverError {
    SaverError::Invalid(format!("{what} cannot be done by a piece of a run on a cluster: use the client"))
}

#[deny(clippy::missing_trait_methods, reason = "each call is passed on, kept or refused")]
#[async_trait]
impl Checkpointer for ThreadLog {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        // Restate runs one slice of a thread at a time. Another holder is a run that was dropped.
        self.saver.acquire(thread, Claim { when_running: WhenRunning::TakeOver, ..claim }).await
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        self.saver.renew(lease).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        self.saver.release(lease).await
    }

    async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError> {
        self.commit_also(lease, records, Also::default()).await
    }

    async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
        self.saver.commit_also(lease, records.clone(), also.clone()).await?;
        if !records.is_empty() || !also.is_empty() {
            self.note(LogEntry::Commit(records, also));
        }
        Ok(())
    }

    /// The lease belongs to this process and is released when the run ends.
    async fn commit_last(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<bool, SaverError> {
        self.commit_also(lease, records, also).await.map(|()| false)
    }

    async fn post(&self, thread: &str, graph: &str, letter: Letter) -> Result<bool, SaverError> {
        let new = self.saver.post(thread, graph, letter.clone()).await?;
        if new {
            self.note(LogEntry::Post(graph.to_owned(), letter));
        }
        Ok(new)
    }

    async fn mail(&self, thread: &str) -> Result<Vec<Posted>, SaverError> {
        self.saver.mail(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.saver.due(query).await
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        self.saver.get(thread, namespace, id).await
    }

    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError> {
        self.saver.get_changed(thread, namespace, id, known).await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        self.saver.list(query).await
    }

    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        self.saver.threads(limit).await
    }

    async fn delete_thread(&self, _: &str) -> Result<(), SaverError> {
        Err(not_here("deletion inside of a run"))
    }

    async fn copy_thread(&self, _: &str, _: &str) -> Result<(), SaverError> {
        Err(not_here("copies of threads"))
    }

    async fn delete_for_runs(&self, _: &[String]) -> Result<(), SaverError> {
        Err(not_here("deletion inside of a run"))
    }

    async fn prune(&self, _: Prune) -> Result<u64, SaverError> {
        Err(not_here("deletion inside of a run"))
    }

    async fn sweep(&self) -> Result<u64, SaverError> {
        Ok(0)
    }

    fn leases_expire(&self) -> bool {
        false
    }

    /// Each slice has a new log.
    fn conversations(&self) -> Option<&Conversations> {
        None
    }
}
