//! The saver, as the engine calls it. A panic in the saver becomes an error.

use std::sync::Arc;

use hier_checkpoint::checkpoint::guard::{GuardedCall, guarded};
use uuid::Uuid;

use super::deferred::Deferred;
use crate::checkpoint::{
    self, Checkpointer, Claim, Commit, Conversations, Delivered, DueQuery, DueThread, InboxMessage, Lease, LeaseState,
    ListQuery, Listed, PostOutcome, Saved, SaverError, SideEffects, WriteRecord,
};
use crate::runs::overlay;

pub(crate) type Call<'a, T> = GuardedCall<'a, T, SaverError>;

/// A wrapper around a checkpointer that the engine uses for all calls. If the checkpointer panics during a call, the
/// call returns [`SaverError::Panicked`].
#[derive(Clone)]
pub struct Saver {
    saver: Arc<dyn Checkpointer>,
    /// Records that reads return as if they were stored.
    deferred: Option<Arc<Deferred>>,
}

impl Saver {
    pub(crate) fn new(saver: Arc<dyn Checkpointer>) -> Self {
        Self { saver, deferred: None }
    }

    /// Returns a saver whose reads include records that wait for the end of a run.
    pub(crate) fn over(&self, deferred: Arc<Deferred>) -> Self {
        Self { deferred: Some(deferred), ..self.clone() }
    }

    #[inline]
    pub(crate) fn acquire<'a>(&'a self, thread: &'a str, claim: Claim) -> Call<'a, Lease> {
        Call::new(|| self.saver.acquire(thread, claim))
    }

    #[inline]
    pub(crate) fn renew<'a>(&'a self, lease: &'a Lease) -> Call<'a, ()> {
        Call::new(|| self.saver.renew(lease))
    }

    #[inline]
    pub(crate) fn release<'a>(&'a self, lease: &'a Lease) -> Call<'a, ()> {
        Call::new(|| self.saver.release(lease))
    }

    #[inline]
    pub(crate) async fn commit(&self, lease: &Lease, records: Vec<WriteRecord>) -> Result<(), SaverError> {
        Call::new(|| self.saver.commit(lease, Commit::new(records))).await.map(|_| ())
    }

    #[inline]
    pub(crate) async fn commit_also(
        &self,
        lease: &Lease,
        records: Vec<WriteRecord>,
        also: SideEffects,
    ) -> Result<(), SaverError> {
        Call::new(|| self.saver.commit(lease, Commit::new(records).also(also))).await.map(|_| ())
    }

    /// Commits for the last time in a run. Returns true if the saver released the lease in the same transaction.
    #[inline]
    pub(crate) async fn commit_last(
        &self,
        lease: &Lease,
        records: Vec<WriteRecord>,
        also: SideEffects,
    ) -> Result<bool, SaverError> {
        let commit = Commit::new(records).also(also).release();
        Call::new(|| self.saver.commit(lease, commit)).await.map(|state| state == LeaseState::Released)
    }

    pub(crate) fn get_changed<'a>(
        &'a self,
        thread: &'a str,
        namespace: &'a str,
        id: Option<Uuid>,
        known: &'a [(Arc<str>, Uuid)],
    ) -> Call<'a, Option<Saved>> {
        Call::new(|| match self.saver.capabilities().cache {
            Some(cache) => cache.get_changed(thread, namespace, id, known),
            None => self.saver.get(thread, namespace, id),
        })
    }

    pub(crate) fn post<'a>(&'a self, thread: &'a str, graph: &'a str, letter: InboxMessage) -> Call<'a, PostOutcome> {
        Call::or_ready(|| self.saver.inbox().map(|inbox| inbox.post(thread, graph, letter)).map_err(Err))
    }

    /// Returns the messages of a thread. Returns an empty list if the saver has no inboxes.
    pub(crate) fn mail<'a>(&'a self, thread: &'a str) -> Call<'a, Vec<Delivered>> {
        Call::or_ready(|| self.saver.inbox().map(|inbox| inbox.messages(thread)).map_err(|_| Ok(Vec::new())))
    }

    /// Returns the threads that are due. Returns an empty list if the saver has no inboxes.
    pub(crate) fn due(&self, query: DueQuery) -> Call<'_, Vec<DueThread>> {
        Call::or_ready(|| self.saver.inbox().map(|inbox| inbox.due(query)).map_err(|_| Ok(Vec::new())))
    }

    pub(crate) async fn get(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
    ) -> Result<Option<Saved>, SaverError> {
        let held = self.deferred.as_ref().map(|deferred| deferred.records(Some(namespace))).unwrap_or_default();
        if held.is_empty() {
            return Call::new(|| self.saver.get(thread, namespace, id)).await;
        }
        let read = overlay::get(&*self.saver, &held, thread, namespace, id);
        Box::pin(guarded(read)).await?.ok_or_else(|| SaverError::Damaged {
            thread: thread.to_owned(),
            reason: "checkpoints of a running subgraph were deleted: run the thread from an earlier checkpoint"
                .to_owned(),
        })
    }

    /// Lists checkpoints. A query for one thread also lists the checkpoints that wait for the end of the run.
    pub(crate) async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        let held = self.deferred.as_ref().map(|deferred| deferred.records(query.namespace.as_deref()));
        match (held.filter(|held| !held.is_empty()), query.thread.as_deref().map(Arc::from)) {
            (Some(held), Some(thread)) => Box::pin(guarded(overlay::list(&*self.saver, &held, &thread, query))).await,
            _ => Call::new(|| self.saver.list(query)).await,
        }
    }

    pub(crate) async fn discard(&self, thread: &str, claim: Claim, id: Uuid) -> Result<bool, SaverError> {
        guarded(checkpoint::discard(&*self.saver, thread, claim, id)).await
    }

    pub(crate) fn protects_values(&self) -> bool {
        self.saver.capabilities().protects_values
    }

    pub(crate) fn leases_expire(&self) -> bool {
        self.saver.capabilities().leases_expire
    }

    pub(crate) fn conversations(&self) -> Option<&Conversations> {
        self.saver.capabilities().cache?.conversations()
    }
}
