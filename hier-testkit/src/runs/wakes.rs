//! Cases about threads that wait for a time or a signal, and about workers that resume these threads.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hier_core::runs::{Run, RunQuery, RunStatus, ThreadStatus};
use serde_json::json;
use tokio::time::sleep;
use uuid::Uuid;

use super::desk::{BackgroundWorker, LEASE, LONGER, NodeCounts, doing, log, reaches, send};
use super::kit::{CaseResult, KILLED, add, cases, holds, is, same, some, thread, wait_until_ended};
use super::{ContractViolation, Subject};

cases!(super::Case, "wakes":
    a_sleeping_thread_continues_when_due,
    one_of_several_workers_continues,
    a_thread_continues_later_if_no_worker_ran_when_due,
    a_signal_resumes_the_thread_that_waits_for_it,
    a_late_signal_is_replaced_by_its_default,
    a_signals_default_is_applied_once_if_its_worker_dies,
    an_unexpected_signal_adds_no_run,
    a_busy_thread_is_not_resumed,
);

/// Runs a thread until it sleeps or waits. Returns its run.
async fn asleep(store: &Subject, name: &str, what: &str) -> Result<Run, ContractViolation> {
    let run = store.create_run(doing(name, what)).await?;
    let run = wait_until_ended(store, run.id).await?;
    same("how it ended", &run.status, &RunStatus::Success)?;
    Ok(run)
}

/// Waits for the end of the run that follows this run.
async fn next(store: &Subject, name: &str, first: &Run) -> Result<Run, ContractViolation> {
    loop {
        let runs = store.runs(RunQuery::thread(name)).await?;
        if let Some(run) = runs.into_iter().find(|run| run.id != first.id) {
            return wait_until_ended(store, run.id).await;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

async fn went_on(store: &Subject, name: &str, first: &Run) -> CaseResult {
    let run = next(store, name, first).await?;
    same("the log of the run", &log(&run), &json!(["in", "first", "second"]))?;
    holds("it says that it was woken", run.metadata.get("woken") == Some(&json!(true)))?;
    is(store, name, ThreadStatus::Idle).await
}

async fn a_sleeping_thread_continues_when_due(store: Subject) -> CaseResult {
    let counts = Arc::new(NodeCounts::default());
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let first = asleep(&store, "t", "sleep").await?;
    went_on(&store, "t", &first).await?;
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &1)?;
    working.stop().await
}

async fn one_of_several_workers_continues(store: Subject) -> CaseResult {
    let counts = Arc::new(NodeCounts::default());
    let mut workers = Vec::new();
    for _ in 0..4 {
        workers.push(BackgroundWorker::start(&store, &counts, LEASE)?);
    }
    let first = asleep(&store, "t", "sleep").await?;
    went_on(&store, "t", &first).await?;
    sleep(Duration::from_millis(200)).await;
    same("the runs", &store.runs(RunQuery::thread("t")).await?.len(), &2)?;
    same("how often the node that sleeps was called", &counts.second.load(Ordering::SeqCst), &2)?;
    for working in workers {
        working.stop().await?;
    }
    Ok(())
}

async fn a_thread_continues_later_if_no_worker_ran_when_due(store: Subject) -> CaseResult {
    let counts = Arc::new(NodeCounts::default());
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let first = asleep(&store, "t", "sleep").await?;
    working.kill().await;
    sleep(Duration::from_millis(400)).await;
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    went_on(&store, "t", &first).await?;
    working.stop().await
}

async fn a_signal_resumes_the_thread_that_waits_for_it(store: Subject) -> CaseResult {
    let counts = Arc::new(NodeCounts::default());
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let first = asleep(&store, "t", "wait").await?;
    let id = Uuid::new_v4();
    for expected in [true, false] {
        same("whether it is new", &send(&store, id, Some("go"), "now").await?, &expected)?;
    }
    let run = next(&store, "t", &first).await?;
    same("the log of the run", &log(&run), &json!(["in", "first", "told"]))?;
    let values = some("the values", thread(&store, "t").await?.values)?;
    same("the value of the signal", &values["answer"], &json!("now"))?;
    sleep(Duration::from_millis(100)).await;
    same("the runs", &store.runs(RunQuery::thread("t")).await?.len(), &2)?;
    working.stop().await
}

/// Checks the result of a run that continued with this answer. No other run may have continued the thread.
async fn went_on_with(store: &Subject, run: &Run, answer: &str) -> CaseResult {
    same("how it ended", &run.status, &RunStatus::Success)?;
    same("the log of the run", &log(run), &json!(["in", "first", "told"]))?;
    let values = some("the values", thread(store, "t").await?.values)?;
    same("the answer", &values["answer"], &json!(answer))?;
    is(store, "t", ThreadStatus::Idle).await?;
    sleep(Duration::from_millis(100)).await;
    same("the runs", &store.runs(RunQuery::thread("t")).await?.len(), &2)
}

async fn a_late_signal_is_replaced_by_its_default(store: Subject) -> CaseResult {
    let counts = Arc::new(NodeCounts::default());
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let first = asleep(&store, "t", "wait until").await?;
    let run = next(&store, "t", &first).await?;
    went_on_with(&store, &run, "nothing came").await?;
    working.stop().await?;
    // A signal that arrives in time replaces the default.
    store.remove_thread("t").await?;
    let idle = Arc::new(NodeCounts::default());
    let working = BackgroundWorker::start(&store, &idle, LEASE)?;
    let first = asleep(&store, "t", "wait until").await?;
    send(&store, Uuid::new_v4(), Some("go"), "now").await?;
    let run = next(&store, "t", &first).await?;
    went_on_with(&store, &run, "now").await?;
    working.stop().await
}

/// No worker runs at the deadline. The worker that applies the default is killed before it commits.
async fn a_signals_default_is_applied_once_if_its_worker_dies(store: Subject) -> CaseResult {
    let counts = Arc::new(NodeCounts::default());
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let first = asleep(&store, "t", "wait until").await?;
    working.kill().await;
    sleep(Duration::from_millis(400)).await;
    counts.hangs_after.store(true, Ordering::SeqCst);
    let working = BackgroundWorker::start(&store, &counts, KILLED)?;
    reaches(&counts.after, 1).await?;
    working.kill().await;
    // This signal arrives after the deadline.
    send(&store, Uuid::new_v4(), Some("go"), "too late").await?;
    counts.hangs_after.store(false, Ordering::SeqCst);
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let run = next(&store, "t", &first).await?;
    went_on_with(&store, &run, "nothing came").await?;
    working.stop().await
}

async fn an_unexpected_signal_adds_no_run(store: Subject) -> CaseResult {
    let counts = Arc::new(NodeCounts::default());
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    asleep(&store, "t", "wait").await?;
    send(&store, Uuid::new_v4(), Some("stop"), "1").await?;
    sleep(Duration::from_millis(300)).await;
    same("the runs", &store.runs(RunQuery::thread("t")).await?.len(), &1)?;
    working.stop().await
}

async fn a_busy_thread_is_not_resumed(store: Subject) -> CaseResult {
    let counts = Arc::new(NodeCounts::default());
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let first = asleep(&store, "t", "sleep longer").await?;
    working.stop().await?;
    // A caller adds this run, which continues the thread after the sleep.
    let mut own = doing("t", "");
    own.request.input = json!(null);
    let own = store.create_run(own).await?;
    sleep(LONGER).await;
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let own = wait_until_ended(&store, own.id).await?;
    same("the log of the run", &log(&own), &json!(["in", "first", "second"]))?;
    sleep(Duration::from_millis(100)).await;
    same("the runs", &store.runs(RunQuery::thread("t")).await?.len(), &2)?;
    add(&store, "t").await?;
    holds("it is another than the first", own.id != first.id)?;
    working.stop().await
}
