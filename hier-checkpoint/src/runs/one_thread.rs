//! The checkpoints of a store of runs, for a request that may change one thread.

use std::sync::Arc;

use async_trait::async_trait;

use super::RunStore;
use super::thread::ThreadIs;
use crate::checkpoint::{Checkpointer, Claim, Conversations, Lease, SaverError, saver_calls};

/// A saver that claims and sends mail to one thread only, and to no later thread with the same id. It passes all other calls on.
///
/// Between a check of rights and the call, the thread may be deleted, and another user may create one with its id. Then a claim and a
/// letter are refused with [`SaverError::Deleted`].
pub struct OneThread {
    store: Arc<dyn RunStore>,
    is: ThreadIs,
}

impl OneThread {
    /// The checkpoints of this store, for a thread that meets the condition.
    pub fn new(store: Arc<dyn RunStore>, is: ThreadIs) -> Self {
        Self { store, is }
    }

    /// Claims the thread if it meets the condition. A lease ends with its thread.
    async fn claimed(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let lease = self.store.acquire(thread, claim).await?;
        let found = self.store.thread(thread).await;
        if found.as_ref().is_ok_and(|found| found.as_ref().is_some_and(|row| self.is.is(row))) {
            return Ok(lease);
        }
        self.store.release(&lease).await?;
        Err(found.err().map_or_else(|| SaverError::deleted(thread), SaverError::from))
    }
}

macro_rules! passed_on {
    ($this:ident.acquire($thread:ident, $claim:ident)) => {
        $this.claimed($thread, $claim).await
    };
    ($this:ident.post($thread:ident, $graph:ident, $letter:ident)) => {
        $this.store.post_if($thread, $this.is.clone(), $graph, $letter).await.map_err(SaverError::from)
    };
    ($this:ident.$method:ident($($argument:ident),*)) => {
        $this.store.$method($($argument),*).await
    };
}

macro_rules! one_thread {
    ($({ $(async fn $method:ident($($argument:ident: $type:ty),*) -> $output:ty;)* })+) => {
        // The compiler lists the savers that a user may want.
        #[diagnostic::do_not_recommend]
        #[deny(clippy::missing_trait_methods, reason = "each call is passed on")]
        #[async_trait]
        impl Checkpointer for OneThread {
            $($(
                async fn $method(&self, $($argument: $type),*) -> Result<$output, SaverError> {
                    passed_on!(self.$method($($argument),*))
                }
            )*)+

            fn leases_expire(&self) -> bool {
                self.store.leases_expire()
            }

            fn conversations(&self) -> Option<&Conversations> {
                self.store.conversations()
            }
        }
    };
}

saver_calls! { one_thread! {} }

impl std::fmt::Debug for OneThread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OneThread").field("is", &self.is).finish_non_exhaustive()
    }
}
