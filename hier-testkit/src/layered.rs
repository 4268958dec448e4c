//! Adapters around savers and run stores, for tests that observe, delay or fail calls.

use std::ops::Deref;
use std::sync::Arc;

use hier_core::async_trait;
use hier_core::checkpoint::{Also, Checkpointer, Conversations, Lease, Record, Saved, SaverError, saver_calls};
use hier_core::runs::{Bell, Claimed, NewRun, Run, RunBackend, RunClaim, RunStore, RunsError, run_calls};
use uuid::Uuid;

/// Turns a [`SaverLayer`] into a [`Checkpointer`], and a [`RunsLayer`] into a [`RunStore`].
#[derive(Clone, Debug, Default)]
pub struct Layered<T>(pub T);

impl<T> Deref for Layered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Defines a layer trait, whose methods forward to the inner object by default, and implements the outer trait for
/// [`Layered`].
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
        /// A [`Checkpointer`] around another one. Methods forward to [`saver`](Self::saver) unless they are overridden.
        /// Wrap it in [`Layered`].
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
        /// // Pass it to a graph: `compile().checkpointer(saver)`.
        /// # let _: &dyn Checkpointer = &saver;
        /// assert_eq!(saver.commits.load(Ordering::Relaxed), 0);
        /// ```
        pub trait SaverLayer: [Send + Sync + 'static], around Checkpointer {
            /// Returns the inner saver.
            fn saver(&self) -> &dyn Checkpointer;

            /// Returns true if leases expire by themselves. Defaults to the inner saver's answer.
            fn leases_expire(&self) -> bool {
                self.saver().leases_expire()
            }

            /// Commits records with side effects. Without side effects it calls [`commit`](Self::commit).
            async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
                if also.is_empty() {
                    return self.commit(lease, records).await;
                }
                self.saver().commit_also(lease, records, also).await
            }

            /// Calls [`commit_also`](Self::commit_also), and does not release the lease.
            async fn commit_last(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<bool, SaverError> {
                self.commit_also(lease, records, also).await.map(|()| false)
            }

            /// Calls [`get`](Self::get), which returns all values: layers have no conversation cache.
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
        /// A [`RunStore`] around another one, like [`SaverLayer`] for savers.
        pub trait RunsLayer: [SaverLayer], around RunStore {
            /// Returns the inner store.
            fn runs_store(&self) -> &dyn RunStore;

            /// Claims at most one run, with [`claim_run`](Self::claim_run), so that an override sees each run.
            async fn claim_runs(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
                if most == 0 {
                    return Ok(Vec::new());
                }
                Ok(self.claim_run(claim).await?.into_iter().collect())
            }

            /// Adds a run with [`create_run`](Self::create_run), so that an override sees it, and leaves it unclaimed.
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
