//! Work of a worker next to its runs.

use std::sync::Arc;
use std::time::Duration;

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, InboxMessage, SaverError, codec};
use hier_core::graph::{DynGraph, DynInput, DynRun};
use hier_core::prelude::*;
use hier_core::runs::{
    Cancel, Changed, EventBuffering, EventQuery, MemoryRuns, NewRun, Request, Run as RunRow, RunClaim, RunLog,
    RunQuery, RunStatus, RunStore, RunsError, ThreadAction, ThreadChange, ThreadStatus,
};
use hier_core::{CancellationToken, Durability, Result};
use hier_testkit::{Layered, RunsLayer, SaverLayer};
use hier_worker::Worker;
use serde_json::json;
use uuid::Uuid;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Count {
    pub(crate) n: u64,
}

/// Keeps its thread to itself, as one that calculates.
async fn step(count: &Count) -> CountUpdate {
    std::thread::sleep(Duration::from_millis(250));
    Count::update().n(count.n + 1)
}

fn more(count: &Count) -> bool {
    count.n < 24
}

graph! { Busy<Count> = Graph {
    nodes: [step],
    edges: [START >> step >> if more { step } else { END }],
} }

/// Such a run never waits, so futures that are polled with it do not get their turn. Its lease would expire, it would start again
/// and again, and fail with `AttemptsExceeded`.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn run_that_never_waits_keeps_its_lease() {
    let store = Arc::new(MemoryRuns::new());
    let stop = CancellationToken::new();
    let mut working = Vec::new();
    for name in ["one", "two"] {
        let worker = Worker::new(store.clone()).graph("busy", Busy::compile().erase(|_| Ok(())));
        let worker =
            worker.holder(name).lease_duration(Duration::from_secs(3)).poll_interval(Duration::from_millis(100));
        working.push(tokio::spawn(worker.run_until(stop.clone())));
    }
    let mut changes = store.driver().notifier().thread("t");
    let new = NewRun::new("t", "busy", Request::input(json!({ "n": 0 }))).create_thread();
    let run = store.driver().create_run(new).await.expect("a run").id;
    let ended = loop {
        let row = store.driver().run(run).await.expect("the store").expect("the run");
        if !row.status.is_live() {
            break row;
        }
        let _ = tokio::time::timeout(Duration::from_secs(1), changes.changed()).await;
    };
    assert_eq!((ended.status, ended.attempts), (RunStatus::Success, 1), "{:?}", ended.error);
    stop.cancel();
    for worker in working {
        worker.await.expect("it stops");
    }
}

/// Waits for a signal.
async fn listen(run: &Run) -> Result<CountUpdate> {
    Ok(Count::update().n(run.signal("go").await?))
}

graph! { pub(crate) Listening<Count> = Graph { nodes: [listen], edges: [START >> listen >> END] } }

/// Due threads without a row, such as those that a program runs itself: more than one page. They must not
/// keep the worker from the thread that can continue.
#[tokio::test]
async fn unrunnable_threads_do_not_delay_others() {
    let store = Arc::new(MemoryRuns::new());
    let stop = CancellationToken::new();
    let worker = Worker::new(store.clone()).graph("listening", Listening::compile().erase(|_| Ok(())));
    let new = NewRun::new("t", "listening", Request::input(json!({ "n": 0 }))).create_thread();
    let first = store.driver().create_run(new).await.expect("a run").id;
    let signal =
        |number: u128| InboxMessage::signal(Uuid::from_u128(number), "go", codec::encode(&7_u64).expect("a number"));
    for number in 0..1_100 {
        store
            .inbox()
            .expect("an inbox")
            .post(&format!("elsewhere {number}"), Listening::NAME, signal(number))
            .await
            .expect("a letter");
    }
    let mut changes = store.driver().notifier().thread("t");
    let working = tokio::spawn(worker.poll_interval(Duration::from_millis(10)).run_until(stop.clone()));
    while store.driver().run(first).await.expect("the store").expect("the run").status.is_live() {
        let _ = tokio::time::timeout(Duration::from_secs(1), changes.changed()).await;
    }
    store.inbox().expect("an inbox").post("t", Listening::NAME, signal(1)).await.expect("a letter");
    let woken = async {
        loop {
            let ended = store.driver().runs(RunQuery::thread("t")).await.expect("the store");
            if ended.iter().any(|run| run.id != first && run.status == RunStatus::Success) {
                break;
            }
            let _ = tokio::time::timeout(Duration::from_millis(50), changes.changed()).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), woken)
        .await
        .expect("the thread for which the signal has come goes on");
    stop.cancel();
    working.await.expect("it stops");
}

/// The run, once it has ended.
async fn ended(store: &MemoryRuns, run: Uuid) -> RunRow {
    let mut changes = store.driver().notifier().thread("t");
    loop {
        let row = store.driver().run(run).await.expect("the store").expect("the run");
        if !row.status.is_live() {
            return row;
        }
        let _ = tokio::time::timeout(Duration::from_millis(50), changes.changed()).await;
    }
}

async fn left() -> PairUpdate {
    Pair::update().left(true)
}

async fn right() -> PairUpdate {
    Pair::update().right(true)
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Pair {
    left: bool,
    right: bool,
}

graph! { Both<Pair> = Graph { nodes: [left, right], edges: [START >> left >> END, START >> right >> END] } }

/// A worker dies when all tasks of a step are finished and none is applied, so that nothing has to run next. Then the run is cancelled. The
/// thread must not look idle, because it has not ended.
#[tokio::test]
async fn thread_with_unapplied_tasks_is_not_idle() {
    let store = Arc::new(MemoryRuns::new());
    let both = Both::compile().erase(|_| Ok(()));
    let run = store
        .driver()
        .create_run(NewRun::new("t", "both", Request::default()).create_thread())
        .await
        .expect("a run")
        .id;
    let claim = RunClaim::new("one that dies", Duration::from_millis(100), ["both"]);
    let claimed = store.driver().claim_run(claim).await.expect("the store").expect("the run");
    let mut dying = DynRun::new(DynInput::New(json!({})), Config::new().thread("t").durability(Durability::Sync));
    // A possibly last checkpoint waits in the log, which is never settled.
    dying.saver = Some(Arc::new(RunLog::new(store.clone(), claimed.lease, Some(run), EventBuffering::WithCommits)));
    assert!(both.run(dying).await.expect("it runs").is_finished());
    let open = both.state(store.clone(), Config::new().thread("t")).await.expect("the state");
    assert_eq!((open.next.len(), open.tasks.len(), open.is_finished()), (0, 2, false));

    store.driver().cancel_runs("t", &[run], Cancel::Interrupt).await.expect("the store");
    let stop = CancellationToken::new();
    let worker = Worker::new(store.clone()).graph("both", both).poll_interval(Duration::from_millis(10));
    let working = tokio::spawn(worker.run_until(stop.clone()));
    assert_eq!(ended(&store, run).await.status, RunStatus::Interrupted);
    let thread = store.driver().thread("t").await.expect("the store").expect("the thread");
    assert_eq!(
        (thread.status, thread.values),
        (ThreadStatus::Interrupted, Some(json!({ "left": true, "right": true })))
    );
    stop.cancel();
    working.await.expect("it stops");
}

/// Takes its time to store events by themselves, or cannot.
#[derive(Default)]
struct Slow {
    runs: MemoryRuns,
    /// True once events are being stored.
    storing: tokio::sync::watch::Sender<bool>,
    fails: bool,
}

impl Slow {
    async fn stores(&self) {
        let _ = self.storing.subscribe().wait_for(|storing| *storing).await;
    }
}

impl SaverLayer for Slow {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &self.runs
    }
}

#[async_trait]
impl RunsLayer for Slow {
    fn runs_store(&self) -> &dyn RunStore {
        &self.runs
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        // The input of the run is stored with them.
        let is_flush = matches!(&change.action, ThreadAction::Commit(_, settlement)
            if !settlement.events.is_empty() && settlement.end.is_none() && settlement.also.is_empty());
        if is_flush {
            self.storing.send_replace(true);
            if self.fails {
                let gone = std::io::Error::other("the server is gone");
                return Err(SaverError::database("storing", gone).into());
            }
            // As a server that is far away.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        self.runs.run_backend().change(change).await
    }
}

/// Emits an event, and ends once it is being stored, or never.
async fn tells(run: &Run<Arc<Layered<Slow>>>) -> Result<CountUpdate> {
    let store = run.context();
    run.emit("told");
    store.stores().await;
    if !store.fails {
        std::future::pending::<()>().await;
    }
    Ok(Count::update().n(1))
}

graph! { Telling<Count, Arc<Layered<Slow>>> = Graph { nodes: [tells], edges: [START >> tells >> END] } }

/// The modes of the stored events of a cancelled run.
async fn reports_of(store: Arc<Layered<Slow>>) -> Vec<String> {
    let (stop, own) = (CancellationToken::new(), store.clone());
    let graph = Telling::compile().erase(move |_| Ok(own.clone()));
    let working = tokio::spawn(Worker::new(store.clone()).graph("telling", graph).run_until(stop.clone()));
    let mut request = Request::input(json!({ "n": 0 }));
    request.stream_modes = vec![StreamMode::Custom];
    let new = NewRun::new("t", "telling", request).create_thread();
    let run = store.runs.driver().create_run(new).await.expect("a run").id;
    store.stores().await;
    if !store.fails {
        store.runs.driver().cancel_runs("t", &[run], Cancel::Interrupt).await.expect("the store");
    }
    ended(&store.runs, run).await;
    stop.cancel();
    working.await.expect("it stops");
    let page = store.runs.driver().events(EventQuery::after("t", 0)).await.expect("the events");
    page.events.into_iter().map(|row| row.event.mode().to_owned()).collect()
}

/// Events in flight must survive the cancellation of their run.
#[tokio::test(start_paused = true)]
async fn events_in_flight_at_a_cancellation_are_stored() {
    let received = reports_of(Arc::default()).await;
    assert!(received.iter().any(|mode| mode == "custom"), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn unstored_events_are_reported_as_missing() {
    let received = reports_of(Arc::new(Layered(Slow { fails: true, ..Slow::default() }))).await;
    assert!(received.iter().any(|mode| mode == "lagged"), "{received:?}");
}
