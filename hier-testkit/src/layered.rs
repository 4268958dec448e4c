//! Savers and stores of runs around others, for tests that look at what is stored, delay it, or let it fail.

use std::ops::Deref;
use std::sync::Arc;

use hier_core::async_trait;
use hier_core::checkpoint::{Also, Checkpointer, Conversations, Lease, Record, Saved, SaverError, saver_calls};
use hier_core::runs::{Bell, Claimed, NewRun, Run, RunBackend, RunClaim, RunStore, RunsError, run_calls};
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
        { $($own:tt)* }
        { $(async fn $method:ident($($argument:ident: $type:ty),*) -> $output:ty;)+ }
        { $($by_another:tt)* }
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

        #[deny(clippy::missing_trait_methods, reason = "each call reaches the layer")]
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

saver_calls! {
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

            /// A [`commit_also`](Self::commit_also), which releases nothing.
            async fn commit_last(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<bool, SaverError> {
                self.commit_also(lease, records, also).await.map(|()| false)
            }

            /// A [`get`](Self::get), which leaves nothing out: nothing is kept in memory from run to run.
            async fn get_changed(
                &self,
                thread: &str,
                namespace: &str,
                id: Option<Uuid>,
                known: &[(Arc<str>, Uuid)],
            ) -> Result<Option<Saved>, SaverError> {
                let _ = known;
                self.get(thread, namespace, id).await
            }
        } of SaverError, by saver,
        {
            fn leases_expire(&self) -> bool {
                self.0.leases_expire()
            }

            async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
                self.0.commit_also(lease, records, also).await
            }

            async fn commit_last(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<bool, SaverError> {
                self.0.commit_last(lease, records, also).await
            }

            async fn get_changed(
                &self,
                thread: &str,
                namespace: &str,
                id: Option<Uuid>,
                known: &[(Arc<str>, Uuid)],
            ) -> Result<Option<Saved>, SaverError> {
                self.0.get_changed(thread, namespace, id, known).await
            }

            fn conversations(&self) -> Option<&Conversations> {
                None
            }
        }
    }
}

run_calls! {
    layer! {
        /// A [`RunStore`] around another, wrapped in [`Layered`], as [`SaverLayer`] is of savers.
        pub trait RunsLayer: [SaverLayer], around RunStore {
            /// The store that the calls are passed on to.
            fn runs_store(&self) -> &dyn RunStore;

            /// One at a time, by [`claim_run`](Self::claim_run), so that what is written there sees each.
            async fn claim_runs(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
                if most == 0 {
                    return Ok(Vec::new());
                }
                Ok(self.claim_run(claim).await?.into_iter().collect())
            }

            /// By [`create_run`](Self::create_run), so that what is written there sees it; it is left to be claimed.
            async fn create_claimed(&self, run: NewRun, _claim: RunClaim) -> Result<(Run, Option<Claimed>), RunsError> {
                Ok((self.create_run(run).await?, None))
            }
        } of RunsError, by runs_store,
        {
            fn bell(&self) -> &Bell {
                self.0.runs_store().bell()
            }

            fn backend(&self) -> &dyn RunBackend {
                self.0.runs_store().backend()
            }

            async fn claim_runs(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
                self.0.claim_runs(claim, most).await
            }

            async fn create_claimed(&self, run: NewRun, claim: RunClaim) -> Result<(Run, Option<Claimed>), RunsError> {
                self.0.create_claimed(run, claim).await
            }
        }
    }
}
