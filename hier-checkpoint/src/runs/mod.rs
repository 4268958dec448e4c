//! Runs as rows: what is to be run, by whom it is being run, and what was told of it.
//!
//! A *run* is one input to one thread. Whoever wants one adds a row ([`RunStore::create_run`]); a *worker* claims it with the
//! lease of its thread ([`RunStore::claim_run`]) and does it. Rows, events, the index of threads and checkpoints are kept by
//! one object, the database, so that they change together ([`RunStore::record`]):
//!
//! * One run a thread at a time, first in, first out. Between threads the one that has waited longest is next.
//! * The proof of a claim is the fencing token of the [`Lease`]: whoever lost it writes nothing any more, whatever its name.
//! * A run whose worker died is claimed again as soon as the lease has run out, until it has had its attempts.
//! * The status of a run and of its thread change in the transaction of the run's last checkpoint.
//! * Events have rising numbers, a sequence for each thread, and are appended with the commits that they tell of. They can be
//!   read again from any number on, by anybody, until they are pruned.
//!
//! A store is written in three layers. [`Queue`] has the rules of one thread and its runs, without a database. [`RunStore`] is what callers
//! use: each of its calls decides with the queue ([`ThreadChange`]), lets the database store the decision, and notifies ([`Bell`]). A
//! [`RunBackend`] is the database: it loads, stores and finds, and decides nothing. The author of a store implements the backend, and runs
//! the suite of `hier-testkit`.

mod assistants;
mod backend;
mod bell;
mod calls;
mod change;
mod crons;
mod document;
mod driver;
mod error;
mod event;
mod held;
mod log;
mod log_event;
mod memory;
mod one_thread;
mod options;
#[doc(hidden)]
pub mod overlay;
mod query;
mod queue;
mod run;
mod thread;
mod webhooks;

use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use uuid::Uuid;

pub use assistants::{Assistant, AssistantPatch, AssistantQuery, Assistants, NewAssistant};
pub use backend::{DocumentBackend, RunBackend, ThreadBackend};
pub use bell::{Bell, Ends, Listener, Notice};
#[doc(hidden)]
pub use calls::run_calls;
pub use change::{Changed, ThreadAction, ThreadChange, ThreadDecision, ThreadSnapshot};
pub use crons::{Cron, CronQuery, Crons, NewCron};
pub use document::Document;
pub use error::{Failure, RunsError};
pub use event::{EventPage, EventQuery, EventRow, LOG_BYTES, NewEvent};
pub use log::{Keeps, RunLog};
pub use log_event::{LogEvent, LoggedCheckpoint, LoggedMessage, LoggedQuestion, LoggedUpdate, TaskEvent, TaskPhase};
pub use memory::MemoryRuns;
pub use one_thread::OneThread;
pub use options::{ClientMode, Durability, OnDisconnect, RunOptions, StreamMode};
pub use query::{Order, RunQuery, SortBy, ThreadQuery, contains};
pub use queue::{Change, Queue};
pub use run::{
    CANCELLED, Cancel, Claimed, MultitaskStrategy, NewRun, Request, Run, RunClaim, RunEnd, RunStatus, Settlement,
};
pub use thread::{IfExists, NewThread, ThreadIndex, ThreadIs, ThreadPatch, ThreadRow, ThreadStatus};
pub use webhooks::{Delivery, Webhooks};

use crate::checkpoint::{Checkpointer, Lease, Letter, check, check_thread};

/// Keeps runs, their events and the index of threads beside the checkpoints. Object-safe.
///
/// A store implements [`backend`](Self::backend), and nothing else. Wrappers of a store override the calls that they change or watch, and
/// pass on the others.
///
/// A call whose future is dropped may have taken effect or not, never by half.
#[async_trait]
pub trait RunStore: Checkpointer {
    /// The database.
    fn backend(&self) -> &dyn RunBackend;

    /// Makes a thread without a history. [`RunsError::Exists`] if it is there, unless [`IfExists::DoNothing`].
    async fn create_thread(&self, thread: NewThread) -> Result<ThreadRow, RunsError> {
        check_thread(&thread.id)?;
        loop {
            if let Some(row) = self.backend().insert_thread(thread.clone()).await? {
                return Ok(row);
            }
            if thread.if_exists == IfExists::Raise {
                return Err(RunsError::Exists { kind: "thread", id: thread.id });
            }
            // A thread that was deleted in between is created.
            if let Some(row) = self.backend().load_thread(&thread.id).await? {
                return Ok(row);
            }
        }
    }

    /// A thread.
    async fn thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        self.backend().load_thread(id).await
    }

    /// Changes what callers may change of a thread. Returns [`RunsError::NoThread`] if it does not meet [`ThreadPatch::on`].
    async fn update_thread(&self, id: &str, patch: ThreadPatch) -> Result<ThreadRow, RunsError> {
        self.backend().apply(ThreadChange::new(id, ThreadAction::Patch(patch))).await?;
        self.backend().load_thread(id).await?.ok_or_else(|| RunsError::NoThread { thread: id.to_owned() })
    }

    /// The threads that a query asks for.
    async fn search_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        self.backend().find_threads(query).await
    }

    /// How many threads a query asks for, whatever its limit and offset.
    async fn count_threads(&self, mut query: ThreadQuery) -> Result<u64, RunsError> {
        (query.limit, query.offset, query.with_values) = (usize::MAX, 0, false);
        Ok(self.backend().find_threads(query).await?.len() as u64)
    }

    /// Deletes a thread with its checkpoints, runs and events. A worker that runs it is refused its next commit. False if
    /// there was none.
    async fn remove_thread(&self, id: &str) -> Result<bool, RunsError> {
        self.remove_thread_if(id, ThreadIs::default()).await
    }

    /// As [`remove_thread`](Self::remove_thread), in one transaction with the condition. If the thread does not meet it, this returns
    /// false and deletes nothing.
    async fn remove_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        // Without a condition, a thread may be deleted that was not in the index.
        let is_any = is.is_any();
        let is_removed = self.backend().delete_thread_if(id, is).await?;
        if is_removed || is_any {
            self.backend().announce(Notice { thread: id, ends: true, ended: None, runs: true });
        }
        Ok(is_removed)
    }

    /// Copies a thread, its history included, to a new one; runs and events are not copied. The metadata of the new thread is
    /// written over the original's. [`RunsError::Exists`] if the target exists.
    async fn clone_thread(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
        check_thread(&to.id)?;
        self.backend().insert_copy(from, to).await
    }

    /// Adds a run, as its [`MultitaskStrategy`] says. With [`MultitaskStrategy::Reject`], [`RunsError::Busy`] if the thread
    /// has a run that has not ended; [`RunsError::Exists`] if there is a run with this id: then nothing has changed, so that
    /// a caller may repeat a call of which it has lost the answer. With [`NewRun::document`], [`RunsError::Stale`] if that was
    /// changed by somebody else.
    async fn create_run(&self, run: NewRun) -> Result<Run, RunsError> {
        Ok(self.backend().add(run, None).await?.0)
    }

    /// Adds a run as [`create_run`](Self::create_run) does, and claims it in the same transaction, as [`claim_run`](Self::claim_run) would,
    /// if nothing is in its way: it is due, the next of its thread, of one of these graphs, and nobody holds the thread. Returns it as it
    /// was added, and the claim if it was claimed.
    ///
    /// For workers that have a place for it while there is no other run that could have it. Whoever calls it has to do the run that is
    /// claimed: if the future is dropped, it may be claimed all the same, and nobody does it before the lease has run out. A store may
    /// always leave the run to be claimed.
    async fn create_claimed(&self, run: NewRun, claim: RunClaim) -> Result<(Run, Option<Claimed>), RunsError> {
        self.backend().add(run, Some(claim)).await
    }

    /// A run. Ids are unique over all threads.
    async fn run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        self.backend().load_run(id).await
    }

    /// The runs that a query asks for, newest first.
    async fn runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        self.backend().find_runs(query).await
    }

    /// Deletes a run that has ended; its events and checkpoints stay. [`RunsError::Live`] if it has not ended; false if there
    /// was none.
    async fn remove_run(&self, id: Uuid) -> Result<bool, RunsError> {
        self.backend().delete_run(id).await
    }

    /// Cancels runs of a thread. Those that wait end at once; one that is being run is ended by whoever runs it, or claims
    /// it next if that one is dead. Returns those that had not ended, as they are now.
    async fn cancel_runs(&self, thread: &str, runs: &[Uuid], action: Cancel) -> Result<Vec<Run>, RunsError> {
        self.cancel_runs_if(thread, ThreadIs::default(), runs, action).await
    }

    /// As [`cancel_runs`](Self::cancel_runs), in one transaction with the condition. Returns [`RunsError::NoThread`] if the thread does
    /// not meet it.
    async fn cancel_runs_if(
        &self,
        thread: &str,
        is: ThreadIs,
        runs: &[Uuid],
        action: Cancel,
    ) -> Result<Vec<Run>, RunsError> {
        let action = ThreadAction::Cancel(is, runs.to_vec(), action);
        Ok(self.backend().apply(ThreadChange::new(thread, action)).await?.runs)
    }

    /// As [`post`](Checkpointer::post), in one transaction with the condition. Returns
    /// [`SaverError::Deleted`](crate::checkpoint::SaverError::Deleted) if the thread does not exist or does not meet it.
    async fn post_if(&self, thread: &str, is: ThreadIs, graph: &str, letter: Letter) -> Result<bool, RunsError> {
        check_thread(thread)?;
        self.backend().post_to(thread, is, graph, letter).await
    }

    /// Claims the run that has waited longest: one that is due, or one whose worker let its lease run out; only of threads
    /// that nobody holds. None if there is none. It counts as an attempt.
    async fn claim_run(&self, claim: RunClaim) -> Result<Option<Claimed>, RunsError> {
        Ok(self.claim_runs(claim, 1).await?.pop())
    }

    /// Claims up to so many runs, each as [`claim_run`](Self::claim_run) does: those that have waited longest, each of another thread. None
    /// only if there is none. A store that can claim several at once for less does; others claim one.
    async fn claim_runs(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let claimed = self.backend().claim(claim, most).await?;
        for claimed in &claimed {
            self.backend().announce(Notice { thread: &claimed.run.thread, ..Notice::default() });
        }
        Ok(claimed)
    }

    /// Stores all of this or nothing, and returns the number of the thread's last event.
    ///
    /// With [`Settlement::end`], the run ends and the lease is released in the same transaction.
    /// [`SaverError::Superseded`](crate::checkpoint::SaverError::Superseded) if somebody else has claimed the thread since.
    async fn record(&self, lease: &Lease, settlement: Settlement) -> Result<u64, RunsError> {
        settlement.records.iter().try_for_each(check)?;
        let action = ThreadAction::Record(lease.clone(), Box::new(settlement));
        Ok(self.backend().apply(ThreadChange::new(&*lease.thread, action)).await?.last_event)
    }

    /// Hands a run back that was claimed and is not to be gone on with here: it waits again, first of its thread, the attempt
    /// does not count, and the lease is released.
    async fn hand_back(&self, lease: &Lease, run: Uuid) -> Result<(), RunsError> {
        let action = ThreadAction::Requeue(lease.clone(), run);
        self.backend().apply(ThreadChange::new(&*lease.thread, action)).await.map(|_| ())
    }

    /// Events of a thread, in the order of their numbers.
    async fn events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        self.backend().find_events(query).await
    }

    /// Deletes the events and the ended runs that are older than this, and returns how many events and runs that were.
    async fn prune_runs(&self, older_than: std::time::Duration) -> Result<(u64, u64), RunsError> {
        self.backend().delete_older(older_than).await
    }

    /// A document: how [`Assistants`], [`Crons`] and [`Webhooks`] are kept.
    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        self.backend().load_document(kind, id).await
    }

    /// All documents of a kind, by their ids.
    async fn documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        self.backend().find_documents(kind).await
    }

    /// Returns documents of a kind that are due by then ([`Document::due`]), the longest overdue first. It returns a limited number, and
    /// finds them with an index.
    async fn documents_due(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        self.backend().find_due_documents(kind, by).await
    }

    /// Stores a document if its revision is this one: none for a new one. False if it is another.
    async fn put_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        self.backend().store_document(document, replaces).await
    }

    /// Deletes a document. False if there was none.
    async fn remove_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        self.backend().delete_document(kind, id).await
    }

    /// Tells who waits that something has changed: in this process at once, of other processes where the database can tell.
    /// A hint: whoever waits also looks again now and then.
    fn bell(&self) -> &Bell {
        self.backend().notifier()
    }
}

impl dyn RunStore {
    /// The same object as a saver.
    pub fn as_checkpointer(self: Arc<Self>) -> Arc<dyn Checkpointer> {
        self
    }
}
