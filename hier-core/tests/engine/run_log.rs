//! The log of a run, which holds records and events back, on a store that refuses some of them.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt;
use hier_core::checkpoint::Checkpointer;
use hier_core::graph::{DynGraph, DynInput, DynRun};
use hier_core::prelude::*;
use hier_core::runs::{
    Claimed, EventBuffering, EventQuery, LogEvent, NewEvent, RunClaim, RunEnd, RunLog, RunStatus, RunStore,
};
use hier_core::{CancellationToken, Durability};
use hier_testkit::Layered;
use hier_worker::Worker;
use serde_json::json;

use crate::run_faults::{Counting, Gate, One, Waits, new};

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

/// Returns the numbers of events that the log of the thread reports as missed.
async fn missed(store: &Layered<Counting>, thread: &str) -> Vec<u64> {
    let page = store.driver().events(EventQuery::after(thread, 0)).await.expect("events");
    let missed = page.events.into_iter().filter_map(|row| match row.event.body {
        LogEvent::Lagged { missed } => Some(missed),
        _ => None,
    });
    missed.collect()
}

/// The store may have stored the events of a call that failed, so they are not stored again.
#[tokio::test]
async fn failed_flush_is_tried_again_without_a_new_event() {
    let store = Arc::<Layered<Counting>>::default();
    let (claimed, log) = begun(&store, "t", "one").await;
    log.push(NewEvent::new(claimed.run.id, LogEvent::Values(json!({ "n": 1 }))));
    log.events_arrived().await;
    store.fails.store(1, Ordering::SeqCst);
    log.flush().await.expect_err("the event is refused");
    log.events_arrived().now_or_never().expect("the flush is due again");
    log.flush().await.expect("the report");
    assert_eq!(missed(&store, "t").await, [1]);
}

#[tokio::test]
async fn events_of_a_refused_commit_or_end_are_reported_as_missed() {
    for is_end in [false, true] {
        let store = Arc::<Layered<Counting>>::default();
        let (claimed, _) = begun(&store, "t", "one").await;
        let run = claimed.run.id;
        let log = Arc::new(RunLog::new(store.clone(), claimed.lease, Some(run), EventBuffering::WithCommits));
        for n in [1, 2] {
            log.push(NewEvent::new(run, LogEvent::Values(json!({ "n": n }))));
        }
        store.fails.store(1, Ordering::SeqCst);
        let finish = async || log.finish(None, Some(RunEnd::new(run, RunStatus::Error))).await;
        if is_end {
            finish().await.expect_err("the end is refused");
        } else {
            let config = Config::new().thread("t").durability(Durability::Sync);
            let mut stored = DynRun::new(DynInput::New(json!({ "n": 1 })), config);
            stored.saver = Some(log.clone());
            One::compile().erase(|_| Ok(())).run(stored).await.expect_err("the input is refused");
        }
        finish().await.expect("its end");
        assert_eq!(missed(&store, "t").await, [2], "is end: {is_end}");
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
