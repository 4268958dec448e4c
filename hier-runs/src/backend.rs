//! The primitives of a database that keeps runs: [`RunStore`](super::RunStore) is written with them, once for every database.

use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use uuid::Uuid;

use super::change::{Changed, ThreadChange};
use super::document::Document;
use super::error::RunsError;
use super::event::{EventPage, EventQuery};
use super::notifier::{ChangeNotifier, Notice};
use super::query::{RunQuery, ThreadQuery};
use super::run::{Claimed, Run, RunClaim};
use super::thread::{NewThread, ThreadIs, ThreadRow};
use hier_checkpoint::checkpoint::{InboxMessage, PostOutcome};

/// The runs and events of a database, for authors of run stores. The backend stores the decisions of a
/// [`ThreadChange`]; the driver decides and sends notifications.
#[async_trait]
pub trait RunBackend: Send + Sync {
    /// Loads the thread, lets the change [decide](ThreadChange::decide), and stores the decision in one transaction,
    /// with a lock or with optimistic retries.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Superseded`](hier_checkpoint::checkpoint::SaverError::Superseded) if the lease of the
    /// change does not hold the thread, and with [`RunsError::Stale`] if the change's document has another revision.
    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError>;

    /// Claims up to `most` runs, at least 1. See `claim_runs` of [`RunStore`](super::RunStore). Each claim is a
    /// [`ThreadChange::start`].
    async fn claim(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError>;

    /// Returns a run.
    async fn load_run(&self, id: Uuid) -> Result<Option<Run>, RunsError>;

    /// Returns the runs that match a query, newest first.
    async fn find_runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError>;

    /// Deletes a run that has ended. Returns false if it does not exist.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::Live`] if the run has not ended.
    async fn delete_run(&self, id: Uuid) -> Result<bool, RunsError>;

    /// Returns the events that match a query, ordered by number.
    async fn find_events(&self, query: EventQuery) -> Result<EventPage, RunsError>;

    /// Deletes events and ended runs that are older than this.
    async fn delete_older(&self, than: Duration) -> Result<PrunedRuns, RunsError>;

    /// Returns the notifier of this process. May start to listen for changes by other processes.
    fn notifier(&self) -> &ChangeNotifier;

    /// Notifies listeners of a stored change: those in this process, and those in other processes if the database
    /// supports it.
    fn announce(&self, notice: Notice<'_>) {
        self.notifier().announce(notice);
    }
}

/// The numbers of events and runs that were deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrunedRuns {
    /// The number of deleted events.
    pub events: u64,
    /// The number of deleted runs.
    pub runs: u64,
}

/// The index of threads in a database, for authors of run stores.
#[async_trait]
pub trait ThreadBackend: Send + Sync {
    /// Returns a thread with its values.
    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError>;

    /// Returns the threads that match a query.
    async fn find_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError>;

    /// Creates a thread without a history. Returns `None` if it exists.
    async fn insert_thread(&self, thread: NewThread) -> Result<Option<ThreadRow>, RunsError>;

    /// Creates a [copy](ThreadRow::copy_to) of a thread with its history.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::Exists`] if the target exists.
    async fn insert_copy(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError>;

    /// Deletes a thread that meets the condition, with its checkpoints, runs and events. Returns false if there is no
    /// such thread. Without a condition, also deletes a thread that cannot be read, and checkpoints without a thread.
    async fn delete_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError>;

    /// Adds a message to the inbox of a thread that meets the condition. See `post_if` of
    /// [`RunStore`](super::RunStore).
    async fn post_to(
        &self,
        thread: &str,
        is: ThreadIs,
        graph: &str,
        message: InboxMessage,
    ) -> Result<PostOutcome, RunsError>;
}

/// The [documents](Document) in a database, for authors of run stores.
#[async_trait]
pub trait DocumentBackend: Send + Sync {
    /// Returns a document.
    async fn load_document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError>;

    /// Returns all documents of a kind, ordered by id.
    async fn find_documents(&self, kind: &str) -> Result<Vec<Document>, RunsError>;

    /// Returns a limited number of documents of a kind that are due at this time, the longest overdue first.
    async fn find_due_documents(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError>;

    /// Stores a document if the stored revision equals `replaces` (`None` for a new document). Returns false otherwise.
    async fn store_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError>;

    /// Deletes a document. Returns false if it does not exist.
    async fn delete_document(&self, kind: &str, id: &str) -> Result<bool, RunsError>;
}
