//! The checkpoints of a store of runs, for a request that may change one thread.

use std::sync::Arc;

use async_trait::async_trait;

use super::RunStore;
use super::thread::ThreadIs;
use hier_checkpoint::checkpoint::{
    Capabilities, Checkpointer, Claim, Delivered, DueQuery, DueThread, Inbox, InboxMessage, Lease, PostOutcome,
    SaverError, SaverLayer,
};

/// A saver that claims a thread, and sends a message to a thread, only if the thread meets a condition. Otherwise these
/// calls fail with [`SaverError::Deleted`]. All other calls are forwarded to the store.
///
/// Use this saver after a check of access rights, with the condition [`ThreadIs::this`]. Between the check and the
/// call, the thread may be deleted, and another user may create a thread with the same id.
pub struct OneThread {
    store: Arc<dyn RunStore>,
    is: ThreadIs,
}

impl OneThread {
    /// Creates a saver over this store, for a thread that meets the condition.
    pub fn new(store: Arc<dyn RunStore>, is: ThreadIs) -> Self {
        Self { store, is }
    }
}

#[async_trait]
impl SaverLayer for OneThread {
    type Inner = dyn RunStore;

    fn inner(&self) -> &dyn RunStore {
        &*self.store
    }

    /// Claims the thread if it meets the condition. The lease ends if the thread is deleted later.
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let lease = self.store.acquire(thread, claim).await?;
        let found = self.store.thread(thread).await;
        if found.as_ref().is_ok_and(|found| found.as_ref().is_some_and(|row| self.is.is(row))) {
            return Ok(lease);
        }
        self.store.release(&lease).await?;
        Err(found.err().map_or_else(|| SaverError::deleted(thread), SaverError::from))
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.store.capabilities().with_inbox(self)
    }
}

#[async_trait]
impl Inbox for OneThread {
    async fn post(&self, thread: &str, graph: &str, message: InboxMessage) -> Result<PostOutcome, SaverError> {
        self.store.post_if(thread, self.is.clone(), graph, message).await.map_err(SaverError::from)
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        self.store.inbox()?.messages(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.store.inbox()?.due(query).await
    }
}

impl std::fmt::Debug for OneThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneThread").field("is", &self.is).finish_non_exhaustive()
    }
}
