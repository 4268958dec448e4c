//! Changes of a thread and its runs, as data.
//!
//! A [`ThreadChange`] turns the [`ThreadSnapshot`] of a thread into the [`ThreadDecision`] to store. A backend may
//! repeat this with a later snapshot, on another thread of the process, or for several threads at once.

use std::time::SystemTime;

use uuid::Uuid;

use super::document::Document;
use super::error::RunsError;
use super::queue::Queue;
use super::run::{Cancel, Claimed, NewRun, Run, RunClaim, RunCommit};
use super::status::ThreadStatus;
use super::thread::{ThreadIs, ThreadPatch, ThreadRow};
use hier_checkpoint::checkpoint::{Lease, SideEffects, WriteRecord};

/// A change of a thread and its runs. A backend applies the change with [`decide`](Self::decide).
#[derive(Clone, Debug)]
pub struct ThreadChange {
    /// The id of the thread.
    pub thread: String,
    /// The action.
    pub action: ThreadAction,
}

/// An action on a thread and its runs.
#[derive(Clone, Debug)]
pub enum ThreadAction {
    /// Adds a run. With a claim, the change also starts this run under two conditions: the thread has no valid lease,
    /// and no other run of the thread comes before it for this claim.
    Add(Box<NewRun>, Option<RunClaim>),
    /// Starts the next run of the thread if the thread has no valid lease. The next run is a run whose worker has lost
    /// its lease, or else the first run that is due.
    Start(RunClaim),
    /// Cancels these runs if the thread meets the condition. Otherwise the change fails with [`RunsError::NoThread`].
    Cancel(ThreadIs, Vec<Uuid>, Cancel),
    /// Changes the metadata or the time to live of the thread.
    Patch(ThreadPatch),
    /// Stores a commit of a claimed run, with the lease of the claim. If the commit contains the end of the run, the
    /// change releases the lease.
    Commit(Lease, Box<RunCommit>),
    /// Puts a claimed run back into the queue, and releases the lease.
    Requeue(Lease, Uuid),
}

/// A thread as a backend has loaded it for a change.
#[derive(Clone, Debug)]
pub struct ThreadSnapshot {
    /// The thread with its runs that have not ended. `None` if the thread does not exist.
    pub queue: Option<Queue>,
    /// The number that a new run gets. See [`Run::number`].
    pub number: u64,
    /// True if the change adds a run and a run with the same id exists.
    pub is_taken: bool,
    /// The time of the change.
    pub now: SystemTime,
}

impl ThreadSnapshot {
    /// Creates a snapshot for a change that does not add a run.
    pub const fn new(queue: Option<Queue>, now: SystemTime) -> Self {
        Self { queue, number: 0, is_taken: false, now }
    }
}

/// The result of [`ThreadChange::decide`]: the rows that a backend stores for a change.
#[derive(Clone, Debug)]
pub struct ThreadDecision {
    /// The changed thread with its runs. [`Queue::changed`] returns the rows to store.
    pub queue: Queue,
    /// A document to store, or `None` if the change stores no document. If the stored document has another revision
    /// than [`Document::revision`], the backend refuses the change with [`RunsError::Stale`].
    pub document: Option<Document>,
    /// The checkpoints and the writes of tasks to store.
    pub records: Vec<WriteRecord>,
    /// The changes of the thread's inbox and timer.
    pub also: SideEffects,
    /// The claim with which the next run can start, or `None` if no run can start. If the thread has no valid lease,
    /// the backend grants the claim and calls [`start`](Self::start).
    pub claim: Option<RunClaim>,
    /// The runs that the change concerns: the run that was added, the runs that were cancelled, or the run that has
    /// ended.
    pub runs: Vec<Run>,
    /// The run that [`start`](Self::start) has started, or `None` if it has started no run.
    pub started: Option<Run>,
    now: SystemTime,
}

/// The result of a stored change.
#[derive(Clone, Debug)]
pub struct Changed {
    /// The number of the thread's last event.
    pub last_event: u64,
    /// True if the thread has a run that has not ended.
    pub is_busy: bool,
    /// The runs that the change concerns: the run that was added, the runs that were cancelled, or the run that has
    /// ended.
    pub runs: Vec<Run>,
    /// The run that was started, with the lease of the thread. `None` if no run was started.
    pub claimed: Option<Claimed>,
}

impl Changed {
    /// Creates the result of a change. `thread` is the row of the thread after the change.
    pub fn new(thread: &ThreadRow, runs: Vec<Run>, claimed: Option<Claimed>) -> Self {
        let is_busy = thread.status == ThreadStatus::Busy;
        Self { last_event: thread.last_event, is_busy, runs, claimed }
    }
}

impl ThreadChange {
    /// Creates a change of this thread.
    pub fn new(thread: impl Into<String>, action: ThreadAction) -> Self {
        Self { thread: thread.into(), action }
    }

    /// Creates a change that starts the next run of a thread.
    pub fn start(thread: impl Into<String>, claim: RunClaim) -> Self {
        Self::new(thread, ThreadAction::Start(claim))
    }

    /// Returns the lease with which the change was made, or `None` if the change needs no lease. If the lease is not
    /// valid, the backend refuses the change.
    pub const fn lease(&self) -> Option<&Lease> {
        match &self.action {
            ThreadAction::Commit(lease, _) | ThreadAction::Requeue(lease, _) => Some(lease),
            _ => None,
        }
    }

    /// Returns true if the backend must release the lease of the change.
    pub const fn releases(&self) -> bool {
        match &self.action {
            ThreadAction::Commit(_, settlement) => settlement.end.is_some(),
            ThreadAction::Requeue(..) => true,
            _ => false,
        }
    }

    /// Returns true if the backend may have to [undo](RunCommit::undo) a run, which can take long.
    pub fn undoes(&self) -> bool {
        matches!(&self.action, ThreadAction::Commit(_, settlement)
            if settlement.undo.is_some() || settlement.end.as_ref().is_some_and(|end| end.rollback))
    }

    /// Returns the claim with which the change can start a run, or `None` if the change never starts a run.
    pub const fn claim(&self) -> Option<&RunClaim> {
        match &self.action {
            ThreadAction::Add(_, claim) => claim.as_ref(),
            ThreadAction::Start(claim) => Some(claim),
            _ => None,
        }
    }

    /// Returns the run that the change adds, or `None` if it adds no run.
    pub const fn new_run(&self) -> Option<&NewRun> {
        match &self.action {
            ThreadAction::Add(run, _) => Some(run),
            _ => None,
        }
    }

    /// Moves the records out of the change, for a backend that encodes them before the decision. A copy of the first
    /// record stays, because [`decide`](Self::decide) checks if the change has records. Returns `None` if the change is
    /// not a commit.
    pub fn take_records(&mut self) -> Option<Vec<WriteRecord>> {
        let ThreadAction::Commit(_, settlement) = &mut self.action else { return None };
        let first = settlement.records.first().cloned().into_iter().collect();
        Some(std::mem::replace(&mut settlement.records, first))
    }

    /// Computes the rows to store from the thread in `snapshot`. Returns `None` if the change only starts a run and no
    /// run can start.
    pub fn decide(self, snapshot: ThreadSnapshot) -> Result<Option<ThreadDecision>, RunsError> {
        let Self { thread, action } = self;
        let ThreadSnapshot { queue, number, is_taken, now } = snapshot;
        let queue = match (queue, &action) {
            (_, ThreadAction::Add(run, _)) if is_taken => {
                return Err(RunsError::Exists { kind: "run", id: run.id.unwrap_or_default().to_string() });
            }
            (Some(queue), _) => queue,
            (None, ThreadAction::Add(run, _)) => Queue::new(Queue::thread_for(run, now)?, Vec::new()),
            (None, ThreadAction::Start(_)) => return Ok(None),
            (None, _) => return Err(RunsError::NoThread { thread }),
        };
        let mut decision = ThreadDecision::new(queue, now);
        let queue = &mut decision.queue;
        match action {
            ThreadAction::Add(mut run, claim) => {
                decision.document = run.document.take();
                let added = queue.add(*run, number, now)?;
                let is_next = |claim: &RunClaim| queue.head(claim.graphs.as_deref(), now).map(|head| head.id);
                decision.claim = claim.filter(|claim| is_next(claim) == Some(added.id));
                decision.runs.push(added);
            }
            ThreadAction::Start(claim) => {
                if queue.head(claim.graphs.as_deref(), now).is_none() {
                    return Ok(None);
                }
                decision.claim = Some(claim);
            }
            ThreadAction::Cancel(is, runs, action) => {
                is.check(queue.thread())?;
                decision.runs = queue.cancel(&runs, action, now);
            }
            ThreadAction::Patch(patch) => queue.patch(patch, now)?,
            ThreadAction::Commit(_, mut settlement) => {
                let ends = settlement.end.as_ref().map(|end| end.run);
                queue.settle(&mut settlement, now)?;
                decision.runs.extend(ends.and_then(|run| queue.ended(run)).cloned());
                (decision.records, decision.also) = (settlement.records, settlement.also);
            }
            ThreadAction::Requeue(_, run) => queue.requeue(run, now),
        }
        Ok(Some(decision))
    }
}

impl ThreadDecision {
    fn new(queue: Queue, now: SystemTime) -> Self {
        let (document, records, also) = (None, Vec::new(), SideEffects::default());
        Self { queue, document, records, also, claim: None, runs: Vec::new(), started: None, now }
    }

    /// Starts the next run of the thread. The backend calls this method after it has granted [`claim`](Self::claim),
    /// and stores the lease together with the run.
    pub fn start(&mut self) {
        if let Some(claim) = self.claim.take() {
            self.started = self.queue.start(claim.graphs.as_deref(), self.now);
        }
    }

    /// Returns true if the decision only starts a run. If the backend cannot grant the claim of such a decision, the
    /// backend stores nothing.
    pub const fn is_only_claim(&self) -> bool {
        self.claim.is_some() && self.runs.is_empty()
    }
}
