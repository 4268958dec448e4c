//! Drives a [`RunBackend`]: each change of runs is decided and stored by the backend as one [`ThreadChange`], and then announced. It is
//! announced here and nowhere else, so that listeners hear the same with every database.

use super::backend::RunBackend;
use super::bell::Notice;
use super::change::{Changed, ThreadAction, ThreadChange};
use super::error::RunsError;
use super::run::{Claimed, NewRun, Run, RunClaim};

impl dyn RunBackend + '_ {
    /// Stores a change, then notifies of it.
    pub(super) async fn apply(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        let thread = change.thread.clone();
        let stays_held = change.lease().is_some() && !change.releases();
        let is_record = matches!(change.action, ThreadAction::Record(..));
        let ends = match &change.action {
            ThreadAction::Add(run, _) => !run.multitask_strategy.spares_others(),
            ThreadAction::Start(_) => false,
            _ => !stays_held,
        };
        let mut changed = self.change(change).await?;
        // Listeners to the ends of runs need not read the run that has ended.
        let ended = if is_record { changed.runs.pop() } else { None };
        // Nobody can claim a run of a thread that is held.
        let runs = changed.is_busy && changed.claimed.is_none() && !stays_held;
        self.announce(Notice { thread: &thread, ends, ended, runs });
        Ok(changed)
    }

    /// Adds a run, and starts it if it is claimed and nothing is in its way.
    pub(super) async fn add(&self, run: NewRun, claim: Option<RunClaim>) -> Result<(Run, Option<Claimed>), RunsError> {
        let thread = run.thread.clone();
        let change = ThreadChange::new(thread.clone(), ThreadAction::Add(Box::new(run), claim));
        let mut changed = self.apply(change).await?;
        let added = changed.runs.pop().ok_or(RunsError::NoThread { thread })?;
        Ok((added, changed.claimed))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use crate::runs::{
        Cancel, Ends, Listener, LogEvent, MemoryRuns, MultitaskStrategy, NewEvent, NewRun, Request, RunClaim, RunEnd,
        RunStatus, RunStore, Settlement, ThreadIs, ThreadPatch,
    };

    /// Listens to everything that a change can concern.
    struct Listeners {
        thread: Listener,
        ends: Ends,
        runs: Listener,
    }

    impl Listeners {
        /// Returns the names of the listeners that were woken since the last call.
        fn woken(&mut self) -> Vec<&'static str> {
            let thread = is_ready(self.thread.rung()).then_some("thread");
            let ends = is_ready(self.ends.rung()).then_some("ends");
            let runs = is_ready(self.runs.rung()).then_some("runs");
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
    async fn changes_wake_the_listeners_that_they_concern() {
        let store = MemoryRuns::new();
        let claim = || RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
        let bell = store.bell();
        let mut listeners = Listeners { thread: bell.thread("t"), ends: bell.ends("t"), runs: bell.runs() };

        let first = store.create_run(new(MultitaskStrategy::Enqueue)).await.expect("added");
        assert_eq!(listeners.woken(), ["thread", "runs"]);
        let lease = store.claim_run(claim()).await.expect("the store").expect("a run").lease;
        assert_eq!(listeners.woken(), ["thread"]);
        let events =
            vec![NewEvent::new(first.id, LogEvent::Custom { node: "work".to_owned(), value: serde_json::Value::Null })];
        store.record(&lease, Settlement::events(events)).await.expect("stored");
        assert_eq!(listeners.woken(), ["thread"]);
        store.hand_back(&lease, first.id).await.expect("stored");
        assert_eq!(listeners.woken(), ["thread", "ends", "runs"]);

        let lease = store.claim_run(claim()).await.expect("the store").expect("a run").lease;
        assert_eq!(listeners.woken(), ["thread"]);
        let second = store.create_run(new(MultitaskStrategy::Interrupt)).await.expect("added");
        assert_eq!(listeners.woken(), ["thread", "ends", "runs"], "the first is cancelled");
        let end = Settlement::default().end(RunEnd::new(first.id, RunStatus::Interrupted));
        store.record(&lease, end).await.expect("stored");
        assert_eq!(listeners.woken(), ["thread", "ends", "runs"], "the second waits");
        assert_eq!(listeners.ends.ended(first.id).map(|run| run.status), Some(RunStatus::Interrupted));

        store.cancel_runs("t", &[second.id], Cancel::Interrupt).await.expect("cancelled");
        assert_eq!(listeners.woken(), ["thread", "ends"], "no run waits");
        store.update_thread("t", ThreadPatch::default()).await.expect("changed");
        assert_eq!(listeners.woken(), ["thread", "ends"]);
        let (_, claimed) = store.create_claimed(new(MultitaskStrategy::Enqueue), claim()).await.expect("added");
        assert_eq!((claimed.is_some(), listeners.woken()), (true, vec!["thread"]));
        let other = ThreadIs { created: Some(std::time::SystemTime::UNIX_EPOCH), ..ThreadIs::default() };
        assert!(!store.remove_thread_if("t", other).await.expect("refused"), "it is another thread");
        assert!(listeners.woken().is_empty(), "nothing was deleted");
        store.remove_thread("t").await.expect("removed");
        assert_eq!(listeners.woken(), ["thread", "ends", "runs"]);
    }
}
