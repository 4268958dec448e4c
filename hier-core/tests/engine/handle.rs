//! Runs that begin when they are added.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hier_core::CancellationToken;
use hier_core::prelude::*;
use hier_core::runs::{EventQuery, NewRun, Run as RunRow, RunStatus, RunStore};
use hier_testkit::Layered;
use hier_worker::Worker;
use serde_json::json;
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::run_faults::{Counting, Gate, One, Waits, new};

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
