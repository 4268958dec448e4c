//! Cases about workers that execute the runs of a store.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use hier_core::checkpoint::ListQuery;
use hier_core::runs::{Cancel, MultitaskStrategy, Request, RunStatus, ThreadStatus};
use serde_json::{Value, json};

use super::Subject;
use super::desk::{BackgroundWorker, LEASE, NodeCounts, doing, log, reaches};
use super::kit::{CaseResult, add, cases, events, holds, is, new, same, some, strategy, thread, wait_until_ended};

cases!(super::Case, "work":
    a_run_ends_with_its_values,
    a_question_is_answered_by_the_next_run,
    a_failed_run_reports_its_error,
    a_bad_request_fails_and_leaves_the_thread,
    several_workers_do_each_run_once,
    a_run_that_is_cancelled_stops,
    a_rolled_back_run_restores_the_state_before_it,
    a_run_that_takes_too_long_ends,
);

async fn a_run_ends_with_its_values(store: Subject) -> CaseResult {
    let working = BackgroundWorker::start(&store, &Arc::default(), LEASE)?;
    let made = store.create_run(doing("t", "")).await?;
    let ended = wait_until_ended(&store, made.id).await?;
    same("the run", &(ended.status, ended.error.clone()), &(RunStatus::Success, None))?;
    same("its values", &log(&ended), &json!(["in", "first", "second"]))?;
    let row = thread(&store, "t").await?;
    same("the thread", &row.status, &ThreadStatus::Idle)?;
    same("its values", &row.values.map(|values| values["log"].clone()), &Some(json!(["in", "first", "second"])))?;
    let listed = store.list(ListQuery::thread("t")).await?;
    holds("it has its checkpoints", listed.len() >= 3)?;
    let of_run = Value::from(made.id.to_string());
    holds("they name the run", listed.iter().all(|it| it.checkpoint.metadata.get("run_id") == Some(&of_run)))?;
    working.stop().await
}

async fn a_question_is_answered_by_the_next_run(store: Subject) -> CaseResult {
    let working = BackgroundWorker::start(&store, &Arc::default(), LEASE)?;
    let asks = wait_until_ended(&store, store.create_run(doing("t", "ask")).await?.id).await?;
    same("the run", &asks.status, &RunStatus::Success)?;
    let row = thread(&store, "t").await?;
    same("the thread", &row.status, &ThreadStatus::Interrupted)?;
    let asked = some("a question", row.interrupts.values().next().cloned())?;
    same("it", &asked[0]["value"], &json!("sure?"))?;
    same("the run's", &asks.output.map(|output| output["interrupts"][0]["id"].clone()), &Some(asked[0]["id"].clone()))?;
    let mut answer = new("t");
    answer.request = Request::command(json!({ "resume": "yes" }));
    let answered = wait_until_ended(&store, store.create_run(answer.clone()).await?.id).await?;
    same("the log", &log(&answered), &json!(["in", "first", "answered"]))?;
    is(&store, "t", ThreadStatus::Idle).await?;
    // A second click of the user sends the answer again.
    let again = wait_until_ended(&store, store.create_run(answer).await?.id).await?;
    same("the second answer", &again.status, &RunStatus::Error)?;
    working.stop().await
}

async fn a_failed_run_reports_its_error(store: Subject) -> CaseResult {
    let working = BackgroundWorker::start(&store, &Arc::default(), LEASE)?;
    for what in ["fail", "panic"] {
        let failed = wait_until_ended(&store, store.create_run(doing(what, what)).await?.id).await?;
        same("the run", &failed.status, &RunStatus::Error)?;
        let error = some("its error", failed.error)?;
        same("its kind", &&*error.error, &"NodeError")?;
        holds("it says why", error.message.contains(if what == "fail" { "boom" } else { "as asked" }))?;
        let row = thread(&store, what).await?;
        same("the thread", &(row.status, row.error.is_some()), &(ThreadStatus::Error, true))?;
        same("its values", &row.values.map(|values| values["log"].clone()), &Some(json!(["in", "first"])))?;
        let last = some("events", events(&store, what, 0).await?.pop())?;
        same("the last event", &last.event.mode(), &"end")?;
        same("the error of that event", &last.event.body.data()["error"]["error"], &json!("NodeError"))?;
    }
    working.stop().await
}

async fn a_bad_request_fails_and_leaves_the_thread(store: Subject) -> CaseResult {
    let working = BackgroundWorker::start(&store, &Arc::default(), LEASE)?;
    let requests = [
        Request::input(json!({ "lgo": [] })),
        Request::input(json!(7)),
        Request::command(json!({ "goto": "nowhere" })),
        Request::command(json!(7)),
        Request::default(),
    ];
    for request in requests {
        let mut bad = new("t");
        bad.request = request;
        let ended = wait_until_ended(&store, store.create_run(bad).await?.id).await?;
        same("the run", &ended.status, &RunStatus::Error)?;
    }
    is(&store, "t", ThreadStatus::Error).await?;
    same("the stored state", &store.get("t", "", None).await?, &None)?;
    wait_until_ended(&store, store.create_run(doing("t", "")).await?.id).await?;
    is(&store, "t", ThreadStatus::Idle).await?;
    working.stop().await
}

async fn several_workers_do_each_run_once(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    let mut made = Vec::new();
    for number in 0..40 {
        made.push(add(&store, &format!("t{}", number % 7)).await?.id);
    }
    let working = [0, 1, 2].map(|_| BackgroundWorker::start(&store, &counts, LEASE));
    for id in made {
        same("the run", &wait_until_ended(&store, id).await?.status, &RunStatus::Success)?;
    }
    same("how often the first node ran", &counts.first.load(Ordering::SeqCst), &40)?;
    let log = thread(&store, "t0").await?.values.map(|values| values["log"].as_array().map(Vec::len));
    same("the thread's log", &log, &Some(Some(18)))?;
    for working in working {
        working?.stop().await?;
    }
    Ok(())
}

async fn a_run_that_is_cancelled_stops(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let made = store.create_run(doing("t", "")).await?;
    reaches(&counts.second, 1).await?;
    store.cancel_runs("t", &[made.id], Cancel::Interrupt).await?;
    same("the run", &wait_until_ended(&store, made.id).await?.status, &RunStatus::Interrupted)?;
    let row = thread(&store, "t").await?;
    same("the thread, which can go on", &row.status, &ThreadStatus::Interrupted)?;
    same("its values", &row.values.map(|values| values["log"].clone()), &Some(json!(["in", "first"])))?;
    counts.hangs.store(false, Ordering::SeqCst);
    let mut continuation = new("t");
    continuation.request = Request::default();
    let went_on = wait_until_ended(&store, store.create_run(continuation).await?.id).await?;
    same("the log", &log(&went_on), &json!(["in", "first", "second"]))?;
    working.stop().await
}

async fn a_rolled_back_run_restores_the_state_before_it(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    wait_until_ended(&store, store.create_run(doing("t", "")).await?.id).await?;
    let before = thread(&store, "t").await?.values;
    counts.hangs.store(true, Ordering::SeqCst);
    let hangs = store.create_run(doing("t", "")).await?;
    reaches(&counts.second, 2).await?;
    counts.hangs.store(false, Ordering::SeqCst);
    let mut next = strategy("t", MultitaskStrategy::Rollback);
    next.request.input = json!({ "log": ["again"] });
    let next = wait_until_ended(&store, store.create_run(next).await?.id).await?;
    same("the run", &store.run(hangs.id).await?, &None)?;
    same("the log", &log(&next), &json!(["in", "first", "second", "again", "first", "second"]))?;
    holds("there was something before", before.is_some())?;
    working.stop().await
}

async fn a_run_that_takes_too_long_ends(store: Subject) -> CaseResult {
    let counts = Arc::<NodeCounts>::default();
    counts.hangs.store(true, Ordering::SeqCst);
    let working = BackgroundWorker::start(&store, &counts, LEASE)?;
    let mut slow = doing("t", "");
    slow.request.timeout_ms = Some(100);
    let slow = wait_until_ended(&store, store.create_run(slow).await?.id).await?;
    same("the run", &slow.status, &RunStatus::Timeout)?;
    is(&store, "t", ThreadStatus::Error).await?;
    working.stop().await
}
