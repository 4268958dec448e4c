//! The saver as the engine calls it: a panic in it is an error.

use std::any::Any;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;
use uuid::Uuid;

use super::deferred::Deferred;
use crate::checkpoint::{
    self, Also, Checkpointer, Claim, Conversations, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, Posted,
    Record, Saved, SaverError,
};
use crate::panics;
use crate::runs::overlay;

/// A saver whose panics become [`SaverError::Panicked`], whatever of it is called.
#[derive(Clone)]
pub struct Saver {
    saver: Arc<dyn Checkpointer>,
    /// What is read as if it were stored.
    deferred: Option<Arc<Deferred>>,
}

macro_rules! guarded {
    ($($method:ident($($argument:ident: $type:ty),*) -> $output:ty;)+) => {$(
        #[inline]
        pub(crate) fn $method<'a>(&'a self, $($argument: $type),*) -> Call<'a, $output> {
            Call::new(|| self.saver.$method($($argument),*))
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
        acquire(thread: &'a str, claim: Claim) -> Lease;
        renew(lease: &'a Lease) -> ();
        release(lease: &'a Lease) -> ();
        commit(lease: &'a Lease, records: Vec<Record>) -> ();
        commit_also(lease: &'a Lease, records: Vec<Record>, also: Also) -> ();
        commit_last(lease: &'a Lease, records: Vec<Record>, also: Also) -> bool;
        get_changed(
            thread: &'a str, namespace: &'a str, id: Option<Uuid>, known: &'a [(Arc<str>, Uuid)]
        ) -> Option<Saved>;
        post(thread: &'a str, graph: &'a str, letter: Letter) -> bool;
        mail(thread: &'a str) -> Vec<Posted>;
    }

    pub(crate) fn due(&self, query: DueQuery) -> Call<'_, Vec<DueThread>> {
        Call::new(|| self.saver.due(query))
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
            reason: "what a graph inside builds on was deleted while it ran".to_owned(),
        })
    }

    /// Of the thread whose run it is.
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

    pub(crate) fn leases_expire(&self) -> bool {
        self.saver.leases_expire()
    }

    pub(crate) fn conversations(&self) -> Option<&Conversations> {
        self.saver.conversations()
    }
}

/// A call of the saver: its panics become errors. Written out, since each step of a durable run makes one.
pub(crate) enum Call<'a, T> {
    Runs(BoxFuture<'a, Result<T, SaverError>>),
    /// It panicked before it began.
    Failed(SaverError),
}

impl<'a, T> Call<'a, T> {
    #[inline]
    fn new(call: impl FnOnce() -> BoxFuture<'a, Result<T, SaverError>>) -> Self {
        panics::catch(call).map_or_else(|payload| Self::Failed(panicked(&*payload)), Self::Runs)
    }
}

impl<T> Future for Call<'_, T> {
    type Output = Result<T, SaverError>;

    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut *self {
            Self::Runs(call) => panics::catch(|| call.as_mut().poll(context))
                .unwrap_or_else(|payload| Poll::Ready(Err(panicked(&*payload)))),
            Self::Failed(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

/// Runs several calls of the saver; their panics become errors.
async fn guarded<T>(work: impl Future<Output = Result<T, SaverError>>) -> Result<T, SaverError> {
    panics::caught(work).await.unwrap_or_else(|payload| Err(panicked(&*payload)))
}

fn panicked(payload: &(dyn Any + Send)) -> SaverError {
    SaverError::Panicked { message: panics::text(payload) }
}
