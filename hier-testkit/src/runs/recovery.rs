//! Workers that stop or die, and what is told and stored meanwhile.

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

use super::desk::{Counts, LEASE, Working, desk, doing, first_began, has_entered, log, second_began};
use super::kit::{Outcome, SHORT, add, cases, claim_for, ended, events, has_status, is, new, run, same, some, thread};
use super::{Failure, Subject};

cases!(super::Case, "recovery":
    a_worker_that_stops_hands_its_runs_back,
    a_worker_that_dies_is_replaced,
    an_input_that_was_stored_is_not_given_again,
    an_input_is_stored_while_the_first_node_works,
    an_answer_that_was_stored_is_not_asked_for_again,
    an_answer_at_a_checkpoint_is_not_given_again,
    an_input_that_came_with_messages_is_not_given_again,
    a_poison_run_ends,
    nobody_needs_to_listen,
    a_joined_stream_is_the_stream,
    events_of_a_step_come_with_its_checkpoint,
    a_change_from_outside_is_stored_with_its_index,
);

async fn a_worker_that_stops_hands_its_runs_back(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let made = store.create_run(doing("t", "")).await?;
    second_began(&counts, 1).await?;
    working.stop().await?;
    has_status(&store, made.id, RunStatus::Pending).await?;
    is(&store, "t", ThreadStatus::Busy).await?;
    counts.hangs.store(false, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the log", &log(&ended), &json!(["in", "first", "second"]))?;
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &1)?;
    same("the attempts that count", &ended.attempts, &1)?;
    working.stop().await
}

/// Aegra 476: what a dead worker had begun stayed where it was.
async fn a_worker_that_dies_is_replaced(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let dead = Working::start(&store, &counts, SHORT)?;
    let mut asked = doing("t", "");
    asked.request.durability = Durability::Sync;
    let made = store.create_run(asked).await?;
    second_began(&counts, 1).await?;
    dead.kill().await;
    counts.hangs.store(false, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the run", &(ended.status, ended.attempts), &(RunStatus::Success, 2))?;
    same("the log", &log(&ended), &json!(["in", "first", "second"]))?;
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &1)?;
    working.stop().await
}

async fn an_input_that_was_stored_is_not_given_again(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    ended(&store, store.create_run(doing("t", "ask")).await?.id).await?;
    working.stop().await?;
    counts.hangs.store(true, Ordering::SeqCst);
    let dead = Working::start(&store, &counts, SHORT)?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes", "update": { "log": ["updated"] } }));
    let made = store.create_run(answer).await?;
    second_began(&counts, 2).await?;
    has_entered(&store, made.id).await?;
    dead.kill().await;
    counts.hangs.store(false, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "first", "updated", "answered"]))?;
    working.stop().await
}

/// What a run begins with waits for what comes next, but not long.
async fn an_input_is_stored_while_the_first_node_works(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.first_hangs.store(true, Ordering::SeqCst);
    let dead = Working::start(&store, &counts, SHORT)?;
    let made = store.create_run(doing("t", "")).await?;
    first_began(&counts, 1).await?;
    has_entered(&store, made.id).await?;
    let stored = some("its input", store.get("t", "", None).await?)?;
    same("the step that follows from it", &stored.checkpoint.step, &0)?;
    dead.kill().await;
    counts.first_hangs.store(false, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the run", &(ended.status, ended.attempts), &(RunStatus::Success, 2))?;
    same("the log", &log(&ended), &json!(["in", "first", "second"]))?;
    working.stop().await
}

/// Answers a question with this request, and kills the worker while the node that asked goes on.
async fn killed_while_answering(store: &Subject, counts: &Arc<Counts>, answer: NewRun) -> Result<Uuid, Failure> {
    counts.hangs.store(true, Ordering::SeqCst);
    let began = counts.second.load(Ordering::SeqCst);
    let dead = Working::start(store, counts, SHORT)?;
    let made = store.create_run(answer).await?;
    second_began(counts, began + 1).await?;
    has_entered(store, made.id).await?;
    dead.kill().await;
    counts.hangs.store(false, Ordering::SeqCst);
    Ok(made.id)
}

async fn an_answer_that_was_stored_is_not_asked_for_again(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    ended(&store, store.create_run(doing("t", "ask")).await?.id).await?;
    working.stop().await?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes" }));
    let made = killed_while_answering(&store, &counts, answer).await?;
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "first", "answered"]))?;
    is(&store, "t", ThreadStatus::Idle).await?;
    working.stop().await
}

async fn an_answer_at_a_checkpoint_is_not_given_again(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    ended(&store, store.create_run(doing("t", "ask")).await?.id).await?;
    working.stop().await?;
    let asked = some("the checkpoint that asked", store.get("t", "", None).await?)?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes" }));
    answer.request.checkpoint = Some(asked.checkpoint.id);
    let made = killed_while_answering(&store, &counts, answer).await?;
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "first", "answered"]))?;
    working.stop().await
}

async fn an_input_that_came_with_messages_is_not_given_again(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let graph = desk(&counts)?.erase(|_| Ok(()));
    store.create_thread(NewThread::new("t")).await?;
    let saver = store.clone().as_checkpointer();
    graph.send(saver, "t", Uuid::new_v4(), None, &json!("sent")).await.map_err(Failure::unexpected)?;
    counts.first_hangs.store(true, Ordering::SeqCst);
    let dead = Working::start(&store, &counts, SHORT)?;
    let made = store.create_run(doing("t", "")).await?;
    first_began(&counts, 1).await?;
    // What is stored in the background is stored by then.
    while store.get("t", "", None).await?.is_none() {
        sleep(Duration::from_millis(2)).await;
    }
    dead.kill().await;
    counts.first_hangs.store(false, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("the log", &log(&ended), &json!(["in", "sent", "first", "second"]))?;
    same("what waits in the mailbox", &store.inbox()?.messages("t").await?.len(), &0)?;
    working.stop().await
}

/// Aegra 473: a run that kills its workers is not begun for ever.
async fn a_poison_run_ends(store: Subject) -> Outcome {
    let made = add(&store, "t").await?;
    for _ in 0..2 {
        some("the run", claim_for(&store, SHORT).await?)?;
        sleep(SHORT * 2).await;
    }
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    let ended = ended(&store, made.id).await?;
    same("the run", &ended.status, &RunStatus::Error)?;
    same("why", &ended.error.map(|error| error.error), &Some("AttemptsExceeded".to_owned()))?;
    is(&store, "t", ThreadStatus::Error).await?;
    same("how often it was begun", &counts.first.load(Ordering::SeqCst), &0)?;
    working.stop().await
}

/// deer-flow 1403: the client was gone, and the run waited for somebody to take its events.
async fn nobody_needs_to_listen(store: Subject) -> Outcome {
    let working = Working::start(&store, &Arc::default(), LEASE)?;
    let made = store.create_run(doing("t", "tell")).await?;
    let gone = store.notifier().thread("t");
    drop(gone);
    same("the run", &ended(&store, made.id).await?.status, &RunStatus::Success)?;
    let told = events(&store, "t", 0).await?;
    same("what it told", &told.iter().filter(|row| row.event.mode() == "custom").count(), &500)?;
    working.stop().await
}

/// LG 7778, JS 2330: whoever joined later missed events.
async fn a_joined_stream_is_the_stream(store: Subject) -> Outcome {
    let working = Working::start(&store, &Arc::default(), LEASE)?;
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
    // The end is told when the row has ended, not before.
    same("the run", &run(&store, made.id).await?.status, &RunStatus::Success)?;
    same("joined afterwards", &events(&store, "t", 0).await?, &live)?;
    let numbers: Vec<_> = live
        .iter()
        .filter(|row| row.event.mode() == "custom")
        .map(|row| row.event.body.data()["number"].clone())
        .collect();
    same("what was told", &numbers, &(0..500).map(Value::from).collect())?;
    let modes: Vec<_> = live.iter().filter(|row| row.event.mode() != "custom").map(|row| row.event.mode()).collect();
    same("the rest", &modes, &vec!["start", "values", "updates", "values", "updates", "values", "end"])?;
    working.stop().await
}

async fn events_of_a_step_come_with_its_checkpoint(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = Working::start(&store, &counts, LEASE)?;
    let mut asked = doing("t", "");
    asked.request.durability = Durability::Sync;
    let made = store.create_run(asked).await?;
    second_began(&counts, 1).await?;
    let told = events(&store, "t", 0).await?;
    let values: Vec<_> = told.iter().filter(|row| row.event.mode() == "values").collect();
    same("the values", &values.last().map(|row| row.event.body.data()["log"].clone()), &Some(json!(["in", "first"])))?;
    let latest = some("a checkpoint", store.get("t", "", None).await?)?;
    same("the step of the latest checkpoint", &latest.checkpoint.step, &1)?;
    same("how many are found", &store.count_threads(ThreadQuery::default()).await?, &1)?;
    store.cancel_runs("t", &[made.id], Cancel::Interrupt).await?;
    ended(&store, made.id).await?;
    working.stop().await
}

/// A change from outside is there with what the index says of it, or not at all; and while it is made it can be read.
async fn a_change_from_outside_is_stored_with_its_index(store: Subject) -> Outcome {
    let counts = Arc::<Counts>::default();
    let working = Working::start(&store, &counts, LEASE)?;
    ended(&store, store.create_run(doing("t", "")).await?.id).await?;
    working.stop().await?;
    let graph = desk(&counts)?.erase(|_| Ok(()));
    let lease = store.acquire("t", Claim { when_running: WhenRunning::Reject, ..Claim::default() }).await?;
    let log = Arc::new(RunLog::new(store.clone(), lease.clone(), None, EventBuffering::WithCommits));
    let update = |text: &str| DynUpdates::values(json!({ "log": [text], "answer": text })).as_node("first");
    let steps = vec![vec![update("a")], vec![update("b")]];
    graph.update_state(log.clone(), Config::thread("t"), steps).await.map_err(Failure::unexpected)?;
    let read = graph.state(log.clone(), Config::thread("t")).await.map_err(Failure::unexpected)?;
    same("what is read", &read.values["log"], &json!(["in", "first", "second", "a", "b"]))?;
    same("the last", &read.values["answer"], &json!("b"))?;
    same("what runs next", &read.next, &vec!["second".to_owned()])?;
    // Nothing of it is there yet.
    let stored =
        graph.state(store.clone().as_checkpointer(), Config::thread("t")).await.map_err(Failure::unexpected)?;
    same("what is stored", &stored.values["log"], &json!(["in", "first", "second"]))?;
    let index = ThreadIndex::new(ThreadStatus::Interrupted).values(read.values.clone());
    log.finish(Some(index), None).await?;
    store.release(&lease).await?;
    let stored =
        graph.state(store.clone().as_checkpointer(), Config::thread("t")).await.map_err(Failure::unexpected)?;
    same("what is stored", &(&stored.values, stored.checkpoint), &(&read.values, read.checkpoint))?;
    let row = thread(&store, "t").await?;
    same("the index", &(row.status, row.values.as_ref()), &(ThreadStatus::Interrupted, Some(&read.values)))
}
