//! Cases about rollbacks: a run that is rolled back leaves no trace.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use hier_core::checkpoint::{
    Delivered, DueQuery, InboxMessage, ListQuery, PendingWrite, PostOutcome, Saved, SaverError, SideEffects,
    TaskWrites, WriteRecord, slot,
};
use hier_core::runs::{Cancel, Durability, RunCommit, RunEnd, RunQuery, RunStatus, RunsError, ThreadStatus};
use serde_json::{Map, Value, json};
use tokio::time::sleep;
use uuid::Uuid;

use super::desk::{BackgroundWorker, LEASE, NodeCounts, doing, has_entered, reaches, run_to_end, send};
use super::kit::{
    CaseResult, add, cases, checkpoint, claim, has_status, holds, load_run, new, same, some, thread, wait_until_ended,
};
use super::{ContractViolation, Subject};

cases!(super::Case, "rollback":
    overwritten_and_taken_data_is_restored,
    messages_of_an_ended_run_stay_taken,
    a_rolled_back_answer_leaves_its_question_open,
    a_requeued_run_leaves_nothing,
    a_requeued_run_is_cancelled_with_its_data,
    a_cancelled_run_whose_graph_is_gone_is_ended,
    a_failed_thread_stays_failed,
    a_message_is_back_in_the_inbox,
    a_signal_resumes_the_thread_again,
    a_timer_resumes_the_thread_again,
);

/// Everything of a thread that a run may change.
#[derive(Debug, PartialEq)]
struct ThreadContents {
    status: ThreadStatus,
    values: Option<Value>,
    interrupts: Map<String, Value>,
    metadata: Map<String, Value>,
    checkpoints: Vec<Option<Saved>>,
    mail: Vec<Delivered>,
    is_due: bool,
}

async fn stored(store: &Subject, name: &str) -> Result<ThreadContents, ContractViolation> {
    let row = thread(store, name).await?;
    let mut checkpoints = Vec::new();
    for listed in store.list(ListQuery { namespace: None, ..ListQuery::thread(name) }).await? {
        checkpoints.push(store.get(name, &listed.namespace, Some(listed.checkpoint.id)).await?);
    }
    let query = DueQuery::new(SystemTime::now() + Duration::from_hours(24), vec!["desk".to_owned()], 100);
    let is_due = store.inbox()?.due(query).await?.iter().any(|due| &*due.thread == name);
    Ok(ThreadContents {
        status: row.settled,
        values: row.values,
        interrupts: row.interrupts,
        metadata: row.metadata,
        checkpoints,
        mail: store.inbox()?.messages(name).await?,
        is_due,
    })
}

/// Rolls a run back, and waits until the run is deleted.
async fn rolled_back(store: &Subject, name: &str, id: Uuid) -> CaseResult {
    store.cancel_runs(name, &[id], Cancel::Rollback).await?;
    while store.run(id).await?.is_some() {
        sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

fn writes(at: Uuid, slots: &[(i32, &[u8])]) -> WriteRecord {
    let write = |(slot, value): &(i32, &[u8])| PendingWrite { slot: *slot, channel: "c".into(), value: value.to_vec() };
    let writes = slots.iter().map(write).collect();
    let writes = TaskWrites { checkpoint: at, task: Uuid::from_u128(7), path: "p".into(), writes };
    WriteRecord::Writes { namespace: "".into(), writes }
}

fn id_of(record: &WriteRecord) -> Uuid {
    match record {
        WriteRecord::Checkpoint { checkpoint, .. } => checkpoint.id,
        WriteRecord::Writes { writes, .. } => writes.checkpoint,
    }
}

/// Creates a thread whose first run has asked a question, and that has two messages.
async fn with_a_question(store: &Subject) -> Result<Uuid, ContractViolation> {
    let first = add(store, "t").await?;
    let lease = claim(store).await?.lease;
    let asks = checkpoint(first.id, 0);
    let at = id_of(&asks);
    let asked = RunCommit::records(vec![asks, writes(at, &[(slot::INTERRUPT, b"asked"), (0, b"done")])]);
    store.commit_run(&lease, asked.end(RunEnd::new(first.id, RunStatus::Success))).await?;
    for number in [1, 2] {
        store.inbox()?.post("t", "desk", InboxMessage::message(Uuid::from_u128(number), vec![1])).await?;
    }
    Ok(at)
}

/// Creates the commit of a second run. It overwrites a write, adds a write, and takes the first message.
fn continuation(run: Uuid, at: Uuid) -> RunCommit {
    let also = SideEffects::taking(vec![Uuid::from_u128(1)]);
    let mut continuation = RunCommit::records(vec![
        writes(at, &[(slot::INTERRUPT, b"answered"), (slot::answer(0), b"yes"), (0, b"ignored"), (1, b"more")]),
        checkpoint(run, 1),
    ]);
    continuation.also = also;
    continuation.also.run = Some(run);
    continuation
}

async fn overwritten_and_taken_data_is_restored(store: Subject) -> CaseResult {
    let at = with_a_question(&store).await?;
    let before = stored(&store, "t").await?;
    let second = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    store.commit_run(&lease, continuation(second.id, at)).await?;
    let mut again = RunCommit::records(vec![writes(at, &[(slot::INTERRUPT, b"answered twice")])]);
    again.also.run = Some(second.id);
    store.commit_run(&lease, again).await?;
    same("the waiting messages", &store.inbox()?.messages("t").await?.len(), &1)?;
    for _ in 0..2 {
        let mut undo = RunCommit::default();
        undo.undo = Some(second.id);
        store.commit_run(&lease, undo).await?;
        same("the stored state", &stored(&store, "t").await?, &before)?;
        has_status(&store, second.id, RunStatus::Running).await?;
    }
    let again = store.inbox()?.post("t", "desk", InboxMessage::message(Uuid::from_u128(1), vec![1])).await?;
    same("the result of sending a returned message again", &again, &PostOutcome::Duplicate)?;
    // The message can be taken again, and the lease is still held.
    store.commit_run(&lease, continuation(second.id, at)).await?;
    store.commit_run(&lease, RunCommit::default().end(RunEnd::rolled_back(second.id))).await?;
    same("the stored state at the end", &stored(&store, "t").await?, &before)?;
    same("the run", &store.run(second.id).await?, &None)
}

async fn messages_of_an_ended_run_stay_taken(store: Subject) -> CaseResult {
    let at = with_a_question(&store).await?;
    let second = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    store.commit_run(&lease, continuation(second.id, at)).await?;
    store.commit_run(&lease, RunCommit::default().end(RunEnd::new(second.id, RunStatus::Success))).await?;
    let after = stored(&store, "t").await?;
    same("the waiting messages", &after.mail.len(), &1)?;
    let third = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    let mut taken = RunCommit::default();
    taken.also = SideEffects::taking(vec![Uuid::from_u128(1)]);
    let refused = store.commit_run(&lease, taken).await;
    holds("it is not there any more", matches!(refused, Err(RunsError::Saver(SaverError::Invalid(_)))))?;
    store.commit_run(&lease, RunCommit::default().end(RunEnd::rolled_back(third.id))).await?;
    same("the stored state", &stored(&store, "t").await?, &after)
}

async fn a_rolled_back_answer_leaves_its_question_open(store: Subject) -> CaseResult {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let id = &*format!("{durability:?}");
        let counts = Arc::<NodeCounts>::default();
        let working = BackgroundWorker::start(&store, &counts, LEASE)?;
        wait_until_ended(&store, store.create_run(doing(id, "ask")).await?.id).await?;
        let before = stored(&store, id).await?;
        counts.hangs_after.store(true, Ordering::SeqCst);
        let mut answer = new(id);
        answer.request.input = Value::Null;
        answer.request.durability = durability;
        answer.request.command = Some(json!({ "resume": "yes", "update": { "log": ["updated"] } }));
        let paying = store.create_run(answer.clone()).await?;
        reaches(&counts.after, 1).await?;
        rolled_back(&store, id, paying.id).await?;
        same("the stored state", &stored(&store, id).await?, &before)?;
        counts.hangs_after.store(false, Ordering::SeqCst);
        answer.request.command = Some(json!({ "resume": "no" }));
        let answered = wait_until_ended(&store, store.create_run(answer).await?.id).await?;
        same("the other answer", &answered.status, &RunStatus::Success)?;
        let values = some("the values", thread(&store, id).await?.values)?;
        same("it", &(&values["answer"], &values["log"]), &(&json!("no"), &json!(["in", "first", "answered"])))?;
        working.stop().await?;
    }
    Ok(())
}

/// Creates a run that has started and that its worker has requeued.
async fn requeued_run(store: &Subject, counts: &Arc<NodeCounts>) -> Result<Uuid, ContractViolation> {
    requeued_run_on(store, counts, "t").await
}

async fn requeued_run_on(store: &Subject, counts: &Arc<NodeCounts>, thread: &str) -> Result<Uuid, ContractViolation> {
    counts.hangs.store(true, Ordering::SeqCst);
    let working = BackgroundWorker::start(store, counts, LEASE)?;
    let made = store.create_run(doing(thread, "")).await?;
    reaches(&counts.second, 2).await?;
    has_entered(store, made.id).await?;
    working.stop().await?;
    has_status(store, made.id, RunStatus::Pending).await?;
    counts.hangs.store(false, Ordering::SeqCst);
    Ok(made.id)
}

async fn a_requeued_run_leaves_nothing(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    run_to_end(&store, &counts, doing("t", "")).await?;
    let before = stored(&store, "t").await?;
    let made = requeued_run(&store, &counts).await?;
    store.cancel_runs("t", &[made], Cancel::Rollback).await?;
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    rolled_back(&store, "t", made).await?;
    same("the stored state", &stored(&store, "t").await?, &before)?;
    same("how often the second node ran", &counts.second.load(Ordering::SeqCst), &2)?;
    working.stop().await
}

async fn a_requeued_run_is_cancelled_with_its_data(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    run_to_end(&store, &counts, doing("t", "")).await?;
    let made = requeued_run(&store, &counts).await?;
    store.cancel_runs("t", &[made], Cancel::Interrupt).await?;
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    same("the run", &wait_until_ended(&store, made).await?.status, &RunStatus::Interrupted)?;
    let row = thread(&store, "t").await?;
    same("the thread, which can go on", &row.status, &ThreadStatus::Interrupted)?;
    let log = row.values.map(|values| values["log"].clone());
    same("its values", &log, &Some(json!(["in", "first", "second", "in", "first"])))?;
    working.stop().await
}

/// When a run is cancelled, no worker may have its graph any more. The run must still end, so that its thread does not
/// stay busy forever.
async fn a_cancelled_run_whose_graph_is_gone_is_ended(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    for (thread_id, action) in [("t", Cancel::Rollback), ("u", Cancel::Interrupt)] {
        run_to_end(&store, &counts, doing(thread_id, "")).await?;
        let before = stored(&store, thread_id).await?;
        counts.second.store(1, Ordering::SeqCst);
        let made = requeued_run_on(&store, &counts, thread_id).await?;
        store.cancel_runs(thread_id, &[made], action).await?;
        let working = BackgroundWorker::start_as("another", &store, &counts, LEASE)?;
        if action == Cancel::Rollback {
            while store.run(made).await?.is_some() {
                sleep(Duration::from_millis(20)).await;
            }
            same("the stored state", &stored(&store, thread_id).await?, &before)?;
        } else {
            same("the run", &wait_until_ended(&store, made).await?.status, &RunStatus::Interrupted)?;
        }
        holds("the thread is free", thread(&store, thread_id).await?.status != ThreadStatus::Busy)?;
        working.stop().await?;
    }
    Ok(())
}

async fn a_failed_thread_stays_failed(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    wait_until_ended(&store, store.create_run(doing("t", "fail")).await?.id).await?;
    let (before, error) = (stored(&store, "t").await?, thread(&store, "t").await?.error);
    counts.hangs.store(true, Ordering::SeqCst);
    let hangs = store.create_run(doing("t", "")).await?;
    reaches(&counts.second, 2).await?;
    rolled_back(&store, "t", hangs.id).await?;
    same("the stored state", &stored(&store, "t").await?, &before)?;
    same("why it had failed", &thread(&store, "t").await?.error, &error)?;
    working.stop().await
}

async fn a_message_is_back_in_the_inbox(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    wait_until_ended(&store, store.create_run(doing("t", "")).await?.id).await?;
    let id = Uuid::new_v4();
    send(&store, id, None, "sent").await?;
    let before = stored(&store, "t").await?;
    counts.first_hangs.store(true, Ordering::SeqCst);
    let hangs = store.create_run(doing("t", "")).await?;
    reaches(&counts.first, 2).await?;
    while !store.inbox()?.messages("t").await?.is_empty() {
        sleep(Duration::from_millis(2)).await;
    }
    rolled_back(&store, "t", hangs.id).await?;
    same("the stored state", &stored(&store, "t").await?, &before)?;
    same("whether it is new, sent again", &send(&store, id, None, "sent").await?, &false)?;
    counts.first_hangs.store(false, Ordering::SeqCst);
    wait_until_ended(&store, store.create_run(doing("t", "")).await?.id).await?;
    let values = some("the values", thread(&store, "t").await?.values)?;
    same("the log", &values["log"], &json!(["in", "first", "second", "in", "sent", "first", "second"]))?;
    same("the waiting messages", &store.inbox()?.messages("t").await?.len(), &0)?;
    working.stop().await
}

/// Runs a thread until it waits, rolls back the run that resumes it, and checks that another run resumes it.
async fn woken_again(store: &Subject, what: &str, log: Value) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    let working = BackgroundWorker::start(store, &counts, LEASE)?;
    counts.hangs_after.store(true, Ordering::SeqCst);
    wait_until_ended(store, store.create_run(doing("t", what)).await?.id).await?;
    if what == "wait" {
        send(store, Uuid::new_v4(), Some("go"), "sent").await?;
    }
    reaches(&counts.after, 1).await?;
    let woken = some("the run that was woken", store.runs(RunQuery::thread("t").live()).await?.pop())?;
    counts.hangs_after.store(false, Ordering::SeqCst);
    rolled_back(store, "t", woken.id).await?;
    reaches(&counts.after, 2).await?;
    let last = some("the next run", store.runs(RunQuery::thread("t")).await?.into_iter().next())?;
    same("how it ended", &wait_until_ended(store, last.id).await?.status, &RunStatus::Success)?;
    let values = some("the values", thread(store, "t").await?.values)?;
    same("the log", &values["log"], &log)?;
    let after = stored(store, "t").await?;
    same("the waiting messages", &(after.mail.len(), after.is_due), &(0, false))?;
    holds("the first run is there", load_run(store, last.id).await.is_ok())?;
    working.stop().await
}

async fn a_signal_resumes_the_thread_again(store: Subject) -> CaseResult {
    woken_again(&store, "wait", json!(["in", "first", "told"])).await
}

async fn a_timer_resumes_the_thread_again(store: Subject) -> CaseResult {
    woken_again(&store, "sleep", json!(["in", "first", "second"])).await
}
