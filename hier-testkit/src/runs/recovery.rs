//! Cases about workers that stop or die, and about the events and records of their runs.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hier_core::Config;
use hier_core::checkpoint::{Claim, WhenRunning};
use hier_core::graph::{DynGraph, DynUpdates};
use hier_core::runs::{
    Cancel, Durability, EventBuffering, EventQuery, LogEvent, NewRun, NewThread, Request, RunLog, RunStatus,
    ThreadIndex, ThreadQuery, ThreadStatus,
};
use serde_json::{Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::desk::{
    BackgroundWorker, LEASE, NodeCounts, complete, desk, doing, has_entered, log, reaches, run_to_end, send,
};
use super::kit::{
    CaseResult, KILLED, SHORT, add, cases, claim_for, events, has_status, is, load_run, new, same, some, thread,
    wait_until_ended,
};
use super::{ContractViolation, Subject};

cases!(super::Case, "recovery":
    a_stopping_worker_requeues_its_runs,
    a_worker_that_dies_is_replaced,
    a_stored_input_is_not_applied_again,
    an_input_is_stored_while_the_first_node_works,
    a_stored_answer_is_not_requested_again,
    an_answer_at_a_checkpoint_is_not_applied_again,
    an_input_with_messages_is_not_applied_again,
    a_poison_run_ends,
    a_run_ends_without_listeners,
    a_joined_stream_has_all_events,
    events_of_a_step_come_with_its_checkpoint,
    an_external_change_is_stored_with_its_index_entry,
);

async fn a_stopping_worker_requeues_its_runs(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let made = store.create_run(doing("t", "")).await?;
    reaches(&counts.second, 1).await?;
    working.stop().await?;
    has_status(&store, made.id, RunStatus::Pending).await?;
    is(&store, "t", ThreadStatus::Busy).await?;
    let ended = complete(&store, &counts, made.id).await?;
    same("the log", &log(&ended), &json!(["in", "first", "second"]))?;
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &1)?;
    same("the attempts that count", &ended.attempts, &1)
}

/// Aegra 476: the work that a dead worker had started was never resumed.
async fn a_worker_that_dies_is_replaced(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let dead = BackgroundWorker::start(&store, &counts, KILLED)?;
    let mut asked = doing("t", "");
    asked.request.durability = Durability::Sync;
    let made = store.create_run(asked).await?;
    reaches(&counts.second, 1).await?;
    dead.kill().await;
    let ended = complete(&store, &counts, made.id).await?;
    same("the run", &(ended.status, ended.attempts), &(RunStatus::Success, 2))?;
    same("the log", &log(&ended), &json!(["in", "first", "second"]))?;
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &1)
}

async fn a_stored_input_is_not_applied_again(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    run_to_end(&store, &counts, doing("t", "ask")).await?;
    counts.hangs.store(true, Ordering::SeqCst);
    let dead = BackgroundWorker::start(&store, &counts, KILLED)?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes", "update": { "log": ["updated"] } }));
    let made = store.create_run(answer).await?;
    reaches(&counts.second, 2).await?;
    has_entered(&store, made.id).await?;
    dead.kill().await;
    let ended = complete(&store, &counts, made.id).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "first", "updated", "answered"]))
}

/// A run's first commit waits briefly for the next commit. The store must have it although the first node does not end.
async fn an_input_is_stored_while_the_first_node_works(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    counts.first_hangs.store(true, Ordering::SeqCst);
    let dead = BackgroundWorker::start(&store, &counts, KILLED)?;
    let made = store.create_run(doing("t", "")).await?;
    reaches(&counts.first, 1).await?;
    has_entered(&store, made.id).await?;
    let stored = some("its input", store.get("t", "", None).await?)?;
    same("the step that follows from it", &stored.checkpoint.step, &0)?;
    dead.kill().await;
    let ended = complete(&store, &counts, made.id).await?;
    same("the run", &(ended.status, ended.attempts), &(RunStatus::Success, 2))?;
    same("the log", &log(&ended), &json!(["in", "first", "second"]))
}

/// Answers a question with this request, and kills the worker while the node that asked continues.
async fn killed_while_answering(
    store: &Subject,
    counts: &Arc<NodeCounts>,
    answer: NewRun,
) -> Result<Uuid, ContractViolation> {
    counts.hangs.store(true, Ordering::SeqCst);
    let began = counts.second.load(Ordering::SeqCst);
    let dead = BackgroundWorker::start(store, counts, KILLED)?;
    let made = store.create_run(answer).await?;
    reaches(&counts.second, began + 1).await?;
    has_entered(store, made.id).await?;
    dead.kill().await;
    Ok(made.id)
}

async fn a_stored_answer_is_not_requested_again(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    run_to_end(&store, &counts, doing("t", "ask")).await?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes" }));
    let made = killed_while_answering(&store, &counts, answer).await?;
    let ended = complete(&store, &counts, made).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "first", "answered"]))?;
    is(&store, "t", ThreadStatus::Idle).await
}

async fn an_answer_at_a_checkpoint_is_not_applied_again(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    run_to_end(&store, &counts, doing("t", "ask")).await?;
    let asked = some("the checkpoint that asked", store.get("t", "", None).await?)?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes" }));
    answer.request.checkpoint = Some(asked.checkpoint.id);
    let made = killed_while_answering(&store, &counts, answer).await?;
    let ended = complete(&store, &counts, made).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "first", "answered"]))
}

async fn an_input_with_messages_is_not_applied_again(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    store.create_thread(NewThread::new("t")).await?;
    send(&store, Uuid::new_v4(), None, "sent").await?;
    counts.first_hangs.store(true, Ordering::SeqCst);
    let dead = BackgroundWorker::start(&store, &counts, KILLED)?;
    let made = store.create_run(doing("t", "")).await?;
    reaches(&counts.first, 1).await?;
    // Waits until the background commit is stored.
    while store.get("t", "", None).await?.is_none() {
        sleep(Duration::from_millis(2)).await;
    }
    dead.kill().await;
    let ended = complete(&store, &counts, made.id).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "sent", "first", "second"]))?;
    same("the waiting messages", &store.inbox()?.messages("t").await?.len(), &0)
}

/// Aegra 473: a run that kills its workers is not restarted forever.
async fn a_poison_run_ends(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    for _ in 0..2 {
        some("the run", claim_for(&store, SHORT).await?)?;
        sleep(SHORT * 2).await;
    }
    let counts = Arc::<NodeCounts>::default();
    let ended = complete(&store, &counts, made.id).await?;
    same("the run", &ended.status, &RunStatus::Error)?;
    same("why", &ended.error.map(|error| error.error), &Some("AttemptsExceeded".to_owned()))?;
    is(&store, "t", ThreadStatus::Error).await?;
    same("how often it was begun", &counts.first.load(Ordering::SeqCst), &0)
}

/// deer-flow 1403: the client had disconnected, and the run waited for a consumer of its events.
async fn a_run_ends_without_listeners(store: Subject) -> CaseResult {
    let working = BackgroundWorker::start(&store, &Arc::default(), LEASE)?;
    let made = store.create_run(doing("t", "tell")).await?;
    let gone = store.notifier().thread("t");
    drop(gone);
    same("the run", &wait_until_ended(&store, made.id).await?.status, &RunStatus::Success)?;
    let rows = events(&store, "t", 0).await?;
    same("the custom events", &rows.iter().filter(|row| row.event.mode() == "custom").count(), &500)?;
    working.stop().await
}

/// LG 7778, JS 2330: clients that joined later missed events.
async fn a_joined_stream_has_all_events(store: Subject) -> CaseResult {
    let working = BackgroundWorker::start(&store, &Arc::default(), LEASE)?;
    let made = store.create_run(doing("t", "tell")).await?;
    let (mut bell, mut live) = (store.notifier().thread("t"), Vec::new());
    loop {
        let after = live.last().map_or(0, |row: &hier_core::runs::EventRow| row.number);
        live.extend(store.events(EventQuery::after("t", after).run(made.id).limit(7)).await?.events);
        if live.last().is_some_and(|row| matches!(row.event.body, LogEvent::End { .. })) {
            break;
        }
        let _ = tokio::time::timeout(Duration::from_millis(20), bell.changed()).await;
    }
    // The store has the final status of the run before it has the end event.
    same("the run", &load_run(&store, made.id).await?.status, &RunStatus::Success)?;
    same("joined afterwards", &events(&store, "t", 0).await?, &live)?;
    let numbers: Vec<_> = live
        .iter()
        .filter(|row| row.event.mode() == "custom")
        .map(|row| row.event.body.data()["number"].clone())
        .collect();
    same("the events", &numbers, &(0..500).map(Value::from).collect())?;
    let modes: Vec<_> = live.iter().filter(|row| row.event.mode() != "custom").map(|row| row.event.mode()).collect();
    same("the rest", &modes, &vec!["start", "values", "updates", "values", "updates", "values", "end"])?;
    working.stop().await
}

async fn events_of_a_step_come_with_its_checkpoint(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let mut asked = doing("t", "");
    asked.request.durability = Durability::Sync;
    let made = store.create_run(asked).await?;
    reaches(&counts.second, 1).await?;
    let rows = events(&store, "t", 0).await?;
    let values: Vec<_> = rows.iter().filter(|row| row.event.mode() == "values").collect();
    same("the values", &values.last().map(|row| row.event.body.data()["log"].clone()), &Some(json!(["in", "first"])))?;
    let latest = some("a checkpoint", store.get("t", "", None).await?)?;
    same("the step of the latest checkpoint", &latest.checkpoint.step, &1)?;
    same("how many are found", &store.count_threads(ThreadQuery::default()).await?, &1)?;
    store.cancel_runs("t", &[made.id], Cancel::Interrupt).await?;
    wait_until_ended(&store, made.id).await?;
    working.stop().await
}

/// An external change and its index entry are stored together or not at all. The thread stays readable meanwhile.
async fn an_external_change_is_stored_with_its_index_entry(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    run_to_end(&store, &counts, doing("t", "")).await?;
    let graph = desk(&counts)?.erase(|_| Ok(()));
    let lease = store.acquire("t", Claim { when_running: WhenRunning::Reject, ..Claim::default() }).await?;
    let log = Arc::new(RunLog::new(store.clone(), lease.clone(), None, EventBuffering::WithCommits));
    let update = |text: &str| DynUpdates::values(json!({ "log": [text], "answer": text })).as_node("first");
    let steps = vec![vec![update("a")], vec![update("b")]];
    graph.update_state(log.clone(), Config::new().thread("t"), steps).await.map_err(ContractViolation::unexpected)?;
    let read = graph.state(log.clone(), Config::new().thread("t")).await.map_err(ContractViolation::unexpected)?;
    same("the read state", &read.values["log"], &json!(["in", "first", "second", "a", "b"]))?;
    same("the last", &read.values["answer"], &json!("b"))?;
    same("the next nodes", &read.next, &vec!["second".to_owned()])?;
    // Nothing is stored yet.
    let stored = graph
        .state(store.clone().as_checkpointer(), Config::new().thread("t"))
        .await
        .map_err(ContractViolation::unexpected)?;
    same("the stored state", &stored.values["log"], &json!(["in", "first", "second"]))?;
    let index = ThreadIndex::new(ThreadStatus::Interrupted).values(read.values.clone());
    log.finish(Some(index), None).await?;
    store.release(&lease).await?;
    let stored = graph
        .state(store.clone().as_checkpointer(), Config::new().thread("t"))
        .await
        .map_err(ContractViolation::unexpected)?;
    same("the stored state", &(&stored.values, stored.checkpoint), &(&read.values, read.checkpoint))?;
    let row = thread(&store, "t").await?;
    same("the index", &(row.status, row.values.as_ref()), &(ThreadStatus::Interrupted, Some(&read.values)))
}
