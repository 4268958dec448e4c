use std::sync::{Arc, LazyLock};

use super::backend::{DocumentBackend, RunBackend, ThreadBackend};
use super::notifier::{ChangeNotifier, Notice};
use hier_checkpoint::checkpoint::Checkpointer;
use hier_checkpoint::checkpoint::guard::report;
use hier_checkpoint::panics;

/// A run store, which keeps runs, their events and the index of threads in the same database as checkpoints. Callers
/// use the methods of `dyn RunStore`, which are the same for every database:
///
/// ```
/// use std::sync::Arc;
///
/// use hier_runs::{MemoryRuns, NewRun, Request, RunStore};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), hier_runs::RunsError> {
/// let store: Arc<dyn RunStore> = Arc::new(MemoryRuns::new());
/// let run = store.create_run(NewRun::new("case-17", "review", Request::default()).create_thread()).await?;
/// assert!(store.run(run.id).await?.is_some());
/// # Ok(())
/// # }
/// ```
///
/// To write a run store, implement [`RunBackend`], [`ThreadBackend`] and [`DocumentBackend`] for a saver. A run store
/// can also wrap another one. The outer store then returns the backends of the inner store, or its own backends for the
/// parts that it changes.
///
/// Cancel safety: if the future of a call is dropped, the call takes effect as a whole or not at all. If a backend
/// panics, the call fails with [`SaverError::Panicked`](hier_checkpoint::checkpoint::SaverError::Panicked).
pub trait RunStore: Checkpointer {
    /// Returns the backend for the runs and events in the database.
    fn run_backend(&self) -> &dyn RunBackend;

    /// Returns the backend for the index of threads in the database.
    fn thread_backend(&self) -> &dyn ThreadBackend;

    /// Returns the backend for the documents in the database.
    fn document_backend(&self) -> &dyn DocumentBackend;

    /// Converts a store to `dyn RunStore`. Use this conversion to call the methods of `dyn RunStore` on a store whose
    /// type is known.
    fn driver(&self) -> &dyn RunStore
    where
        Self: Sized,
    {
        self
    }
}

impl<T: Checkpointer + RunBackend + ThreadBackend + DocumentBackend> RunStore for T {
    fn run_backend(&self) -> &dyn RunBackend {
        self
    }

    fn thread_backend(&self) -> &dyn ThreadBackend {
        self
    }

    fn document_backend(&self) -> &dyn DocumentBackend {
        self
    }
}

impl<T: RunStore + ?Sized> RunStore for Arc<T> {
    fn run_backend(&self) -> &dyn RunBackend {
        (**self).run_backend()
    }

    fn thread_backend(&self) -> &dyn ThreadBackend {
        (**self).thread_backend()
    }

    fn document_backend(&self) -> &dyn DocumentBackend {
        (**self).document_backend()
    }
}

impl dyn RunStore {
    /// Converts the store to a saver.
    pub fn as_checkpointer(self: Arc<Self>) -> Arc<dyn Checkpointer> {
        self
    }
}

impl dyn RunStore + '_ {
    /// Returns the store's notifier, which informs listeners in this process of changed threads and of runs that can be
    /// claimed. The notifier reports changes through this store at once. It also reports changes by other processes, if
    /// the database supports notifications. Because a notification can be lost, a listener should also read the store
    /// from time to time.
    pub fn notifier(&self) -> &ChangeNotifier {
        static SILENT: LazyLock<ChangeNotifier> = LazyLock::new(ChangeNotifier::default);
        panics::catch(|| self.run_backend().notifier()).unwrap_or_else(|payload| {
            report("notifier", &*payload);
            &SILENT
        })
    }

    pub(super) fn announce(&self, notice: Notice<'_>) {
        if let Err(payload) = panics::catch(|| self.run_backend().announce(notice)) {
            report("announce", &*payload);
        }
    }
}
