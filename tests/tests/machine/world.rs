//! What is outside of the thread: who fails, what was committed, what ran again though it was.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hier_core::async_trait;
use hier_core::checkpoint::{
    Checkpointer, Claim, Lease, ListQuery, Listed, Prune, Record, Saved, SaverError, ThreadInfo,
};
use hier_core::prelude::*;
use uuid::Uuid;

/// What a Send carries.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) number: usize,
    pub(crate) kind: Kind,
}

/// What becomes of an item at its first attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    #[default]
    Plain,
    Asks,
    AsksTwice,
    Fails,
}

/// The context of all runs.
#[derive(Clone, Default)]
pub(crate) struct World(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    failed: BTreeSet<String>,
    committed: BTreeSet<Uuid>,
    again: BTreeMap<Uuid, String>,
}

impl World {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A task begins, or begins again.
    pub(crate) fn enters(&self, run: &Run<Self>) {
        let mut inner = self.lock();
        if inner.committed.contains(&run.task_id()) {
            inner.again.insert(run.task_id(), run.node().to_owned());
        }
    }

    /// Fails the first time, whoever it is.
    pub(crate) fn fails(&self, name: &str) -> Result<()> {
        if self.lock().failed.insert(name.to_owned()) {
            return Err(NodeError::permanent(format!("{name} fails once")));
        }
        Ok(())
    }

    /// Places where a run can be killed.
    pub(crate) async fn pauses(&self) {
        for _ in 0..2 {
            tokio::task::yield_now().await;
        }
    }

    /// From now on other tasks are what they were: the thread went back.
    pub(crate) fn went_back(&self) {
        self.lock().committed.clear();
    }

    /// The nodes that ran though what they had done was committed.
    pub(crate) fn ran_again(&self) -> Vec<String> {
        self.lock().again.values().cloned().collect()
    }
}

/// A saver that tells the world which tasks it has committed.
pub(crate) struct Watched {
    pub(crate) saver: Arc<dyn Checkpointer>,
    pub(crate) world: World,
    /// Whether it loses what tasks wrote: that must be noticed.
    pub(crate) forgets: bool,
}

#[async_trait]
impl Checkpointer for Watched {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        self.saver.acquire(thread, claim).await
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        self.saver.renew(lease).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        self.saver.release(lease).await
    }

    async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError> {
        let done: Vec<Uuid> = records.iter().filter_map(done).collect();
        let kept = records.into_iter().filter(|record| !self.forgets || matches!(record, Record::Checkpoint { .. }));
        self.saver.commit(lease, kept.collect()).await?;
        self.world.lock().committed.extend(done);
        Ok(())
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        self.saver.get(thread, namespace, id).await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        self.saver.list(query).await
    }

    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        self.saver.threads(limit).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError> {
        self.saver.delete_thread(thread).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError> {
        self.saver.copy_thread(from, to).await
    }

    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        self.saver.delete_for_runs(runs).await
    }

    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        self.saver.prune(prune).await
    }

    async fn sweep(&self) -> Result<u64, SaverError> {
        self.saver.sweep().await
    }

    fn leases_expire(&self) -> bool {
        self.saver.leases_expire()
    }
}

/// The task whose result a record has: what it wrote, or that it wrote nothing.
fn done(record: &Record) -> Option<Uuid> {
    match record {
        Record::Writes { writes, .. } if writes.writes.iter().any(|write| write.slot >= 0) => Some(writes.task),
        _ => None,
    }
}
