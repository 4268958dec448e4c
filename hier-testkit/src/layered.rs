//! Savers and stores of runs around others, for tests that look at what is stored, delay it, or let it fail.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use hier_core::async_trait;
use hier_core::checkpoint::{
    Also, Checkpointer, Claim, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, Posted, Prune, Record, Saved,
    SaverError, ThreadInfo,
};
use hier_core::runs::{
    Bell, Cancel, Claimed, Document, EventPage, EventQuery, NewRun, NewThread, Run, RunClaim, RunQuery, RunStore,
    RunsError, Settlement, ThreadPatch, ThreadQuery, ThreadRow,
};
use uuid::Uuid;

/// A saver as graphs take it, made of a [`SaverLayer`]; a store of runs as workers take it, if it is a [`RunsLayer`].
#[derive(Clone, Debug, Default)]
pub struct Layered<T>(pub T);

impl<T> Deref for Layered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Writes down a trait whose methods pass the call on unless they are written, and how [`Layered`] is the trait around which it stands.
macro_rules! layer {
    (
        $(#[$doc:meta])*
        pub trait $layer:ident: [$($above:tt)+], around $around:ident { $($inner:tt)* } of $error:ident, by $by:ident,
        { $(async fn $method:ident($($argument:ident: $type:ty),*) -> $output:ty;)+ }
        { $($own:tt)* }
    ) => {
        $(#[$doc])*
        #[async_trait]
        pub trait $layer: $($above)+ {
            $($inner)*
            $(
                #[allow(missing_docs)]
                async fn $method(&self, $($argument: $type),*) -> Result<$output, $error> {
                    self.$by().$method($($argument),*).await
                }
            )+
        }

        #[async_trait]
        impl<T: $layer> $around for Layered<T> {
            $(
                async fn $method(&self, $($argument: $type),*) -> Result<$output, $error> {
                    self.0.$method($($argument),*).await
                }
            )+
            $($own)*
        }
    };
}

layer! {
    /// A [`Checkpointer`] around another, wrapped in [`Layered`]: each method passes the call on unless it is written.
    ///
    /// ```
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// use hier_core::checkpoint::{Checkpointer, Lease, MemorySaver, Record, SaverError};
    /// use hier_testkit::{Layered, SaverLayer};
    ///
    /// /// Counts the commits.
    /// #[derive(Default)]
    /// struct Counting {
    ///     memory: MemorySaver,
    ///     commits: AtomicUsize,
    /// }
    ///
    /// #[hier_core::async_trait]
    /// impl SaverLayer for Counting {
    ///     fn saver(&self) -> &dyn Checkpointer {
    ///         &self.memory
    ///     }
    ///
    ///     async fn commit(&self, lease: &Lease, records: Vec<Record>) -> Result<(), SaverError> {
    ///         self.commits.fetch_add(1, Ordering::Relaxed);
    ///         self.memory.commit(lease, records).await
    ///     }
    /// }
    ///
    /// let saver = Layered(Counting::default());
    /// // As a graph takes it: `compile().checkpointer(saver)`.
    /// # let _: &dyn Checkpointer = &saver;
    /// assert_eq!(saver.commits.load(Ordering::Relaxed), 0);
    /// ```
    pub trait SaverLayer: [Send + Sync + 'static], around Checkpointer {
        /// The saver that the calls are passed on to.
        fn saver(&self) -> &dyn Checkpointer;

        /// Whether leases run out by themselves; as those of the saver inside unless written.
        fn leases_expire(&self) -> bool {
            self.saver().leases_expire()
        }

        /// What has nothing beside its records is a [`commit`](Self::commit); the rest is passed on.
        async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
            if also.is_empty() {
                return self.commit(lease, records).await;
            }
            self.saver().commit_also(lease, records, also).await
        }
    } of SaverError, by saver,
    {
        async fn acquire(thread: &str, claim: Claim) -> Lease;
        async fn renew(lease: &Lease) -> ();
        async fn release(lease: &Lease) -> ();
        async fn commit(lease: &Lease, records: Vec<Record>) -> ();
        async fn get(thread: &str, namespace: &str, id: Option<Uuid>) -> Option<Saved>;
        async fn list(query: ListQuery) -> Vec<Listed>;
        async fn threads(limit: Option<usize>) -> Vec<ThreadInfo>;
        async fn delete_thread(thread: &str) -> ();
        async fn copy_thread(from: &str, to: &str) -> ();
        async fn delete_for_runs(runs: &[String]) -> ();
        async fn prune(prune: Prune) -> u64;
        async fn sweep() -> u64;
        async fn post(thread: &str, graph: &str, letter: Letter) -> bool;
        async fn mail(thread: &str) -> Vec<Posted>;
        async fn due(query: DueQuery) -> Vec<DueThread>;
    }
    {
        fn leases_expire(&self) -> bool {
            self.0.leases_expire()
        }

        async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
            self.0.commit_also(lease, records, also).await
        }
    }
}

layer! {
    /// A [`RunStore`] around another, wrapped in [`Layered`], as [`SaverLayer`] is of savers.
    pub trait RunsLayer: [SaverLayer], around RunStore {
        /// The store that the calls are passed on to.
        fn runs_store(&self) -> &dyn RunStore;
    } of RunsError, by runs_store,
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
            self.0.runs_store().bell()
        }

        fn as_checkpointer(self: Arc<Self>) -> Arc<dyn Checkpointer> {
            self
        }
    }
}
