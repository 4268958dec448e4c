//! Runs that begin when they are added, and the records of their beginning.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, SaverError};
use hier_core::graph::{DynGraph, DynInput, DynRun};
use hier_core::prelude::*;
use hier_core::runs::{
    Changed, Claimed, EventBuffering, EventQuery, LogEvent, MemoryRuns, NewEvent, NewRun, Request, Run as RunRow,
    RunClaim, RunEnd, RunLog, RunStatus, RunStore, RunsError, ThreadAction, ThreadChange,
};
use hier_core::{CancellationToken, Durability};
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use hier_worker::Worker;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use uuid::Uuid;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Line {
    n: u64,
}

async fn add(line: &Line) -> LineUpdate {
    Line::update().n(line.n + 1)
}

graph! { One<Line> = Graph { nodes: [add], edges: [START >> add >> END] } }

/// The events that nodes wait for.
#[derive(Clone, Default)]
struct Gate(Arc<Notify>);

async fn wait(line: &Line, run: &Run<Gate>) -> LineUpdate {
    run.context().0.notified().await;
    Line::update().n(line.n + 1)
}

graph! { Waits<Line, Gate> = Graph { nodes: [wait], edges: [START >> wait >> END] } }

/// Counts its calls. By default, runs are claimed only as they are added.
#[derive(Default)]
struct Counting {
    runs: MemoryRuns,
    records: AtomicUsize,
    fails: AtomicUsize,
    claims: AtomicBool,
    /// Added runs wait.
    holds: AtomicBool,
    /// A claim waits before it is made.
    holds_claims: AtomicBool,
    /// The reply of the recorded call waits.
    holds_answers: AtomicBool,
    held: Notify,
    may_continue: Notify,
}

#[async_trait]
impl SaverLayer for Counting {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }
}

#[async_trait]
impl RunsLayer for Counting {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        match &change.action {
            ThreadAction::Add(_, Some(_)) => {
                let made = self.runs.run_backend().change(change).await;
                if self.holds.load(Ordering::SeqCst) {
                    self.held.notify_one();
                    self.may_continue.notified().await;
                }
                made
            }
            ThreadAction::Commit(..) => {
                self.records.fetch_add(1, Ordering::SeqCst);
                if self.fails.load(Ordering::SeqCst) > 0 {
                    self.fails.fetch_sub(1, Ordering::SeqCst);
                    return Err(SaverError::Panicked { message: "as asked".to_owned() }.into());
                }
                let recorded = self.runs.run_backend().change(change).await;
                if self.holds_answers.load(Ordering::SeqCst) {
                    self.may_continue.notified().await;
                }
                recorded
            }
            _ => self.runs.run_backend().change(change).await,
        }
    }

    async fn claim(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        if self.holds_claims.swap(false, Ordering::SeqCst) {
            self.held.notify_one();
            self.may_continue.notified().await;
        }
        if self.claims.load(Ordering::SeqCst) {
            self.runs.run_backend().claim(claim, most).await
        } else {
            Ok(Vec::new())
        }
    }
}

fn new(thread: &str, graph: &str) -> NewRun {
    NewRun::new(thread, graph, Request::input(json!({ "n": 1 }))).create_thread()
}

/// A worker that executes this many runs at once, and its handle.
struct Desk {
    store: Arc<Layered<Counting>>,
    handle: hier_worker::Handle,
    gate: Gate,
    stop: CancellationToken,
    working: JoinHandle<()>,
}

impl Desk {
    async fn open(places: usize) -> Self {
        let (store, gate, stop) = (Arc::<Layered<Counting>>::default(), Gate::default(), CancellationToken::new());
        let own = gate.clone();
        let worker = Worker::new(store.clone()).graph("one", One::compile().erase(|_| Ok(())));
        let worker = worker.graph("waits", Waits::compile().erase(move |_| Ok(own.clone())));
        let worker = worker.concurrency(places).poll_interval(Duration::from_millis(5));
        let handle = worker.handle();
        let working = tokio::spawn(worker.run_until(stop.clone()));
        while !handle.is_running() {
            tokio::task::yield_now().await;
        }
        Self { store, handle, gate, stop, working }
    }

    async fn add(&self, run: NewRun) -> RunRow {
        let store: Arc<dyn RunStore> = self.store.clone();
        self.handle.create_run(&store, run).await.expect("a run")
    }

    async fn has_status(&self, run: Uuid, status: RunStatus) -> RunRow {
        let looking = async {
            loop {
                let row = self.store.runs.driver().run(run).await.expect("the store").expect("the run");
                if row.status == status {
                    return row;
                }
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), looking).await.expect("it gets there")
    }
}

#[tokio::test]
async fn run_with_a_free_slot_starts_when_added() {
    let desk = Desk::open(2).await;
    let added = desk.add(new("t", "one")).await;
    assert_eq!((added.status, added.attempts), (RunStatus::Pending, 0), "as it was added");
    let ended = desk.has_status(added.id, RunStatus::Success).await;
    assert_eq!((ended.attempts, &ended.output.expect("an output")["values"]["n"]), (1, &json!(2)));
    assert_eq!(desk.store.records.load(Ordering::SeqCst), 1, "its input was stored with its end");
    let modes: Vec<_> = desk.store.driver().events(EventQuery::after("t", 0)).await.expect("events").events;
    assert_eq!(modes.iter().map(|row| row.event.mode()).collect::<Vec<_>>(), ["start", "end"]);
    let thread = desk.store.driver().thread("t").await.expect("the store").expect("the thread");
    assert_eq!(thread.values, Some(json!({ "n": 2 })));
    desk.stop.cancel();
    desk.working.await.expect("it stops");
}

/// First in, first out: a run waits behind the running one and all waiting ones.
#[tokio::test]
async fn run_without_a_free_slot_waits() {
    let desk = Desk::open(2).await;
    let first = desk.add(new("t", "waits")).await.id;
    let second = desk.add(new("t", "waits")).await.id;
    // The place that the second was to have is free again.
    let other = desk.add(new("u", "waits")).await.id;
    let without_a_place = desk.add(new("v", "waits")).await.id;
    for (run, status) in [
        (first, RunStatus::Running),
        (other, RunStatus::Running),
        (second, RunStatus::Pending),
        (without_a_place, RunStatus::Pending),
    ] {
        desk.has_status(run, status).await;
    }
    desk.store.claims.store(true, Ordering::SeqCst);
    let mut ended = Vec::new();
    for run in [first, second, other, without_a_place] {
        while desk.store.runs.driver().run(run).await.expect("the store").expect("the run").status.is_live() {
            desk.gate.0.notify_waiters();
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        ended.push(desk.has_status(run, RunStatus::Success).await);
    }
    assert!(ended.iter().all(|run| run.attempts == 1), "each is begun once");
    assert!(ended[1].started >= ended[0].ended, "one at a time of a thread");
    assert!(ended[3].started >= ended[0].ended.min(ended[2].ended), "two at a time");
    desk.stop.cancel();
    desk.working.await.expect("it stops");
}

/// Another slot becomes free while the worker claims the oldest runs. A waiting run gets it, too.
#[tokio::test]
async fn new_run_does_not_overtake_waiting_runs() {
    let desk = Desk::open(2).await;
    desk.store.claims.store(true, Ordering::SeqCst);
    let running = [desk.add(new("t", "waits")).await.id, desk.add(new("u", "waits")).await.id];
    for run in running {
        desk.has_status(run, RunStatus::Running).await;
    }
    let waiting = [desk.add(new("v", "waits")).await.id, desk.add(new("w", "waits")).await.id];
    desk.store.holds_claims.store(true, Ordering::SeqCst);
    desk.gate.0.notify_one();
    desk.store.held.notified().await;
    desk.gate.0.notify_one();
    for run in running {
        desk.has_status(run, RunStatus::Success).await;
    }
    let last = desk.add(new("x", "waits")).await.id;
    assert_eq!(desk.has_status(last, RunStatus::Pending).await.attempts, 0, "it waits behind them");
    desk.store.may_continue.notify_one();
    for run in waiting {
        desk.has_status(run, RunStatus::Running).await;
    }
    assert_eq!(desk.has_status(last, RunStatus::Pending).await.attempts, 0);
    desk.gate.0.notify_one();
    desk.has_status(last, RunStatus::Running).await;
    // No run waits any more, so the next run starts when it is added.
    desk.gate.0.notify_one();
    desk.store.claims.store(false, Ordering::SeqCst);
    let added = loop {
        let added = desk.add(new(&Uuid::new_v4().to_string(), "one")).await.id;
        tokio::time::sleep(Duration::from_millis(5)).await;
        if desk.store.runs.driver().run(added).await.expect("the store").expect("the run").attempts > 0 {
            break added;
        }
    };
    desk.has_status(added, RunStatus::Success).await;
    desk.stop.cancel();
    desk.gate.0.notify_one();
    desk.working.await.expect("it stops");
}

/// After the end of a run is reported, the next run finds its slot free.
#[tokio::test]
async fn slot_is_free_when_the_end_is_reported() {
    let desk = Desk::open(1).await;
    desk.store.holds_answers.store(true, Ordering::SeqCst);
    for thread in ["t", "u", "v"] {
        let run = desk.add(new(thread, "one")).await.id;
        assert_eq!(desk.has_status(run, RunStatus::Success).await.attempts, 1, "waiting runs are not claimed");
    }
    desk.store.may_continue.notify_waiters();
    desk.stop.cancel();
    desk.working.await.expect("it stops");
}

/// The client disconnects while its run is added and claimed. Otherwise the run would wait for the end of the lease.
#[tokio::test]
async fn run_continues_after_its_creator_left() {
    let desk = Desk::open(1).await;
    desk.store.holds.store(true, Ordering::SeqCst);
    let run = Uuid::from_u128(7);
    let mut asked = new("t", "one");
    asked.id = Some(run);
    tokio::select! {
        _ = desk.add(asked) => panic!("its answer is held"),
        () = desk.store.held.notified() => {}
    }
    desk.store.may_continue.notify_one();
    assert_eq!(desk.has_status(run, RunStatus::Success).await.attempts, 1);
    desk.stop.cancel();
    desk.working.await.expect("it stops");
}

/// A stopping worker returns the runs that were begun this way and those being claimed, and begins no more.
#[tokio::test]
async fn stopping_worker_requeues_immediately_started_runs() {
    let desk = Desk::open(3).await;
    let going = desk.add(new("t", "waits")).await.id;
    desk.has_status(going, RunStatus::Running).await;
    desk.store.holds.store(true, Ordering::SeqCst);
    let coming = Uuid::from_u128(7);
    let mut asked = new("u", "waits");
    asked.id = Some(coming);
    let store: Arc<dyn RunStore> = desk.store.clone();
    let handle = desk.handle.clone();
    let adding = tokio::spawn(async move { handle.create_run(&store, asked).await });
    desk.store.held.notified().await;
    desk.stop.cancel();
    desk.store.may_continue.notify_one();
    desk.working.await.expect("it stops");
    adding.await.expect("it is answered").expect("a run");
    let store: Arc<dyn RunStore> = desk.store.clone();
    let late = desk.handle.create_run(&store, new("v", "one")).await.expect("a run").id;
    for run in [going, coming, late] {
        let row = store.run(run).await.expect("the store").expect("the run");
        assert_eq!((row.status, row.attempts), (RunStatus::Pending, 0), "others may do it");
    }
}

/// A run that was claimed as its worker would have, with its log.
async fn begun(store: &Arc<Layered<Counting>>, thread: &str, graph: &str) -> (Claimed, Arc<RunLog>) {
    let run = store.runs.driver().create_run(new(thread, graph)).await.expect("a run");
    let claim = RunClaim::new("one", Duration::from_secs(30), [graph]);
    let claimed = store.runs.driver().claim_run(claim).await.expect("the store").expect("the run");
    assert_eq!(claimed.run.id, run.id);
    let log = RunLog::new(store.clone(), claimed.lease.clone(), Some(run.id), EventBuffering::AsTheyCome);
    (claimed, Arc::new(log))
}

/// Executes a run up to the report of its end.
async fn work(log: &Arc<RunLog>, thread: &str) {
    let mut run = DynRun::new(DynInput::New(json!({ "n": 1 })), Config::new().thread(thread));
    run.saver = Some(log.clone());
    assert!(One::compile().erase(|_| Ok(())).run(run).await.expect("it runs").is_finished());
}

/// The worker dies before it has stored anything. The next worker starts from the row, and nothing is applied twice.
#[tokio::test]
async fn unstored_input_is_applied_again() {
    let store = Arc::<Layered<Counting>>::default();
    let (claimed, log) = begun(&store, "t", "one").await;
    work(&log, "t").await;
    drop(log);
    assert_eq!(store.records.load(Ordering::SeqCst), 0);
    assert_eq!(store.get("t", "", None).await.expect("the store"), None);
    assert!(
        !store.driver().run(claimed.run.id).await.expect("the store").expect("the run").entered,
        "it is not stored"
    );
    store.runs.driver().requeue(&claimed.lease, claimed.run.id).await.expect("another holder has the thread");
    store.claims.store(true, Ordering::SeqCst);
    let stop = CancellationToken::new();
    let worker = Worker::new(store.clone()).graph("one", One::compile().erase(|_| Ok(())));
    let working = tokio::spawn(worker.poll_interval(Duration::from_millis(5)).run_until(stop.clone()));
    let mut changes = store.driver().notifier().thread("t");
    while store.driver().run(claimed.run.id).await.expect("the store").expect("the run").status.is_live() {
        let _ = tokio::time::timeout(Duration::from_secs(1), changes.changed()).await;
    }
    let listed = store.list(hier_core::checkpoint::ListQuery::thread("t")).await.expect("the store");
    let steps: Vec<i64> = listed.iter().map(|it| it.checkpoint.step).collect();
    assert_eq!(steps, [1, 0, -1], "each once");
    assert_eq!(
        store.driver().thread("t").await.expect("the store").expect("the thread").values,
        Some(json!({ "n": 2 }))
    );
    stop.cancel();
    working.await.expect("it stops");
}

/// While a node runs, the input is stored with the events so far. If that fails, the next commit stores it.
#[tokio::test]
async fn input_of_a_run_is_stored_soon_and_once() {
    let store = Arc::<Layered<Counting>>::default();
    for fails in [0, 1] {
        let thread = format!("t{fails}");
        let (claimed, log) = begun(&store, &thread, "one").await;
        let gate = Gate::default();
        let own = gate.clone();
        let mut run = DynRun::new(DynInput::New(json!({ "n": 1 })), Config::new().thread(&*thread));
        run.saver = Some(log.clone());
        let graph = Waits::compile().erase(move |_| Ok(own.clone()));
        let mut running = Box::pin(graph.run(run));
        tokio::select! {
            biased;
            _ = &mut running => panic!("its node waits"),
            () = log.events_arrived() => {}
        }
        let held = log.list(hier_core::checkpoint::ListQuery::thread(&*thread)).await.expect("the log");
        assert_eq!(held.len(), 2, "reads through the log see it");
        assert_eq!(store.get(&thread, "", None).await.expect("the store"), None, "it is not stored yet");
        log.push(NewEvent::new(claimed.run.id, LogEvent::Values(json!({ "n": 1 }))));
        store.fails.store(fails, Ordering::SeqCst);
        assert_eq!(log.flush().await.is_err(), fails > 0);
        let stored = store.get(&thread, "", None).await.expect("the store").map(|saved| saved.checkpoint.step);
        assert_eq!(stored, (fails == 0).then_some(0));
        let entered = store.driver().run(claimed.run.id).await.expect("the store").expect("the run").entered;
        assert_eq!(entered, fails == 0);
        gate.0.notify_one();
        assert!(running.await.expect("it runs").is_finished());
        log.finish(None, Some(RunEnd::new(claimed.run.id, RunStatus::Success))).await.expect("its end");
        let listed = store.list(hier_core::checkpoint::ListQuery::thread(&*thread)).await.expect("the store");
        let steps: Vec<i64> = listed.iter().map(|it| it.checkpoint.step).collect();
        assert_eq!(steps, [1, 0, -1], "each once");
    }
}

/// The thread contains the input of a run whose end the store refuses, also if the input could not be stored before.
#[tokio::test]
async fn refused_end_keeps_the_input() {
    for flush_fails in [false, true] {
        let store = Arc::<Layered<Counting>>::default();
        let (claimed, log) = begun(&store, "t", "one").await;
        work(&log, "t").await;
        if flush_fails {
            store.fails.store(1, Ordering::SeqCst);
            log.flush().await.expect_err("the input is refused");
        }
        store.fails.store(1, Ordering::SeqCst);
        let end = RunEnd::new(claimed.run.id, RunStatus::Success);
        log.finish(None, Some(end)).await.expect_err("the end is refused");
        let stored = store.get("t", "", None).await.expect("the store").expect("the input");
        assert_eq!(stored.checkpoint.step, 0, "flush fails: {flush_fails}");
        let run = store.driver().run(claimed.run.id).await.expect("the store").expect("the run");
        assert_eq!(run.status, RunStatus::Running);
    }
}

/// A run that stores each step before the next does that with its input, too.
#[tokio::test]
async fn sync_run_stores_its_input_first() {
    let store = Arc::<Layered<Counting>>::default();
    let (claimed, _) = begun(&store, "t", "one").await;
    let log = RunLog::new(store.clone(), claimed.lease.clone(), Some(claimed.run.id), EventBuffering::WithCommits);
    let log = Arc::new(log);
    let mut run = DynRun::new(DynInput::New(json!({ "n": 1 })), Config::new().thread("t").durability(Durability::Sync));
    run.saver = Some(log.clone());
    assert!(One::compile().erase(|_| Ok(())).run(run).await.expect("it runs").is_finished());
    let stored = store.get("t", "", None).await.expect("the store").expect("the input");
    assert_eq!(stored.checkpoint.step, 0);
}
