//! Signals: one task takes each signal, and a signal that does not arrive in time has its default.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hier_core::async_trait;
use hier_core::checkpoint::{
    Capabilities, Checkpointer, Commit, Delivered, DueQuery, DueThread, Inbox, InboxMessage, Lease, LeaseState,
    MemorySaver, PostOutcome, SaverError,
};
use hier_core::graph::{Retry, Signal};
use hier_core::prelude::*;
use hier_core::{Durability, QuestionKind, Result};
use hier_testkit::{Layered, SaverLayer};

use crate::kit::{Case, CaseUpdate, DAY, SECOND, Tally, WEEK, beside, config, questions as asked};

/// A saver that looks into mailboxes slowly, and stores what takes a signal slowly.
struct Slow(MemorySaver, AtomicUsize);

#[async_trait]
impl SaverLayer for Slow {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.0
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        if commit.also.is_none() {
            return self.0.commit(lease, commit).await;
        }
        tokio::time::sleep(self.delay()).await;
        let state = self.0.commit(lease, commit).await?;
        // The answer of the database comes later.
        tokio::time::sleep(self.delay()).await;
        Ok(state)
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities().with_inbox(self)
    }
}

#[hier_core::async_trait]
impl Inbox for Slow {
    async fn post(&self, thread: &str, graph: &str, letter: InboxMessage) -> Result<PostOutcome, SaverError> {
        self.0.post(thread, graph, letter).await
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        tokio::time::sleep(self.delay()).await;
        self.0.messages(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.0.due(query).await
    }
}

impl Slow {
    /// The calls up to this one take long, one at a time.
    fn delay(&self) -> Duration {
        match self.1.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)) {
            Ok(1) => Duration::from_millis(400),
            _ => Duration::ZERO,
        }
    }
}

async fn takes(run: &Run<Tally>) -> Result<CaseUpdate> {
    let name = run.node().to_owned();
    let text = run.signal::<String>("go").until(SystemTime::now() + DAY, "nothing".to_owned()).await?;
    Ok(Case::update().log([format!("{name} {text}")]))
}

async fn takes_later(run: &Run<Tally>) -> Result<CaseUpdate> {
    tokio::time::sleep(Duration::from_millis(250)).await;
    takes(run).await
}

fn thrice() -> Retry {
    Retry { interval: Duration::from_millis(1), jitter: 0.0, ..Retry::attempts(3) }
}

graph! {
    Rivals<Case, Tally> = Graph {
        nodes: [a = takes { timeout: 200ms, retry: thrice() }, b = takes_later { timeout: 2s, retry: thrice() }],
        edges: [START >> [a, b] >> END],
    }
}

/// An attempt is cut off at each call of the saver while it takes a signal: its task takes it again, and no other task does.
#[tokio::test(start_paused = true)]
async fn signal_is_consumed_by_one_task_across_crashes() {
    for durability in [Durability::Sync, Durability::Exit] {
        for slow in 0..8 {
            let memory = MemorySaver::new();
            let saver = Arc::new(Layered(Slow(memory.clone(), slow.into())));
            let graph = Rivals::compile().checkpointer(saver);
            graph.send("t", Signal::new("go", &"one")).await.unwrap();
            let config = config().durability(durability);
            let waits = graph.invoke(Case::update()).config(config.clone()).context(Tally::default()).await.unwrap();
            assert_eq!(asked(waits).len(), 1, "{durability:?} {slow}: one task waits for another signal");
            assert_eq!(memory.messages("t").await.unwrap().len(), 0, "{durability:?} {slow}");
            graph.send("t", Signal::new("go", &"two")).await.unwrap();
            let end = graph.invoke(()).config(config).context(Tally::default()).await.unwrap();
            let mut log = end.state().log.clone();
            log.sort();
            assert!(matches!(&*log, [a, b] if [a, b] == ["a one", "b two"] || [a, b] == ["a two", "b one"]), "{log:?}");
        }
    }
}

graph! { Patient<Case, Tally> = Graph { nodes: [takes, beside], edges: [START >> [takes, beside] >> END] } }
graph! { AroundPatient<Case, Tally> = Graph { nodes: [Patient], edges: [START >> Patient >> END] } }

/// A signal has a deadline like a question: the deadline is stored, does not change when the task runs again, and is driven with the
/// thread.
#[tokio::test]
async fn missing_signal_gets_its_default() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let (saver, tally) = (MemorySaver::new(), Tally::default());
        let graph = AroundPatient::compile().checkpointer(saver.clone());
        let config = config().durability(durability);
        let waits =
            asked(graph.invoke(Case::update()).config(config.clone()).context(tally.clone()).await.unwrap()).remove(0);
        assert_eq!((&waits.kind, &waits.default), (&QuestionKind::Signal("go".into()), &Some("nothing".into())));
        let again = asked(graph.invoke(()).config(config.clone()).context(tally.clone()).await.unwrap()).remove(0);
        assert_eq!((again.due, &again.id), (waits.due, &waits.id), "the time is that of the first time");
        let to_each = tally.clone();
        let sweeper = graph.sweeper(move |_| to_each.clone()).config(Config::new().durability(durability));
        assert!(sweeper.drive_due(SystemTime::now() + DAY - 60 * SECOND).await.unwrap().is_empty());
        let driven = sweeper.drive_due(SystemTime::now() + DAY + SECOND).await.unwrap();
        let end = driven.into_iter().next().expect("it is due").outcome.unwrap();
        let mut log = end.state().log.clone();
        log.sort();
        assert_eq!(log, ["beside", "takes nothing"], "{durability:?}");
        // One that comes later is not taken.
        graph.send("t", Signal::new("go", &"late")).await.unwrap();
        assert_eq!((tally.of("beside"), saver.messages("t").await.unwrap().len()), (1, 1));
    }
}

/// A signal that arrives after the deadline but before the thread is driven counts.
#[tokio::test]
async fn late_signal_counts_until_the_thread_resumes() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Patient::compile().checkpointer(saver.clone());
    asked(graph.invoke(Case::update()).config(config()).context(tally.clone()).await.unwrap());
    graph.send("t", Signal::new("go", &"late")).await.unwrap();
    let driven = graph.sweeper(move |_| tally.clone()).drive_due(SystemTime::now() + WEEK).await.unwrap();
    let end = driven.into_iter().next().expect("it is due").outcome.unwrap();
    assert!(end.state().log.contains(&"takes late".to_owned()), "{end:?}");
}

/// Another thread does not get a result that used a signal, even if the task was resumed after the signal arrived.
#[tokio::test]
async fn results_of_resumed_tasks_with_signals_are_not_cached() {
    // The context and the thread's id would keep the result out of the cache, too.
    static RUNS: AtomicUsize = AtomicUsize::new(0);

    async fn pays(case: &Case, run: &Run<Tally>) -> Result<CaseUpdate> {
        let receipt: String = if case.log == ["within"] {
            run.step("wait", async || run.signal("paid").await).await?
        } else {
            run.signal("paid").await?
        };
        if RUNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            return Err(NodeError::permanent("boom"));
        }
        Ok(Case::update().log([receipt]))
    }
    graph! { Paying<Case, Tally> = Graph { nodes: [pays { cache: 60s }], edges: [START >> pays >> END] } }

    for how in ["direct", "within"] {
        let graph = Paying::compile().checkpointer(MemorySaver::new());
        graph.send("t", Signal::new("paid", &"r-17")).await.unwrap();
        let input = || Case::update().log([how]);
        let failed = graph.invoke(input()).config(config()).context(Tally::default()).await;
        assert!(failed.unwrap_err().to_string().contains("boom"));
        let paid = graph.invoke(()).config(config()).context(Tally::default()).await.unwrap();
        assert_eq!(paid.into_state().log, [how, "r-17"]);
        let other = graph.invoke(input()).thread("other").context(Tally::default()).await.unwrap();
        assert!(!other.is_finished(), "{how}: {other:?}");
    }
}
