//! Wrappers around savers and run stores, for tests that observe, delay or fail their calls.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use hier_core::async_trait;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Commit, InboxMessage, Lease, LeaseState, PostOutcome, SaverError, SaverLayer,
};
use hier_core::runs::{
    ChangeNotifier, Changed, Claimed, Document, DocumentBackend, EventPage, EventQuery, NewThread, Notice, PrunedRuns,
    Run, RunBackend, RunClaim, RunQuery, RunStore, RunsError, ThreadBackend, ThreadChange, ThreadIs, ThreadQuery,
    ThreadRow,
};
use uuid::Uuid;

/// A wrapper around a [`SaverLayer`] for tests. It turns off the saver's cache of threads, so that the layer sees each
/// read. It releases leases in separate calls, so that the layer sees each release. If the layer is also a
/// [`RunsLayer`], the wrapper is a run store.
#[derive(Clone, Debug, Default)]
pub struct Layered<T>(pub T);

impl<T> Deref for Layered<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

#[async_trait]
impl<T: SaverLayer> SaverLayer for Layered<T> {
    type Inner = T;

    fn inner(&self) -> &T {
        &self.0
    }

    /// Commits without releasing the lease, so that the layer sees the release as a separate call.
    async fn commit(&self, lease: &Lease, mut commit: Commit) -> Result<LeaseState, SaverError> {
        commit.release = false;
        Checkpointer::commit(&self.0, lease, commit).await
    }

    /// Returns the capabilities without the cache of threads, so that the layer sees each read.
    fn capabilities(&self) -> Capabilities<'_> {
        let mut capabilities = Checkpointer::capabilities(&self.0);
        capabilities.cache = None;
        capabilities
    }
}

/// A layer around a [`RunStore`]. Each method forwards to the inner store unless you override the method. Wrap the
/// layer in [`Layered`] to get a run store.
#[async_trait]
pub trait RunsLayer: SaverLayer {
    /// Returns the inner store.
    fn runs_store(&self) -> &dyn RunStore;

    /// Forwards [`RunBackend::change`].
    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        self.runs_store().run_backend().change(change).await
    }

    /// Forwards [`RunBackend::claim`].
    async fn claim(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        self.runs_store().run_backend().claim(claim, most).await
    }

    /// Forwards [`RunBackend::load_run`].
    async fn load_run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        self.runs_store().run_backend().load_run(id).await
    }

    /// Forwards [`RunBackend::find_runs`].
    async fn find_runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        self.runs_store().run_backend().find_runs(query).await
    }

    /// Forwards [`RunBackend::find_events`].
    async fn find_events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        self.runs_store().run_backend().find_events(query).await
    }

    /// Forwards [`ThreadBackend::load_thread`].
    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        self.runs_store().thread_backend().load_thread(id).await
    }

    /// Forwards [`ThreadBackend::delete_thread_if`].
    async fn delete_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        self.runs_store().thread_backend().delete_thread_if(id, is).await
    }

    /// Forwards [`ThreadBackend::post_to`].
    async fn post_to(
        &self,
        thread: &str,
        is: ThreadIs,
        graph: &str,
        letter: InboxMessage,
    ) -> Result<PostOutcome, RunsError> {
        self.runs_store().thread_backend().post_to(thread, is, graph, letter).await
    }

    /// Forwards [`DocumentBackend::load_document`].
    async fn load_document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        self.runs_store().document_backend().load_document(kind, id).await
    }

    /// Forwards [`DocumentBackend::find_documents`].
    async fn find_documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        self.runs_store().document_backend().find_documents(kind).await
    }
}

#[async_trait]
impl<T: RunsLayer> RunBackend for Layered<T> {
    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        self.0.change(change).await
    }

    async fn claim(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        self.0.claim(claim, most).await
    }

    async fn load_run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        self.0.load_run(id).await
    }

    async fn find_runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        self.0.find_runs(query).await
    }

    async fn delete_run(&self, id: Uuid) -> Result<bool, RunsError> {
        self.0.runs_store().run_backend().delete_run(id).await
    }

    async fn find_events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        self.0.find_events(query).await
    }

    async fn delete_older(&self, than: Duration) -> Result<PrunedRuns, RunsError> {
        self.0.runs_store().run_backend().delete_older(than).await
    }

    fn notifier(&self) -> &ChangeNotifier {
        self.0.runs_store().run_backend().notifier()
    }

    fn announce(&self, notice: Notice<'_>) {
        self.0.runs_store().run_backend().announce(notice);
    }
}

#[async_trait]
impl<T: RunsLayer> ThreadBackend for Layered<T> {
    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        self.0.load_thread(id).await
    }

    async fn find_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        self.0.runs_store().thread_backend().find_threads(query).await
    }

    async fn insert_thread(&self, thread: NewThread) -> Result<Option<ThreadRow>, RunsError> {
        self.0.runs_store().thread_backend().insert_thread(thread).await
    }

    async fn insert_copy(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
        self.0.runs_store().thread_backend().insert_copy(from, to).await
    }

    async fn delete_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        self.0.delete_thread_if(id, is).await
    }

    async fn post_to(
        &self,
        thread: &str,
        is: ThreadIs,
        graph: &str,
        letter: InboxMessage,
    ) -> Result<PostOutcome, RunsError> {
        self.0.post_to(thread, is, graph, letter).await
    }
}

#[async_trait]
impl<T: RunsLayer> DocumentBackend for Layered<T> {
    async fn load_document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        self.0.load_document(kind, id).await
    }

    async fn find_documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        self.0.find_documents(kind).await
    }

    async fn find_due_documents(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        self.0.runs_store().document_backend().find_due_documents(kind, by).await
    }

    async fn store_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        self.0.runs_store().document_backend().store_document(document, replaces).await
    }

    async fn delete_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        self.0.runs_store().document_backend().delete_document(kind, id).await
    }
}
