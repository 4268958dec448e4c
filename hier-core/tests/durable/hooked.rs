//! A saver in memory that asks the test before each call of a run.

use futures_util::future::BoxFuture;
use hier_core::async_trait;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Claim, Commit, Lease, LeaseState, MemorySaver, SaverError, WriteRecord,
};
use hier_testkit::{Layered, SaverLayer};

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
    /// The duration of its leases.
    pub(crate) lasts: std::time::Duration,
    hook: Hook,
}

impl Hooked {
    pub(crate) fn new<F>(hook: impl Fn(Call) -> F + Send + Sync + 'static) -> Layered<Self>
    where
        F: Future<Output = Result<(), SaverError>> + Send + 'static,
    {
        let hook: Hook = Box::new(move |call| Box::pin(hook(call)));
        Layered(Self { memory: MemorySaver::new(), lasts: Claim::default().lasts, hook })
    }
}

#[async_trait]
impl SaverLayer for Hooked {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.memory
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities().with_leases_expiring(true)
    }

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

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        let bytes = commit.records.iter().map(|record| match record {
            WriteRecord::Checkpoint { pieces, .. } => pieces.iter().map(|piece| piece.bytes.len()).sum(),
            WriteRecord::Writes { writes, .. } => writes.writes.iter().map(|write| write.value.len()).sum::<usize>(),
        });
        (self.hook)(Call::Commit(bytes.sum())).await?;
        self.memory.commit(lease, commit).await
    }
}
