//! The saver as the engine calls it: a panic in it is an error.

use std::sync::Arc;

use uuid::Uuid;

use crate::checkpoint::{
    self, Also, Checkpointer, Claim, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, Posted, Record, Saved,
    SaverError,
};
use crate::panics;

/// A saver whose panics become [`SaverError::Panicked`], whatever of it is called.
#[derive(Clone)]
pub(crate) struct Saver(Arc<dyn Checkpointer>);

macro_rules! guarded {
    ($($method:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {$(
        #[inline]
        pub(crate) async fn $method(&self, $($argument: $type),*) -> Result<$output, SaverError> {
            guarded(async { self.0.$method($($argument),*).await }).await
        }
    )+};
}

impl Saver {
    pub(crate) fn new(saver: Arc<dyn Checkpointer>) -> Self {
        Self(saver)
    }

    guarded! {
        acquire(thread: &str, claim: Claim) -> Lease;
        renew(lease: &Lease) -> ();
        release(lease: &Lease) -> ();
        commit(lease: &Lease, records: Vec<Record>) -> ();
        commit_also(lease: &Lease, records: Vec<Record>, also: Also) -> ();
        get(thread: &str, namespace: &str, id: Option<Uuid>) -> Option<Saved>;
        list(query: ListQuery) -> Vec<Listed>;
        post(thread: &str, graph: &str, letter: Letter) -> bool;
        mail(thread: &str) -> Vec<Posted>;
        due(query: DueQuery) -> Vec<DueThread>;
    }

    pub(crate) async fn discard(&self, thread: &str, claim: Claim, id: Uuid) -> Result<bool, SaverError> {
        guarded(checkpoint::discard(&*self.0, thread, claim, id)).await
    }

    pub(crate) fn leases_expire(&self) -> bool {
        self.0.leases_expire()
    }
}

/// Runs a call of the saver; its panics become errors.
async fn guarded<T>(work: impl Future<Output = Result<T, SaverError>>) -> Result<T, SaverError> {
    panics::caught(work).await.unwrap_or_else(|payload| Err(SaverError::Panicked { message: panics::text(&*payload) }))
}
