//! The saver as the engine calls it: a panic in it is an error.

use std::sync::Arc;

use uuid::Uuid;

use super::deferred::Deferred;
use crate::checkpoint::{
    self, Also, Checkpointer, Claim, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, Posted, Record, Saved,
    SaverError,
};
use crate::panics;
use crate::runs::overlay;

/// A saver whose panics become [`SaverError::Panicked`], whatever of it is called.
#[derive(Clone)]
pub(crate) struct Saver {
    saver: Arc<dyn Checkpointer>,
    /// What is read as if it were stored.
    deferred: Option<Arc<Deferred>>,
}

macro_rules! guarded {
    ($($method:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {$(
        #[inline]
        pub(crate) async fn $method(&self, $($argument: $type),*) -> Result<$output, SaverError> {
            guarded(async { self.saver.$method($($argument),*).await }).await
        }
    )+};
}

impl Saver {
    pub(crate) fn new(saver: Arc<dyn Checkpointer>) -> Self {
        Self { saver, deferred: None }
    }

    /// The same, with what waits for the end of a run.
    pub(crate) fn over(&self, deferred: Arc<Deferred>) -> Self {
        Self { deferred: Some(deferred), ..self.clone() }
    }

    guarded! {
        acquire(thread: &str, claim: Claim) -> Lease;
        renew(lease: &Lease) -> ();
        release(lease: &Lease) -> ();
        commit(lease: &Lease, records: Vec<Record>) -> ();
        commit_also(lease: &Lease, records: Vec<Record>, also: Also) -> ();
        post(thread: &str, graph: &str, letter: Letter) -> bool;
        mail(thread: &str) -> Vec<Posted>;
        due(query: DueQuery) -> Vec<DueThread>;
    }

    pub(crate) async fn get(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
    ) -> Result<Option<Saved>, SaverError> {
        let held = self.deferred.as_ref().map(|deferred| deferred.records(Some(namespace))).unwrap_or_default();
        if held.is_empty() {
            return guarded(async { self.saver.get(thread, namespace, id).await }).await;
        }
        let read = overlay::get(&*self.saver, &held, thread, namespace, id);
        Box::pin(guarded(read)).await?.ok_or_else(|| SaverError::Damaged {
            thread: thread.to_owned(),
            reason: "what a graph inside builds on was deleted while it ran".to_owned(),
        })
    }

    /// Of the thread whose run it is.
    pub(crate) async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        let held = self.deferred.as_ref().map(|deferred| deferred.records(query.namespace.as_deref()));
        match (held.filter(|held| !held.is_empty()), query.thread.as_deref().map(Arc::from)) {
            (Some(held), Some(thread)) => Box::pin(guarded(overlay::list(&*self.saver, &held, &thread, query))).await,
            _ => guarded(async { self.saver.list(query).await }).await,
        }
    }

    pub(crate) async fn discard(&self, thread: &str, claim: Claim, id: Uuid) -> Result<bool, SaverError> {
        guarded(checkpoint::discard(&*self.saver, thread, claim, id)).await
    }

    pub(crate) fn leases_expire(&self) -> bool {
        self.saver.leases_expire()
    }
}

/// Runs a call of the saver; its panics become errors.
async fn guarded<T>(work: impl Future<Output = Result<T, SaverError>>) -> Result<T, SaverError> {
    panics::caught(work).await.unwrap_or_else(|payload| Err(SaverError::Panicked { message: panics::text(&*payload) }))
}
