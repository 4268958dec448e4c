//! The checkpoints beside the runs: those of a [`MemorySaver`](crate::checkpoint::MemorySaver), whose leases the runs have to know.

use std::sync::Arc;
use std::time::{Instant, SystemTime};

use async_trait::async_trait;
use uuid::Uuid;

use super::MemoryRuns;
use super::tables::Holder;
use crate::checkpoint::{
    Also, Checkpointer, Claim, Conversations, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, Posted, Prune,
    Record, Saved, SaverError, ThreadInfo,
};

#[async_trait]
impl Checkpointer for MemoryRuns {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let lease = self.saver.acquire(thread, claim).await?;
        self.tables().hold(thread, Holder::Nobody);
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
        self.shared.bell.ring_runs();
        Ok(())
    }

    async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError> {
        self.saver.commit(lease, records).await
    }

    async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
        self.saver.commit_also(lease, records, also).await
    }

    async fn post(&self, thread: &str, graph: &str, letter: Letter) -> Result<bool, SaverError> {
        self.saver.post(thread, graph, letter).await
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
        let now = SystemTime::now();
        let expired: Vec<String> = {
            let tables = self.tables();
            let expired = tables.threads.values().filter(|entry| entry.row.is_expired(now));
            expired.map(|entry| entry.row.id.clone()).collect()
        };
        for thread in &expired {
            self.tables().remove(thread);
            self.saver.delete_thread(thread).await?;
        }
        Ok(self.saver.sweep().await? + expired.len() as u64)
    }

    fn leases_expire(&self) -> bool {
        self.saver.leases_expire()
    }

    fn conversations(&self) -> Option<&Conversations> {
        self.saver.conversations()
    }
}
