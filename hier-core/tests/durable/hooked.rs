//! A saver in memory that asks the test before each call of a run.

use futures_util::future::BoxFuture;
use hier_core::async_trait;
use hier_core::checkpoint::{
    Checkpointer, Claim, Lease, ListQuery, Listed, MemorySaver, Prune, Record, Saved, SaverError, ThreadInfo,
};
use uuid::Uuid;

/// A call of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Acquire,
    Renew,
    Release,
    /// With the bytes of the values.
    Commit(usize),
}

type Hook = Box<dyn Fn(Call) -> BoxFuture<'static, Result<(), SaverError>> + Send + Sync>;

/// Keeps what `MemorySaver` keeps, once the hook has let the call pass.
pub(crate) struct Hooked {
    pub(crate) memory: MemorySaver,
    /// How long its leases run.
    pub(crate) lasts: std::time::Duration,
    hook: Hook,
}

impl Hooked {
    pub(crate) fn new<F>(hook: impl Fn(Call) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), SaverError>> + Send + 'static,
    {
        let hook: Hook = Box::new(move |call| Box::pin(hook(call)));
        Self { memory: MemorySaver::new(), lasts: Claim::default().lasts, hook }
    }
}

#[async_trait]
impl Checkpointer for Hooked {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        (self.hook)(Call::Acquire).await?;
        let mut lease = self.memory.acquire(thread, claim).await?;
        lease.lasts = self.lasts;
        Ok(lease)
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        (self.hook)(Call::Renew).await?;
        self.memory.renew(lease).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        (self.hook)(Call::Release).await?;
        self.memory.release(lease).await
    }

    async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError> {
        let bytes = records.iter().map(|record| match record {
            Record::Checkpoint { pieces, .. } => pieces.iter().map(|piece| piece.bytes.len()).sum(),
            Record::Writes { writes, .. } => writes.writes.iter().map(|write| write.value.len()).sum::<usize>(),
        });
        (self.hook)(Call::Commit(bytes.sum())).await?;
        self.memory.commit(lease, records).await
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

    fn leases_expire(&self) -> bool {
        true
    }
}
