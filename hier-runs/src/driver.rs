//! Drives the runs of a [`RunStore`]. Each change is decided and stored as one [`ThreadChange`], and then announced.
//! The backends do not announce these changes themselves, so listeners receive the same notices with every database.

use std::time::Duration;

use futures_core::future::BoxFuture;
use uuid::Uuid;

use super::backend::PrunedRuns;
use super::change::{Changed, ThreadAction, ThreadChange};
use super::error::RunsError;
use super::event::{EventPage, EventQuery};
use super::notifier::Notice;
use super::query::RunQuery;
use super::run::{AddedRun, Cancel, Claimed, NewRun, Run, RunClaim, RunCommit};
use super::store::RunStore;
use super::thread::ThreadIs;
use hier_checkpoint::checkpoint::guard::reported;
use hier_checkpoint::checkpoint::{Lease, check};

/// Runs a call of a backend. A panic in it is logged and returned as an error.
pub(super) async fn guard<'a, T>(
    name: &'static str,
    call: impl FnOnce() -> BoxFuture<'a, Result<T, RunsError>>,
) -> Result<T, RunsError> {
    reported(name, async { call().await }).await
}

/// Runs.
impl dyn RunStore + '_ {
    pub(super) async fn apply(&self, call: &'static str, change: ThreadChange) -> Result<Changed, RunsError> {
        let thread = change.thread.clone();
        let stays_held = change.lease().is_some() && !change.releases();
        let is_record = matches!(change.action, ThreadAction::Commit(..));
        let ends = match &change.action {
            ThreadAction::Add(run, _) => !run.multitask_strategy.spares_others(),
            ThreadAction::Start(_) => false,
            _ => !stays_held,
        };
        let mut changed = guard(call, || self.run_backend().change(change)).await?;
        // Listeners to the ends of runs need not read the run that has ended.
        let ended = if is_record { changed.runs.pop() } else { None };
        // A run of a held thread cannot be claimed.
        let runs = changed.is_busy && changed.claimed.is_none() && !stays_held;
        self.announce(Notice { thread: &thread, ends, ended, runs });
        Ok(changed)
    }

    async fn add(&self, call: &'static str, run: NewRun, claim: Option<RunClaim>) -> Result<AddedRun, RunsError> {
        let thread = run.thread.clone();
        let change = ThreadChange::new(thread.clone(), ThreadAction::Add(Box::new(run), claim));
        let mut changed = self.apply(call, change).await?;
        let run = changed.runs.pop().ok_or(RunsError::NoThread { thread })?;
        Ok(AddedRun { run, claimed: changed.claimed })
    }

    /// Adds a run. Its [`MultitaskStrategy`](super::MultitaskStrategy) decides what happens to earlier runs on the
    /// thread that have not ended.
    ///
    /// # Errors
    ///
    /// After an error other than [`RunsError::Saver`], nothing has changed:
    ///
    /// * [`RunsError::NoThread`]: the thread does not exist and the run does not create it, or the thread does not meet
    ///   [`NewRun::on`].
    /// * [`RunsError::Busy`]: the strategy is `Reject`, and the thread has an earlier run that has not ended.
    /// * [`RunsError::Exists`]: a run with this id exists. A caller that sets the id and does not receive the result
    ///   can therefore safely repeat the call.
    /// * [`RunsError::Answered`]: a run that has not ended answers a question that this run answers, too.
    /// * [`RunsError::QueueFull`]: the requests of the runs that have not ended would exceed
    ///   [`QUEUE_BYTES`](super::QUEUE_BYTES). A thread without such runs accepts each request.
    /// * [`RunsError::Stale`]: the stored document has another revision than [`NewRun::document`], or the run answers a
    ///   question that an ended run has closed.
    /// * [`RunsError::Saver`]: the run may have been added, because the answer of the database may have been lost.
    pub async fn create_run(&self, run: NewRun) -> Result<Run, RunsError> {
        Ok(self.add("create_run", run, None).await?.run)
    }

    /// Adds a run like `create_run`. If the run can start at once, also claims the run in the same transaction. A run
    /// can start at once if all of these conditions are true:
    ///
    /// * The run is due and is the next run of its thread.
    /// * `claim` accepts the graph of the run.
    /// * The thread has no valid lease.
    ///
    /// A store may also leave such a run unclaimed, for a later call of `claim_run`.
    ///
    /// A worker calls this method if it can execute another run and no run waits for a worker. The caller must execute
    /// the run that it has claimed.
    ///
    /// Cancel safety: if the future is dropped, the run may have been added and claimed. No worker then executes it
    /// before the lease expires.
    pub async fn create_claimed(&self, run: NewRun, claim: RunClaim) -> Result<AddedRun, RunsError> {
        self.add("create_claimed", run, Some(claim)).await
    }

    /// Returns the run with this id, or `None` if it does not exist. The ids of runs are unique across threads.
    pub async fn run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        guard("run", || self.run_backend().load_run(id)).await
    }

    /// Returns the runs that match a query, newest first.
    pub async fn runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        guard("runs", || self.run_backend().find_runs(query)).await
    }

    /// Deletes a run that has ended. Its events and checkpoints stay. Returns false if the run does not exist.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::Live`] if the run has not ended.
    pub async fn remove_run(&self, id: Uuid) -> Result<bool, RunsError> {
        guard("remove_run", || self.run_backend().delete_run(id)).await
    }

    /// Cancels these runs of a thread. Returns the runs in `runs` that had not ended before the call, in their new
    /// state. A run that no worker has begun ends at once. If a worker has begun a run, this worker ends it. If this
    /// worker was killed or has requeued the run, the next worker that claims the run ends it.
    pub async fn cancel_runs(&self, thread: &str, runs: &[Uuid], action: Cancel) -> Result<Vec<Run>, RunsError> {
        self.cancel_runs_if(thread, ThreadIs::default(), runs, action).await
    }

    /// Cancels runs like `cancel_runs` if the thread meets the condition. The check of the condition is part of the
    /// transaction.
    ///
    /// # Errors
    ///
    /// Fails with [`RunsError::NoThread`] if the thread does not exist or does not meet the condition.
    pub async fn cancel_runs_if(
        &self,
        thread: &str,
        is: ThreadIs,
        runs: &[Uuid],
        action: Cancel,
    ) -> Result<Vec<Run>, RunsError> {
        let action = ThreadAction::Cancel(is, runs.to_vec(), action);
        Ok(self.apply("cancel_runs", ThreadChange::new(thread, action)).await?.runs)
    }

    /// Claims the run that has waited longest. A run can be claimed if its thread has no valid lease, and if the run is
    /// either due or was claimed by a worker whose lease has expired. The claim counts as an attempt. Returns `None` if
    /// no run can be claimed.
    pub async fn claim_run(&self, claim: RunClaim) -> Result<Option<Claimed>, RunsError> {
        Ok(self.claim_runs(claim, 1).await?.pop())
    }

    /// Claims up to `most` runs like `claim_run`, each on another thread. May return fewer runs than can be claimed.
    /// Returns an empty list only if no run can be claimed, or if `most` is 0.
    pub async fn claim_runs(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        let claimed = guard("claim_runs", || self.run_backend().claim(claim, most)).await?;
        for claimed in &claimed {
            self.announce(Notice { thread: &claimed.run.thread, ..Notice::default() });
        }
        Ok(claimed)
    }

    /// Stores `settlement`, a commit of a claimed run, in one transaction. Returns the number of the thread's latest
    /// event. If the commit has an [`end`](RunCommit::end), the run ends and the lease is released.
    ///
    /// # Errors
    ///
    /// Fails with [`SaverError::Superseded`](hier_checkpoint::checkpoint::SaverError::Superseded) if another claim has
    /// taken over the thread. Fails with [`RunsError::Cancelled`] if the commit ends a run that must be rolled back: undo
    /// the run, and end it with [`RunEnd::rolled_back`](super::RunEnd::rolled_back).
    pub async fn commit_run(&self, lease: &Lease, settlement: RunCommit) -> Result<u64, RunsError> {
        settlement.records.iter().try_for_each(check)?;
        let action = ThreadAction::Commit(lease.clone(), Box::new(settlement));
        Ok(self.apply("commit_run", ThreadChange::new(&*lease.thread, action)).await?.last_event)
    }

    /// Puts a claimed run back into the queue, as the first run of its thread, and releases the lease. The attempt does
    /// not count.
    pub async fn requeue(&self, lease: &Lease, run: Uuid) -> Result<(), RunsError> {
        let action = ThreadAction::Requeue(lease.clone(), run);
        self.apply("requeue", ThreadChange::new(&*lease.thread, action)).await.map(|_| ())
    }

    /// Returns the events that match a query, ordered by number.
    pub async fn events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        guard("events", || self.run_backend().find_events(query)).await
    }

    /// Deletes events that were stored more than this duration ago, and runs that ended more than this duration ago.
    /// Returns the numbers of deleted events and runs.
    pub async fn prune_runs(&self, older_than: Duration) -> Result<PrunedRuns, RunsError> {
        guard("prune_runs", || self.run_backend().delete_older(older_than)).await
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use crate::{
        Cancel, Listener, LogEvent, MemoryRuns, MultitaskStrategy, NewEvent, NewRun, Request, RunClaim, RunCommit,
        RunEnd, RunEnds, RunStatus, RunStore, ThreadIs, ThreadPatch,
    };

    struct Listeners {
        thread: Listener,
        ends: RunEnds,
        runs: Listener,
    }

    impl Listeners {
        /// Returns the names of the listeners that were woken since the last call.
        fn woken(&mut self) -> Vec<&'static str> {
            let thread = is_ready(self.thread.changed()).then_some("thread");
            let ends = is_ready(self.ends.changed()).then_some("ends");
            let runs = is_ready(self.runs.changed()).then_some("runs");
            [thread, ends, runs].into_iter().flatten().collect()
        }
    }

    fn is_ready(future: impl Future<Output = ()>) -> bool {
        pin!(future).poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    fn new(strategy: MultitaskStrategy) -> NewRun {
        let mut new = NewRun::new("t", "desk", Request::default()).create_thread();
        new.multitask_strategy = strategy;
        new
    }

    #[tokio::test]
    async fn changes_wake_only_their_listeners() {
        let store: std::sync::Arc<dyn RunStore> = std::sync::Arc::new(MemoryRuns::new());
        let claim = || RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
        let notifier = store.notifier();
        let mut listeners = Listeners { thread: notifier.thread("t"), ends: notifier.ends("t"), runs: notifier.runs() };

        let first = store.create_run(new(MultitaskStrategy::Enqueue)).await.expect("added");
        assert_eq!(listeners.woken(), ["thread", "runs"]);
        let lease = store.claim_run(claim()).await.expect("the store").expect("a run").lease;
        assert_eq!(listeners.woken(), ["thread"]);
        let events =
            vec![NewEvent::new(first.id, LogEvent::Custom { node: "work".to_owned(), value: serde_json::Value::Null })];
        store.commit_run(&lease, RunCommit::events(events)).await.expect("stored");
        assert_eq!(listeners.woken(), ["thread"]);
        store.requeue(&lease, first.id).await.expect("stored");
        assert_eq!(listeners.woken(), ["thread", "ends", "runs"]);

        let lease = store.claim_run(claim()).await.expect("the store").expect("a run").lease;
        assert_eq!(listeners.woken(), ["thread"]);
        let second = store.create_run(new(MultitaskStrategy::Interrupt)).await.expect("added");
        assert_eq!(listeners.woken(), ["thread", "ends", "runs"], "the first is cancelled");
        let end = RunCommit::default().end(RunEnd::new(first.id, RunStatus::Interrupted));
        store.commit_run(&lease, end).await.expect("stored");
        assert_eq!(listeners.woken(), ["thread", "ends", "runs"], "the second waits");
        assert_eq!(listeners.ends.ended(first.id).map(|run| run.status), Some(RunStatus::Interrupted));

        store.cancel_runs("t", &[second.id], Cancel::Interrupt).await.expect("cancelled");
        assert_eq!(listeners.woken(), ["thread", "ends"], "no run waits");
        store.update_thread("t", ThreadPatch::default()).await.expect("changed");
        assert_eq!(listeners.woken(), ["thread", "ends"]);
        let added = store.create_claimed(new(MultitaskStrategy::Enqueue), claim()).await.expect("added");
        assert_eq!((added.claimed.is_some(), listeners.woken()), (true, vec!["thread"]));
        let other = ThreadIs { created: Some(std::time::SystemTime::UNIX_EPOCH), ..ThreadIs::default() };
        assert!(!store.remove_thread_if("t", other).await.expect("refused"), "it is another thread");
        assert!(listeners.woken().is_empty(), "nothing was deleted");
        store.remove_thread("t").await.expect("removed");
        assert_eq!(listeners.woken(), ["thread", "ends", "runs"]);
    }
}
