//! Threads that wait for a time or a signal are found again even if the driving process dies.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use hier_core::checkpoint::{
    Capabilities, Checkpointer, Claim, Commit, DueChange, DueQuery, Inbox, Lease, LeaseState, MemorySaver, Saved,
    SaverError, SideEffects, ThreadAdmin,
};
use hier_core::graph::Signal;
use hier_core::prelude::*;
use hier_core::{Durability, Result, async_trait};
use hier_testkit::{Layered, SaverLayer};
use tokio::sync::Notify;
use tokio::time::Instant;
use uuid::Uuid;

use crate::kit::{Case, CaseUpdate, DAY, SECOND, Tally, WEEK};

fn noted(what: &str) -> CaseUpdate {
    Case::update().log([what.to_owned()])
}

async fn sleeps(run: &Run<Tally>) -> Result<CaseUpdate> {
    run.sleep(WEEK).await?;
    Ok(noted("slept"))
}

async fn naps(run: &Run<Tally>) -> Result<CaseUpdate> {
    run.sleep(5 * SECOND).await?;
    Ok(noted("napped"))
}

async fn works(run: &Run<Tally>) -> Result<CaseUpdate> {
    run.step("work", async || Ok(run.context().hit("work"))).await?;
    Ok(noted("worked"))
}

async fn waits(run: &Run<Tally>) -> Result<CaseUpdate> {
    Ok(noted(&run.signal::<String>("go").await?))
}

async fn asks(run: &Run<Tally>) -> Result<CaseUpdate> {
    let soon = SystemTime::now() + DAY;
    Ok(noted(&run.interrupt::<String>(&"sure?").until(soon, "no answer".to_owned()).await?))
}

graph! {
    Long<Case, Tally> = Graph {
        nodes: [sleeps, one = works, naps, two = works, waits, three = works, asks, four = works, beside = works],
        edges: [START >> sleeps >> one >> naps >> two >> waits >> three >> asks >> four >> END, START >> beside >> END],
    }
}

/// A saver whose process dies after this many commits: each later one fails, or never ends.
struct Dying {
    memory: MemorySaver,
    left: AtomicUsize,
    hangs: bool,
    dead: Notify,
}

impl Dying {
    async fn live(&self) -> Result<(), SaverError> {
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if left.is_err() {
            self.dead.notify_one();
            if self.hangs {
                pending::<()>().await;
            }
        }
        left.map(|_| ()).map_err(|_| SaverError::database("storing", std::io::Error::other("the process has died")))
    }
}

#[async_trait]
impl SaverLayer for Dying {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.memory
    }

    fn capabilities(&self) -> Capabilities<'_> {
        self.inner().capabilities().with_leases_expiring(true)
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        self.live().await?;
        self.memory.commit(lease, commit).await
    }
}

async fn due(saver: &MemorySaver, graph: &str, by: SystemTime) -> Vec<String> {
    let due = saver.due(DueQuery::new(by, vec![graph.to_owned()], 99)).await.unwrap();
    due.into_iter().map(|due| due.thread.to_string()).collect()
}

/// Sweeps in a process that dies after this many commits, then in another one, until the thread has ended. Returns true if it died.
async fn sweeps_to_the_end(durability: Durability, commits: usize, hangs: bool) -> bool {
    let (memory, tally) = (MemorySaver::new(), Tally::default());
    let graph = Long::compile().checkpointer(memory.clone());
    let config = Config::new().thread("t").durability(durability);
    let asleep = graph.invoke(Case::update()).config(config.clone()).context(tally.clone()).await.unwrap();
    assert!(!asleep.is_finished());
    graph.send("t", Signal::new("go", &"told")).await.unwrap();
    let dying = Dying { memory: memory.clone(), left: AtomicUsize::new(commits), hangs, dead: Notify::new() };
    let dying = Arc::new(Layered(dying));
    let (first, second) = (tally.clone(), tally.clone());
    let settings = Config::new().durability(durability);
    let dies = Long::compile().checkpointer(dying.clone()).sweeper(move |_| first.clone()).config(settings.clone());
    let lives = graph.sweeper(move |_| second.clone()).config(settings);
    let (mut now, mut is_dead) = (SystemTime::now() + WEEK + SECOND, false);
    for _ in 0..20 {
        if is_dead {
            lives.drive_due(now).await.unwrap();
        } else {
            tokio::select! {
                biased;
                driven = dies.drive_due(now) => {
                    is_dead = driven.is_ok_and(|driven| driven.iter().any(|driven| driven.outcome.is_err()));
                }
                () = dying.0.dead.notified(), if hangs => is_dead = true,
            }
            // A dropped run releases its lease.
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
        }
        let state = graph.state(config.clone()).await.unwrap();
        if state.is_finished() {
            let mut log = state.values.log.clone();
            log.sort();
            let ended = ["napped", "no answer", "slept", "told", "worked", "worked", "worked", "worked", "worked"];
            assert_eq!(log, ended, "{durability:?}, {commits} commits");
            // The work of the dead process is found.
            lives.drive_due(now + DAY).await.unwrap();
            assert_eq!(due(&memory, Long::NAME, now + WEEK).await, Vec::<String>::new());
            return is_dead;
        }
        now += DAY + SECOND;
    }
    panic!("{durability:?}, {commits} commits: the thread is lost: {:?}", graph.state(config).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn due_thread_is_found_after_its_sweeper_died() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        // A hanging run keeps the lease, which does not expire in memory.
        for hangs in [false, true].into_iter().filter(|hangs| !hangs || durability != Durability::Async) {
            let mut deaths = 0;
            while sweeps_to_the_end(durability, deaths, hangs).await {
                deaths += 1;
            }
            let expected = if durability == Durability::Exit { 4 } else { 20 };
            assert!(deaths >= expected, "{durability:?}, {hangs}: only {deaths} commits");
        }
    }
}

graph! { Nap<Case, Tally> = Graph { nodes: [naps, works], edges: [START >> naps >> works >> END] } }

/// The first run of a thread is killed while it waits in place, or in the node after that.
#[tokio::test(start_paused = true)]
async fn thread_killed_in_a_short_sleep_is_found() {
    for commits in 2..4 {
        let (memory, tally) = (MemorySaver::new(), Tally::default());
        let dying = Dying { memory: memory.clone(), left: AtomicUsize::new(commits), hangs: true, dead: Notify::new() };
        let dying = Arc::new(Layered(dying));
        let graph = Nap::compile().checkpointer(dying.clone());
        let config = Config::new().thread("t").durability(Durability::Sync);
        let run = graph.invoke(Case::update()).config(config.clone()).context(tally.clone());
        tokio::select! {
            biased;
            ended = run => panic!("it did not die: {ended:?}"),
            () = dying.0.dead.notified() => {}
        }
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let graph = Nap::compile().checkpointer(memory.clone());
        let sweeper = graph.sweeper(move |_| tally.clone());
        let later = SystemTime::now() + 6 * SECOND;
        let driven = sweeper.drive_due(later).await.unwrap();
        assert!(driven.into_iter().next().expect("it is found").outcome.unwrap().is_finished(), "{commits} commits");
        assert_eq!(due(&memory, Nap::NAME, later + WEEK).await, Vec::<String>::new());
    }
}

/// A run that ends properly sets the next due time of its thread, even after another run was killed. The sweeper then leaves the thread
/// alone.
#[tokio::test(start_paused = true)]
async fn thread_continued_after_a_kill_is_not_swept() {
    let (memory, tally) = (MemorySaver::new(), Tally::default());
    let dying = Dying { memory: memory.clone(), left: AtomicUsize::new(2), hangs: true, dead: Notify::new() };
    let dying = Arc::new(Layered(dying));
    let config = Config::new().thread("t").durability(Durability::Sync);
    let first = Nap::compile().checkpointer(dying.clone());
    tokio::select! {
        biased;
        ended = first.invoke(Case::update()).config(config.clone()).context(tally.clone()) => panic!("it did not die: {ended:?}"),
        () = dying.0.dead.notified() => {}
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let graph = Nap::compile().checkpointer(memory.clone());
    let stopped =
        graph.invoke(()).config(config.clone().interrupt_before(["works"])).context(tally.clone()).await.unwrap();
    assert!(!stopped.is_finished());
    let sweeper = graph.sweeper(move |_| tally.clone());
    assert!(sweeper.drive_due(SystemTime::now() + WEEK).await.unwrap().is_empty(), "it was stopped there");
}

#[tokio::test(start_paused = true)]
async fn hanging_or_panicking_thread_does_not_stop_others() {
    async fn hangs(case: &Case, run: &Run<Tally>) -> Result<CaseUpdate> {
        run.sleep(WEEK).await?;
        if case.log == ["hang"] {
            pending::<()>().await;
        }
        run.context().hit("woken");
        Ok(Case::update())
    }
    graph! { Mixed<Case, Tally> = Graph { nodes: [hangs], edges: [START >> hangs >> END] } }

    let (tally, start, clock) = (Tally::default(), SystemTime::now(), Instant::now());
    let graph = Mixed::compile().checkpointer(MemorySaver::new());
    let (to_each, now) = (tally.clone(), move || start + clock.elapsed());
    let sweeper = graph.sweeper(move |thread| {
        assert!(!thread.starts_with("panic"), "as asked");
        to_each.clone()
    });
    let handle = sweeper.concurrency(2).clock(now).every(Duration::from_mins(1));
    for (thread, what) in [("hang", "hang"), ("panic", "")] {
        let _ = graph.invoke(noted(what)).thread(thread).context(tally.clone()).await.unwrap();
    }
    tokio::time::sleep(WEEK + Duration::from_mins(2)).await;
    for number in 0..5 {
        let later = Config::new().thread(format!("later {number}")).at(now());
        let _ = graph.invoke(noted("")).config(later).context(tally.clone()).await.unwrap();
    }
    tokio::time::sleep(WEEK + Duration::from_mins(3)).await;
    assert_eq!(tally.of("woken"), 5, "those that became due after the one that hangs");
    drop(handle);
    let sweeper = graph.sweeper(move |_| -> Tally { panic!("as asked") });
    let driven = sweeper.drive_due(now() + DAY).await.unwrap();
    let error =
        driven.into_iter().find(|driven| driven.thread == "panic").expect("it is tried again").outcome.unwrap_err();
    let said = "resuming thread `panic` of graph `mixed` panicked: as asked";
    assert!(error.to_string().starts_with(said), "{error}");
}

#[tokio::test]
async fn copy_of_a_sleeping_thread_resumes() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let graph = Long::compile().checkpointer(saver.clone());
    let _ = graph.invoke(Case::update()).thread("t").context(tally.clone()).await.unwrap();
    saver.copy_thread("t", "copy").await.unwrap();
    let sweeper = graph.sweeper(move |_| tally.clone());
    let later = SystemTime::now() + WEEK + SECOND;
    let mut driven: Vec<_> = sweeper.drive_due(later).await.unwrap().into_iter().map(|driven| driven.thread).collect();
    driven.sort();
    assert_eq!(driven, ["copy", "t"]);
}

graph! { Other<Case, Tally> = Graph { nodes: [waits], edges: [START >> waits >> END] } }

#[tokio::test]
async fn signal_through_another_graph_keeps_the_timers() {
    let (saver, tally) = (MemorySaver::new(), Tally::default());
    let (graph, other) = (Long::compile().checkpointer(saver.clone()), Other::compile().checkpointer(saver.clone()));
    // A thread that is not there yet is any graph's.
    other.send("t", Signal::new("stray", &1)).await.unwrap();
    let _ = graph.invoke(Case::update()).thread("t").context(tally.clone()).await.unwrap();
    let refused = other.send("t", Signal::new("go", &"told")).await.unwrap_err();
    let said = "cannot send to graph `other`: thread `t` belongs to graph `long`: send through that graph";
    assert!(refused.to_string().starts_with(said), "{refused}");
    let (first, second) = (tally.clone(), tally);
    let later = SystemTime::now() + WEEK + SECOND;
    assert!(other.sweeper(move |_| first.clone()).drive_due(later).await.unwrap().is_empty());
    assert_eq!(graph.sweeper(move |_| second.clone()).drive_due(later).await.unwrap().len(), 1);
}

#[tokio::test]
async fn earliest_of_several_timers_counts_across_crashes() {
    async fn day(run: &Run<Tally>) -> Result<CaseUpdate> {
        run.sleep(DAY).await?;
        Ok(noted("day"))
    }
    graph! { Two<Case, Tally> = Graph { nodes: [a = sleeps, b = day, c = sleeps], edges: [START >> [a, b, c] >> END] } }

    let memory = MemorySaver::new();
    let dying = Dying { memory: memory.clone(), left: AtomicUsize::new(1), hangs: false, dead: Notify::new() };
    let graph = Two::compile().checkpointer(Arc::new(Layered(dying)));
    let config = Config::new().thread("t").durability(Durability::Exit);
    let _ = graph.invoke(Case::update()).config(config).context(Tally::default()).await;
    assert_eq!(due(&memory, Two::NAME, SystemTime::now() + DAY + SECOND).await, ["t"]);
}

#[tokio::test]
async fn invalid_default_is_refused_with_the_question() {
    async fn checked(run: &Run<Tally>) -> Result<CaseUpdate> {
        let long = |answer: &serde_json::Value| match answer.as_str() {
            Some(text) if text.len() > 3 => Ok(()),
            _ => Err("it is too short".to_owned()),
        };
        let question = run.interrupt::<String>(&"why?").check(long).until(SystemTime::now() + DAY, "no".to_owned());
        Ok(noted(&question.await?))
    }
    graph! { Checked<Case, Tally> = Graph { nodes: [checked], edges: [START >> checked >> END] } }

    let saver = MemorySaver::new();
    let graph = Checked::compile().checkpointer(saver.clone());
    let error = graph.invoke(Case::update()).thread("t").context(Tally::default()).await.unwrap_err();
    let said = "node `checked` asks `\"why?\"` until a time, and its default \"no\" is not an answer: it is too short";
    assert!(error.to_string().contains(said), "{error}");
    assert_eq!(due(&saver, Checked::NAME, SystemTime::now() + WEEK).await, Vec::<String>::new());
}

#[tokio::test]
async fn default_can_be_any_valid_answer() {
    async fn odd(run: &Run<Tally>) -> Result<CaseUpdate> {
        let soon = SystemTime::now() + DAY;
        let number = run.interrupt::<f64>(&"number?").until(soon, f64::NAN).await?;
        let large = run.interrupt::<i128>(&"large?").until(soon, i128::MAX).await?;
        let places = BTreeMap::from([((1, 2), 3)]);
        let places = run.interrupt::<BTreeMap<(u8, u8), u8>>(&"places?").until(soon, places).await?;
        Ok(noted(&format!("{number} {large} {places:?}")))
    }
    graph! { Odd<Case, Tally> = Graph { nodes: [odd], edges: [START >> odd >> END] } }

    let graph = Odd::compile().checkpointer(MemorySaver::new());
    let asked = graph.invoke(Case::update()).thread("t").context(Tally::default()).await.unwrap();
    assert!(!asked.is_finished());
    let (sweeper, mut now) = (graph.sweeper(|_| Tally::default()), SystemTime::now());
    for _ in 0..3 {
        now += DAY + SECOND;
        for driven in sweeper.drive_due(now).await.unwrap() {
            let _ = driven.outcome.unwrap();
        }
    }
    let log = graph.state("t").await.unwrap().values.log.clone();
    assert_eq!(log, [format!("NaN {} {{(1, 2): 3}}", i128::MAX)]);
}

/// The thread of a killed run stays one, also if the sweeper fails to drive it.
#[tokio::test(start_paused = true)]
async fn killed_thread_with_a_panicking_context_is_retried() {
    let (memory, tally) = (MemorySaver::new(), Tally::default());
    let dying = Dying { memory: memory.clone(), left: AtomicUsize::new(3), hangs: true, dead: Notify::new() };
    let dying = Arc::new(Layered(dying));
    let first = Nap::compile().checkpointer(dying.clone());
    let config = Config::new().thread("t").durability(Durability::Sync);
    tokio::select! {
        biased;
        ended = first.invoke(Case::update()).config(config.clone()).context(tally.clone()) => panic!("it did not die: {ended:?}"),
        () = dying.0.dead.notified() => {}
    }
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let graph = Nap::compile().checkpointer(memory.clone());
    let later = SystemTime::now() + 6 * SECOND;
    let panics = graph.sweeper(|_| -> Tally { panic!("as asked") });
    let driven = panics.drive_due(later).await.unwrap();
    assert!(driven.into_iter().next().expect("it is found").outcome.is_err());
    let sweeper = graph.sweeper(move |_| tally.clone());
    assert!(sweeper.drive_due(later + SECOND).await.unwrap().is_empty(), "others come first");
    let driven = sweeper.drive_due(later + 61 * SECOND).await.unwrap();
    assert!(driven.into_iter().next().expect("it is found again").outcome.unwrap().is_finished());
}

/// A saver that counts how often a thread is read.
struct Counted(MemorySaver, AtomicUsize);

#[async_trait]
impl SaverLayer for Counted {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.0
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        self.1.fetch_add(1, Ordering::Relaxed);
        self.0.get(thread, namespace, id).await
    }
}

#[tokio::test]
async fn thread_being_swept_is_not_read() {
    let memory = MemorySaver::new();
    let saver = Arc::new(Layered(Counted(memory.clone(), AtomicUsize::new(0))));
    let graph = Nap::compile().checkpointer(saver.clone());
    let lease = memory.acquire("t", Claim::default()).await.unwrap();
    let due = DueChange::Driven { until: SystemTime::now() - SECOND, graph: Nap::NAME.into() };
    memory.commit(&lease, Commit::new(Vec::new()).also(SideEffects::due(due))).await.unwrap();
    let sweeper = graph.sweeper(|_| Tally::default());
    assert!(sweeper.drive_due(SystemTime::now()).await.unwrap().is_empty());
    assert_eq!(saver.0.1.load(Ordering::Relaxed), 0);
}
