//! The store as a worker calls it: a panic in it is an error, and told. What a worker does for ever goes on after it.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use crate::checkpoint::{
    Also, Checkpointer, Claim, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, Posted, Prune, Record, Saved,
    SaverError, ThreadInfo,
};
use crate::panics;
use crate::runs::{
    Bell, Cancel, Claimed, Document, EventPage, EventQuery, NewRun, NewThread, Run, RunClaim, RunQuery, RunStore,
    RunsError, Settlement, ThreadPatch, ThreadQuery, ThreadRow,
};

/// A store whose panics become [`SaverError::Panicked`], whatever of it is called.
pub(super) struct Guarded {
    store: Arc<dyn RunStore>,
    /// In the place of one that cannot be had.
    silent: Bell,
}

impl Guarded {
    pub(super) fn new(store: Arc<dyn RunStore>) -> Self {
        Self { store, silent: Bell::default() }
    }
}

macro_rules! guarded {
    (
        $trait:ident, $error:ident,
        { $(async fn $method:ident($($argument:ident: $type:ty),*) -> $output:ty;)+ }
        { $($own:tt)* }
    ) => {
        #[async_trait]
        impl $trait for Guarded {
            $(
                async fn $method(&self, $($argument: $type),*) -> Result<$output, $error> {
                    let work = async { self.store.$method($($argument),*).await };
                    panics::caught(work).await.unwrap_or_else(|payload| Err(told(stringify!($method), &*payload).into()))
                }
            )+
            $($own)*
        }
    };
}

guarded! {
    Checkpointer, SaverError,
    {
        async fn acquire(thread: &str, claim: Claim) -> Lease;
        async fn renew(lease: &Lease) -> ();
        async fn release(lease: &Lease) -> ();
        async fn commit(lease: &Lease, records: Vec<Record>) -> ();
        async fn commit_also(lease: &Lease, records: Vec<Record>, also: Also) -> ();
        async fn post(thread: &str, graph: &str, letter: Letter) -> bool;
        async fn mail(thread: &str) -> Vec<Posted>;
        async fn due(query: DueQuery) -> Vec<DueThread>;
        async fn get(thread: &str, namespace: &str, id: Option<Uuid>) -> Option<Saved>;
        async fn list(query: ListQuery) -> Vec<Listed>;
        async fn threads(limit: Option<usize>) -> Vec<ThreadInfo>;
        async fn delete_thread(thread: &str) -> ();
        async fn copy_thread(from: &str, to: &str) -> ();
        async fn delete_for_runs(runs: &[String]) -> ();
        async fn prune(prune: Prune) -> u64;
        async fn sweep() -> u64;
    }
    {
        fn leases_expire(&self) -> bool {
            panics::catch(|| self.store.leases_expire()).unwrap_or_else(|payload| {
                told("leases_expire", &*payload);
                true
            })
        }
    }
}

guarded! {
    RunStore, RunsError,
    {
        async fn create_thread(thread: NewThread) -> ThreadRow;
        async fn thread(id: &str) -> Option<ThreadRow>;
        async fn update_thread(id: &str, patch: ThreadPatch) -> ThreadRow;
        async fn search_threads(query: ThreadQuery) -> Vec<ThreadRow>;
        async fn count_threads(query: ThreadQuery) -> u64;
        async fn remove_thread(id: &str) -> bool;
        async fn clone_thread(from: &str, to: &str) -> ThreadRow;
        async fn create_run(run: NewRun) -> Run;
        async fn run(id: Uuid) -> Option<Run>;
        async fn runs(query: RunQuery) -> Vec<Run>;
        async fn remove_run(id: Uuid) -> bool;
        async fn cancel_runs(thread: &str, runs: &[Uuid], action: Cancel) -> Vec<Run>;
        async fn claim_run(claim: RunClaim) -> Option<Claimed>;
        async fn record(lease: &Lease, settlement: Settlement) -> u64;
        async fn hand_back(lease: &Lease, run: Uuid) -> ();
        async fn events(query: EventQuery) -> EventPage;
        async fn prune_runs(older_than: Duration) -> (u64, u64);
        async fn document(kind: &str, id: &str) -> Option<Document>;
        async fn documents(kind: &str) -> Vec<Document>;
        async fn put_document(document: Document, replaces: Option<u64>) -> bool;
        async fn remove_document(kind: &str, id: &str) -> bool;
    }
    {
        fn bell(&self) -> &Bell {
            panics::catch(|| self.store.bell()).unwrap_or_else(|payload| {
                told("bell", &*payload);
                &self.silent
            })
        }

        fn as_checkpointer(self: Arc<Self>) -> Arc<dyn Checkpointer> {
            self
        }
    }
}

/// Says what panicked, and makes it an error.
fn told(call: &'static str, payload: &(dyn Any + Send)) -> SaverError {
    let error = SaverError::Panicked { message: panics::text(payload) };
    tracing::error!(
        call,
        %error,
        "the store of runs panicked in a call of a worker, which goes on: what it asked for did not happen, and is tried again or left \
         to the next worker; mend the store, `RunStore` says what the call has to do"
    );
    error
}
