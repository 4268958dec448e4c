//! Guards a worker against panics in its store: they become errors, and are logged, so that the worker continues.

use std::any::Any;
use std::sync::Arc;

use async_trait::async_trait;

use hier_checkpoint::panics;
use hier_core::checkpoint::{Checkpointer, Conversations, SaverError, saver_calls};
use hier_core::runs::{Bell, RunBackend, RunStore, RunsError, run_calls};

/// A store whose panics become [`SaverError::Panicked`].
pub(super) struct PanicGuardedStore {
    store: Arc<dyn RunStore>,
    /// Replaces a bell that cannot be returned.
    silent: Bell,
}

impl PanicGuardedStore {
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
        impl $trait for PanicGuardedStore {
            $($(
                async fn $method(&self, $($argument: $type),*) -> Result<$output, $error> {
                    let work = async { self.store.$method($($argument),*).await };
                    panics::caught(work).await.unwrap_or_else(|payload| Err(report_panic(stringify!($method), &*payload).into()))
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
                    report_panic("leases_expire", &*payload);
                    true
                })
            }

            fn conversations(&self) -> Option<&Conversations> {
                panics::catch(|| self.store.conversations()).unwrap_or_else(|payload| {
                    report_panic("conversations", &*payload);
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
                    report_panic("bell", &*payload);
                    &self.silent
                })
            }

            fn backend(&self) -> &dyn RunBackend {
                self.store.backend()
            }
        }
    }
}

/// Logs a panic, and returns it as an error.
fn report_panic(call: &'static str, payload: &(dyn Any + Send)) -> SaverError {
    let error = SaverError::Panicked { message: panics::text(payload) };
    tracing::error!(
        call,
        %error,
        "the store of runs panicked in a call of a worker; the worker tries again later, or leaves the run to another one: fix the \
         store, `RunStore` describes the call"
    );
    error
}
