//! A saver that stores so many commits and then no more, as if the process had died; and that tells what was stored.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::async_trait;
use hier_core::checkpoint::{
    Also, Checkpointer, Claim, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, MemorySaver, Posted, Prune,
    Record, Saved, SaverError, ThreadInfo,
};
use uuid::Uuid;

/// Keeps what `MemorySaver` keeps, until so many commits have been stored.
pub(crate) struct Faulty {
    pub(crate) memory: MemorySaver,
    left: AtomicUsize,
    /// What was stored, in order.
    pub(crate) records: Mutex<Vec<Record>>,
}

impl Faulty {
    pub(crate) fn new(memory: &MemorySaver, commits: usize) -> Self {
        Self { memory: memory.clone(), left: AtomicUsize::new(commits), records: Mutex::default() }
    }
}

#[async_trait]
impl Checkpointer for Faulty {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        self.memory.acquire(thread, claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        self.memory.renew(lease).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        self.memory.release(lease).await
    }

    async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError> {
        let alive = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if alive {
            self.records.lock().expect("no test panics here").extend(records.iter().cloned());
            return self.memory.commit(lease, records).await;
        }
        let error = SaverError::database("storing", std::io::Error::other("the process has died"));
        Err(error)
    }

    async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
        let alive = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if alive {
            self.records.lock().expect("no test panics here").extend(records.iter().cloned());
            return self.memory.commit_also(lease, records, also).await;
        }
        Err(SaverError::database("storing", std::io::Error::other("the process has died")))
    }

    async fn post(&self, thread: &str, graph: &str, letter: Letter) -> Result<bool, SaverError> {
        self.memory.post(thread, graph, letter).await
    }

    async fn mail(&self, thread: &str) -> Result<Vec<Posted>, SaverError> {
        self.memory.mail(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.memory.due(query).await
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        self.memory.get(thread, namespace, id).await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        self.memory.list(query).await
    }

    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        self.memory.threads(limit).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError> {
        self.memory.delete_thread(thread).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError> {
        self.memory.copy_thread(from, to).await
    }

    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        self.memory.delete_for_runs(runs).await
    }

    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        self.memory.prune(prune).await
    }

    async fn sweep(&self) -> Result<u64, SaverError> {
        self.memory.sweep().await
    }

    // So that what is stored in the background is stored in the background here too.
    fn leases_expire(&self) -> bool {
        true
    }
}
