//! The operations that a database for runs implements. [`RunStore`](super::RunStore) uses them, and its rules are
//! therefore the same for every database.

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

/// Access to the runs and events in a database, for authors of run stores. A backend contains no rules about runs. A
/// [`ThreadChange`] computes the rows to store, the backend stores them, and `dyn` [`RunStore`](super::RunStore) sends
/// the notifications.
#[async_trait]
pub trait RunBackend: Send + Sync {
    /// Loads the thread, calls [`ThreadChange::decide`], and stores the decision, all in one transaction. The backend
    /// locks the thread, or repeats the transaction after a conflict.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Superseded`](hier_checkpoint::checkpoint::SaverError::Superseded) if the change has a
    /// lease that is no longer valid. Fails with [`RunsError::Stale`] if the change contains a document whose revision
    /// differs from that of the stored document. Fails with [`RunsError::Cancelled`] if the change ends a run that must
    /// be rolled back.
    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError>;

    /// Claims up to `most` runs, as `claim_runs` of [`RunStore`](super::RunStore) describes. Callers pass at least 1 as
    /// `most`. The backend claims each run with a [`ThreadChange::start`].
    async fn claim(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError>;

    /// Returns the run with this id, or `None` if it does not exist.
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

    /// Deletes events that were stored more than this duration ago, and runs that ended more than this duration ago.
    async fn delete_older(&self, than: Duration) -> Result<PrunedRuns, RunsError>;

    /// Returns the notifier of this process. The call may also start a task that listens for changes by other
    /// processes.
    fn notifier(&self) -> &ChangeNotifier;

    /// Notifies listeners of a stored change. By default, notifies only the listeners in this process. If the database
    /// supports notifications, implement this method so that it also notifies other processes.
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

/// Access to the index of threads in a database, for authors of run stores. The index has a [`ThreadRow`] for each
/// thread.
#[async_trait]
pub trait ThreadBackend: Send + Sync {
    /// Returns a thread with its values, or `None` if the thread does not exist.
    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError>;

    /// Returns the page of threads that a query requests. See [`ThreadQuery::page`].
    async fn find_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError>;

    /// Creates a thread without a history. Returns `None` if a thread with this id exists.
    async fn insert_thread(&self, thread: NewThread) -> Result<Option<ThreadRow>, RunsError>;

    /// Creates a [copy](ThreadRow::copy_to) of a thread with its history.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::Exists`] if a thread with the id of `to` exists.
    async fn insert_copy(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError>;

    /// Deletes a thread that meets the condition, with its checkpoints, runs and events. Returns false if the thread
    /// does not exist or does not meet the condition.
    ///
    /// Every thread meets the default condition. With this condition, the call also deletes a thread whose row cannot
    /// be read, and checkpoints of a thread that is not in the index.
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

/// Access to the [documents](Document) in a database, for authors of run stores.
#[async_trait]
pub trait DocumentBackend: Send + Sync {
    /// Returns a document, or `None` if it does not exist.
    async fn load_document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError>;

    /// Returns all documents of a kind, ordered by id.
    async fn find_documents(&self, kind: &str) -> Result<Vec<Document>, RunsError>;

    /// Returns documents of a kind that are due at the time `by`, the longest overdue first. Each call returns a
    /// limited number of documents.
    async fn find_due_documents(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError>;

    /// Stores a document if the stored document has the revision `replaces`, or if `replaces` is `None` and the
    /// document is not stored yet. In all other cases, stores nothing and returns false.
    async fn store_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError>;

    /// Deletes a document. Returns false if it does not exist.
    async fn delete_document(&self, kind: &str, id: &str) -> Result<bool, RunsError>;
}
