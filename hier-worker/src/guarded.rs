//! The store as a worker calls it: a panic in it is an error, and told. What a worker does for ever goes on after it.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;

use hier_checkpoint::panics;
use hier_core::checkpoint::{Checkpointer, Conversations, SaverError, saver_calls};
use hier_core::runs::{Bell, RunBackend, RunStore, RunsError, run_calls};

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
        $trait:ident, $error:ident, { $($own:tt)* }
        $({ $(async fn $method:ident($($argument:ident: $type:ty),*) -> $output:ty;)* })+
    ) => {
        #[deny(clippy::missing_trait_methods, reason = "each call is guarded")]
        #[async_trait]
        impl $trait for Guarded {
            $($(
                async fn $method(&self, $($argument: $type),*) -> Result<$output, $error> {
                    let work = async { self.store.$method($($argument),*).await };
                    panics::caught(work).await.unwrap_or_else(|payload| Err(told(stringify!($method), &*payload).into()))
                }
            )*)+
            $($own)*
        }
    };
}

saver_calls! {
    guarded! {
        Checkpointer, SaverError,
        {
            fn leases_expire(&self) -> bool {
                panics::catch(|| self.store.leases_expire()).unwrap_or_else(|payload| {
                    told("leases_expire", &*payload);
                    true
                })
            }

            fn conversations(&self) -> Option<&Conversations> {
                panics::catch(|| self.store.conversations()).unwrap_or_else(|payload| {
                    told("conversations", &*payload);
                    None
                })
            }
        }
    }
}

run_calls! {
    guarded! {
        RunStore, RunsError,
        {
            fn bell(&self) -> &Bell {
                panics::catch(|| self.store.bell()).unwrap_or_else(|payload| {
                    told("bell", &*payload);
                    &self.silent
                })
            }

            fn backend(&self) -> &dyn RunBackend {
                self.store.backend()
            }
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
