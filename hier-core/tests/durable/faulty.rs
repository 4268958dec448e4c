//! A saver that stores so many commits and then no more, as if the process had died; and that tells what was stored.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::checkpoint::{
    Checkpointer, Claim, Lease, ListQuery, Listed, MemorySaver, Prune, Record, Saved, SaverError, Saving, ThreadInfo,
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

impl Checkpointer for Faulty {
    fn acquire<'a>(&'a self, thread: &'a str, claim: Claim) -> Saving<'a, Lease> {
        self.memory.acquire(thread, claim)
    }

    fn renew<'a>(&'a self, lease: &'a Lease) -> Saving<'a, ()> {
        self.memory.renew(lease)
    }

    fn release<'a>(&'a self, lease: &'a Lease) -> Saving<'a, ()> {
        self.memory.release(lease)
    }

    fn commit<'a>(&'a self, lease: &'a Lease, records: Vec<Record>) -> Saving<'a, ()> {
        let alive = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        if alive {
            self.records.lock().expect("no test panics here").extend(records.iter().cloned());
            return self.memory.commit(lease, records);
        }
        let error = SaverError::database("storing", std::io::Error::other("the process has died"));
        Box::pin(std::future::ready(Err(error)))
    }

    fn get<'a>(&'a self, thread: &'a str, namespace: &'a str, id: Option<Uuid>) -> Saving<'a, Option<Saved>> {
        self.memory.get(thread, namespace, id)
    }

    fn list(&self, query: ListQuery) -> Saving<'_, Vec<Listed>> {
        self.memory.list(query)
    }

    fn threads(&self, limit: Option<usize>) -> Saving<'_, Vec<ThreadInfo>> {
        self.memory.threads(limit)
    }

    fn delete_thread<'a>(&'a self, thread: &'a str) -> Saving<'a, ()> {
        self.memory.delete_thread(thread)
    }

    fn copy_thread<'a>(&'a self, from: &'a str, to: &'a str) -> Saving<'a, ()> {
        self.memory.copy_thread(from, to)
    }

    fn delete_for_runs<'a>(&'a self, runs: &'a [String]) -> Saving<'a, ()> {
        self.memory.delete_for_runs(runs)
    }

    fn prune(&self, prune: Prune) -> Saving<'_, u64> {
        self.memory.prune(prune)
    }

    fn sweep(&self) -> Saving<'_, u64> {
        self.memory.sweep()
    }

    // So that what is stored in the background is stored in the background here too.
    fn leases_expire(&self) -> bool {
        true
    }
}
