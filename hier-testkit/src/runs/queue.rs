//! Cases about runs that wait for their turn, and about the effects of a second run on the first.

use hier_core::runs::{
    Cancel, MultitaskStrategy, NewRun, QUEUE_BYTES, Request, RunCommit, RunEnd, RunQuery, RunStatus, RunsError,
    StreamMode, ThreadIndex, ThreadStatus,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::kit::{
    CaseResult, add, cases, checkpoint, claim, events, has_status, holds, is, load_run, new, same, strategy, thread,
};
use super::{ContractViolation, Subject};

cases!(super::Case, "queue":
    a_run_is_stored_unchanged,
    an_unknown_thread_is_made_only_if_asked_for,
    the_same_id_twice_adds_one_run,
    reject_changes_nothing,
    each_question_takes_one_answer,
    a_queue_has_a_limit_in_bytes,
    runs_before_a_run_are_found,
    interrupt_ends_waiting_runs_and_interrupts_the_active_one,
    rollback_removes_waiting_runs,
    a_run_that_was_rolled_back_leaves_nothing,
    a_cancelled_run_that_waits_ends_at_once,
    ended_runs_are_not_cancelled,
    only_ended_runs_are_deleted,
    runs_are_listed_newest_first,
    a_thread_stays_busy_until_its_last_run_has_ended,
    a_run_that_failed_leaves_the_thread_free,
);

async fn a_run_is_stored_unchanged(store: Subject) -> CaseResult {
    let mut asked = NewRun::new("t", "desk", Request::command(json!({ "resume": "yes" }))).create_thread();
    asked.assistant = Some("a".to_owned());
    asked.metadata.insert("by".to_owned(), "ann".into());
    asked.request.stream_modes = vec![StreamMode::Values];
    // Many of these numbers need all 17 digits.
    let numbers: Vec<f64> = (1..200).map(|number| f64::from(number).sin() * 1e9).collect();
    asked.request.context =
        json!({ "tenant": 7, "numbers": numbers, "extremes": [u64::MAX, i64::MIN, f64::MAX, -0.0] });
    let made = store.create_run(asked.clone()).await?;
    same("the status", &made.status, &RunStatus::Pending)?;
    same("the request", &made.request, &asked.request)?;
    same("the run as it is read", &load_run(&store, made.id).await?, &made)?;
    let thread = thread(&store, "t").await?;
    same("the thread's graph", &thread.metadata.get("graph_id"), &Some(&Value::from("desk")))?;
    same("the thread's assistant", &thread.metadata.get("assistant_id"), &Some(&Value::from("a")))?;
    is(&store, "t", ThreadStatus::Busy).await
}

async fn an_unknown_thread_is_made_only_if_asked_for(store: Subject) -> CaseResult {
    let refused = store.create_run(NewRun::new("t", "desk", Request::default())).await;
    holds("the run is refused", matches!(refused, Err(RunsError::NoThread { .. })))?;
    same("the thread", &store.thread("t").await?, &None)
}

async fn the_same_id_twice_adds_one_run(store: Subject) -> CaseResult {
    let mut asked = new("t");
    asked.id = Some(Uuid::new_v4());
    store.create_run(asked.clone()).await?;
    let again = store.create_run(asked.clone()).await;
    holds("the second is refused", matches!(again, Err(RunsError::Exists { .. })))?;
    "u".clone_into(&mut asked.thread);
    let elsewhere = store.create_run(asked.create_thread()).await;
    holds("also on another thread", matches!(elsewhere, Err(RunsError::Exists { .. })))?;
    same("the runs", &store.runs(RunQuery::thread("t")).await?.len(), &1)
}

async fn reject_changes_nothing(store: Subject) -> CaseResult {
    let first = add(&store, "t").await?;
    let before = thread(&store, "t").await?;
    let refused = store.create_run(strategy("t", MultitaskStrategy::Reject)).await;
    holds("it is refused", matches!(refused, Err(RunsError::Busy { run, .. }) if run == first.id))?;
    same("the thread", &thread(&store, "t").await?, &before)?;
    same("the runs", &store.runs(RunQuery::thread("t")).await?, &vec![first])
}

async fn each_question_takes_one_answer(store: Subject) -> CaseResult {
    let answers = |question: &str, strategy: MultitaskStrategy| {
        let mut asked = new("t");
        asked.request.answers.push(question.to_owned());
        asked.multitask_strategy = strategy;
        asked
    };
    let first = store.create_run(answers("q1", MultitaskStrategy::Enqueue)).await?;
    let refused = store.create_run(answers("q1", MultitaskStrategy::Enqueue)).await;
    let is_named = |error: &RunsError| matches!(error, RunsError::Answered { question, run, .. } if question == "q1" && *run == first.id);
    holds("the second is refused", refused.is_err_and(|error| is_named(&error)))?;
    same("the runs", &store.runs(RunQuery::thread("t")).await?, &vec![first])?;
    store.create_run(answers("q2", MultitaskStrategy::Enqueue)).await?;
    let last = store.create_run(answers("q1", MultitaskStrategy::Rollback)).await?;
    same("the runs", &store.runs(RunQuery::thread("t")).await?, &vec![last])
}

async fn a_queue_has_a_limit_in_bytes(store: Subject) -> CaseResult {
    let first = add(&store, "t").await?;
    let before = thread(&store, "t").await?;
    let mut large = new("t");
    large.request.input = "x".repeat(usize::try_from(QUEUE_BYTES).unwrap_or(usize::MAX)).into();
    let refused = store.create_run(large).await;
    let is_named = |error: &RunsError| matches!(error, RunsError::QueueFull { thread, .. } if thread == "t");
    holds("the large run is refused", refused.is_err_and(|error| is_named(&error)))?;
    same("the thread", &thread(&store, "t").await?, &before)?;
    let second = add(&store, "t").await?;
    same("the runs", &store.runs(RunQuery::thread("t")).await?, &vec![second, first])
}

async fn runs_before_a_run_are_found(store: Subject) -> CaseResult {
    for _ in 0..6 {
        add(&store, "t").await?;
        add(&store, "other").await?;
    }
    let ended = claim(&store).await?;
    let end = RunEnd::new(ended.run.id, RunStatus::Success);
    store.commit_run(&ended.lease, RunCommit::default().end(end)).await?;
    for query in [RunQuery::thread("t"), RunQuery::thread("t").live()] {
        let all = store.runs(query.clone()).await?;
        same("the number of runs", &all.len(), &if query.is_live() { 5 } else { 6 })?;
        // A server reads them in pages.
        for limit in 1..4 {
            let (mut read, mut page) = (Vec::new(), query.clone());
            page.limit = limit;
            loop {
                let found = store.runs(page.clone()).await?;
                let Some(last) = found.last() else { break };
                page.before = Some(last.number);
                read.extend(found);
            }
            same("the pages", &read, &all)?;
        }
        let mut older = query;
        (older.before, older.offset, older.limit) = (Some(all[1].number), 1, 2);
        same("the older runs", &store.runs(older).await?, &all[3..5].to_vec())?;
    }
    Ok(())
}

async fn interrupt_ends_waiting_runs_and_interrupts_the_active_one(store: Subject) -> CaseResult {
    let (runs, waits) = (add(&store, "t").await?, add(&store, "t").await?);
    let claimed = claim(&store).await?;
    let third = store.create_run(strategy("t", MultitaskStrategy::Interrupt)).await?;
    has_status(&store, waits.id, RunStatus::Interrupted).await?;
    let running = load_run(&store, runs.id).await?;
    same("the cancellation of the first run", &running.cancel, &Some(Cancel::Interrupt))?;
    has_status(&store, third.id, RunStatus::Pending).await?;
    store.commit_run(&claimed.lease, RunCommit::default().end(RunEnd::new(runs.id, RunStatus::Interrupted))).await?;
    same("the next", &claim(&store).await?.run.id, &third.id)
}

async fn rollback_removes_waiting_runs(store: Subject) -> CaseResult {
    let (runs, waits) = (add(&store, "t").await?, add(&store, "t").await?);
    claim(&store).await?;
    store.create_run(strategy("t", MultitaskStrategy::Rollback)).await?;
    same("the run that waited", &store.run(waits.id).await?, &None)?;
    same("the cancellation of the first run", &load_run(&store, runs.id).await?.cancel, &Some(Cancel::Rollback))
}

async fn a_run_that_was_rolled_back_leaves_nothing(store: Subject) -> CaseResult {
    let (first, second) = (add(&store, "t").await?, add(&store, "t").await?);
    let lease = claim(&store).await?.lease;
    let kept = RunCommit::records(vec![checkpoint(first.id, 0)]);
    store.commit_run(&lease, kept.end(RunEnd::new(first.id, RunStatus::Success))).await?;
    let lease = claim(&store).await?.lease;
    store.commit_run(&lease, RunCommit::records(vec![checkpoint(second.id, 1)])).await?;
    let last = RunCommit::records(vec![checkpoint(second.id, 2)]);
    store.commit_run(&lease, last.end(RunEnd::rolled_back(second.id))).await?;
    same("the run", &store.run(second.id).await?, &None)?;
    let listed = store.list(hier_core::checkpoint::ListQuery::thread("t")).await?;
    let steps: Vec<_> = listed.iter().map(|listed| listed.checkpoint.step).collect();
    same("the checkpoints", &steps, &vec![0])?;
    is(&store, "t", ThreadStatus::Idle).await?;
    add(&store, "t").await?;
    claim(&store).await.map(|_| ())
}

async fn a_cancelled_run_that_waits_ends_at_once(store: Subject) -> CaseResult {
    let run = add(&store, "t").await?;
    let cancelled = store.cancel_runs("t", &[run.id], Cancel::Interrupt).await?;
    same("the cancelled runs", &cancelled.iter().map(|run| run.id).collect::<Vec<_>>(), &vec![run.id])?;
    has_status(&store, run.id, RunStatus::Interrupted).await?;
    is(&store, "t", ThreadStatus::Idle).await?;
    let rows = events(&store, "t", 0).await?;
    same("the events", &rows.iter().map(|row| row.event.mode()).collect::<Vec<_>>(), &vec!["end"])?;
    same("the run of the event", &rows[0].event.run, &Some(run.id))
}

async fn ended_runs_are_not_cancelled(store: Subject) -> CaseResult {
    let run = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    store.commit_run(&lease, RunCommit::default().end(RunEnd::new(run.id, RunStatus::Success))).await?;
    same("the cancelled runs", &store.cancel_runs("t", &[run.id], Cancel::Interrupt).await?, &Vec::new())?;
    has_status(&store, run.id, RunStatus::Success).await
}

async fn only_ended_runs_are_deleted(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    for _ in 0..2 {
        let refused = store.remove_run(made.id).await;
        holds("it is refused", matches!(refused, Err(RunsError::Live { .. })))?;
        if load_run(&store, made.id).await?.status == RunStatus::Pending {
            let lease = claim(&store).await?.lease;
            holds("it is refused while it runs", store.remove_run(made.id).await.is_err())?;
            store.commit_run(&lease, RunCommit::default().end(RunEnd::new(made.id, RunStatus::Success))).await?;
            break;
        }
    }
    same("whether there was one", &store.remove_run(made.id).await?, &true)?;
    same("the second time", &store.remove_run(made.id).await?, &false)?;
    is(&store, "t", ThreadStatus::Idle).await
}

async fn runs_are_listed_newest_first(store: Subject) -> CaseResult {
    let mut made = Vec::new();
    for number in 0..5 {
        made.push(add(&store, if number == 2 { "u" } else { "t" }).await?.id);
    }
    let ids = |runs: Vec<hier_core::runs::Run>| runs.into_iter().map(|run| run.id).collect::<Vec<_>>();
    same("all", &ids(store.runs(RunQuery::default()).await?), &made.iter().rev().copied().collect())?;
    let mut page = RunQuery::thread("t");
    (page.limit, page.offset) = (2, 1);
    same("a page", &ids(store.runs(page).await?), &vec![made[3], made[1]])?;
    store.cancel_runs("t", &[made[0]], Cancel::Interrupt).await?;
    same("those that wait", &ids(store.runs(RunQuery::thread("t").live()).await?), &vec![made[4], made[3], made[1]])
}

async fn a_thread_stays_busy_until_its_last_run_has_ended(store: Subject) -> CaseResult {
    let (first, second) = (add(&store, "t").await?, add(&store, "t").await?);
    for (run, status) in [(first, ThreadStatus::Busy), (second, ThreadStatus::Interrupted)] {
        let lease = claim(&store).await?.lease;
        let index = ThreadIndex::new(ThreadStatus::Interrupted).values(json!({ "by": run.id }));
        store
            .commit_run(&lease, RunCommit::default().index(index).end(RunEnd::new(run.id, RunStatus::Success)))
            .await?;
        is(&store, "t", status).await?;
        same("the values", &thread(&store, "t").await?.values, &Some(json!({ "by": run.id })))?;
    }
    Ok(())
}

/// Aegra 473: a run had failed permanently, and its thread stayed busy forever.
async fn a_run_that_failed_leaves_the_thread_free(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    let failure = hier_core::runs::Failure::new("NodeError", "boom");
    let mut index = ThreadIndex::new(ThreadStatus::Error);
    index.error = Some(failure.clone());
    let end = RunEnd::failed(made.id, failure.clone());
    store.commit_run(&lease, RunCommit::default().index(index).end(end)).await?;
    let ended = load_run(&store, made.id).await?;
    same("the run", &(ended.status, ended.error), &(RunStatus::Error, Some(failure.clone())))?;
    let thread = thread(&store, "t").await?;
    same("the thread", &(thread.status, thread.error), &(ThreadStatus::Error, Some(failure)))?;
    let next = add(&store, "t").await?;
    same("the next", &claim(&store).await?.run.id, &next.id)?;
    Ok::<(), ContractViolation>(())
}
