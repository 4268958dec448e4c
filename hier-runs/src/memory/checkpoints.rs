//! The checkpoints of a [`MemoryRuns`]: those of a [`MemorySaver`], with leases that the runs know.

use std::time::{Instant, SystemTime};

use async_trait::async_trait;

use super::MemoryRuns;
use super::tables::Holder;
use hier_checkpoint::checkpoint::{
    Capabilities, Checkpointer, Claim, Commit, Lease, LeaseState, MemorySaver, Prune, SaverError, SaverLayer,
    ThreadAdmin, ThreadInfo,
};

#[async_trait]
impl SaverLayer for MemoryRuns {
    type Inner = MemorySaver;

    fn inner(&self) -> &MemorySaver {
        &self.saver
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let lease = self.saver.acquire(thread, claim).await?;
        self.tables().hold(thread, Holder::None);
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        self.saver.renew(lease).await?;
        self.tables().renew(lease, Instant::now());
        Ok(())
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        self.tables().let_go(lease);
        self.saver.release(lease).await?;
        self.shared.bell.notify_runs();
        Ok(())
    }

    /// Stores a commit, and never releases the lease. Only [`release`](Self::release) does.
    async fn commit(&self, lease: &Lease, mut commit: Commit) -> Result<LeaseState, SaverError> {
        commit.release = false;
        self.saver.commit(lease, commit).await
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.saver.capabilities().with_admin(self)
    }
}

#[async_trait]
impl ThreadAdmin for MemoryRuns {
    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        self.saver.threads(limit).await
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
        let now = SystemTime::now();
        let expired = {
            // Under the lock, so that no run is added to an expired thread before its deletion.
            let mut tables = self.tables();
            let expired = tables.threads.values().filter(|entry| entry.row.is_expired(now));
            let expired: Vec<String> = expired.map(|entry| entry.row.id.clone()).collect();
            for thread in &expired {
                tables.remove(thread);
                self.saver.delete_now(thread);
            }
            expired.len() as u64
        };
        Ok(self.saver.sweep().await? + expired)
    }
}
