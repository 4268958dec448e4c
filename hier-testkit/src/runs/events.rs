use std::time::Duration;

use hier_core::runs::{EventQuery, LogEvent, NewEvent, PrunedRuns, RunCommit, RunEnd, RunStatus, RunsError};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::Subject;
use super::kit::{
    CaseResult, SHORT, add, cases, claim, claim_for, events, holds, load_run, modes, same, some, superseded,
};

cases!(super::Case, "events":
    numbers_rise_over_runs,
    each_run_starts_and_ends_once,
    they_are_read_from_any_number_on,
    those_of_one_run,
    events_of_a_stale_worker_are_refused,
    events_are_read_unchanged,
    listeners_are_notified,
    pruned_events_are_reported,
    a_log_is_bounded,
    of_an_unknown_thread_is_an_error,
);

fn custom_event(run: uuid::Uuid, number: usize) -> NewEvent {
    NewEvent::new(run, LogEvent::Custom { node: "node".to_owned(), value: json!({ "number": number }) })
}

async fn numbers_rise_over_runs(store: Subject) -> CaseResult {
    let mut last = 0;
    for _ in 0..3 {
        let made = add(&store, "t").await?;
        let claimed = claim(&store).await?;
        for number in 0..3 {
            let now = store.commit_run(&claimed.lease, RunCommit::events(vec![custom_event(made.id, number)])).await?;
            holds("the last number is greater", now > last)?;
            last = now;
        }
        let end = RunEnd::new(made.id, RunStatus::Success);
        last = store.commit_run(&claimed.lease, RunCommit::default().end(end)).await?;
    }
    let numbers: Vec<_> = events(&store, "t", 0).await?.iter().map(|row| row.number).collect();
    same("the numbers", &numbers, &(1..=15).collect())
}

async fn each_run_starts_and_ends_once(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    some("the run", claim_for(&store, SHORT).await?)?;
    sleep(SHORT * 2).await;
    let again = claim(&store).await?;
    store.commit_run(&again.lease, RunCommit::default().end(RunEnd::new(made.id, RunStatus::Success))).await?;
    same("the events", &modes(&store, "t").await?, &["start", "start", "end"].map(str::to_owned).to_vec())?;
    let all = events(&store, "t", 0).await?;
    same("the second attempt", &all[1].event.body.data()["attempt"], &json!(2))?;
    same("the end", &all[2].event.body.data()["status"], &json!("success"))
}

async fn they_are_read_from_any_number_on(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    store.commit_run(&lease, RunCommit::events((0..100).map(|number| custom_event(made.id, number)).collect())).await?;
    let page = store.events(EventQuery::after("t", 41).limit(10)).await?;
    same("the numbers", &page.events.iter().map(|row| row.number).collect::<Vec<_>>(), &(42..=51).collect())?;
    same("the last of all", &page.last, &101)?;
    same("after the last", &events(&store, "t", 101).await?, &Vec::new())?;
    same("again, from the start", &events(&store, "t", 0).await?.len(), &101)
}

async fn those_of_one_run(store: Subject) -> CaseResult {
    let mut made = Vec::new();
    for number in 0..2 {
        let run = add(&store, "t").await?;
        let lease = claim(&store).await?.lease;
        let settlement = RunCommit::events(vec![custom_event(run.id, number)]);
        store.commit_run(&lease, settlement.end(RunEnd::new(run.id, RunStatus::Success))).await?;
        made.push(run.id);
    }
    let page = store.events(EventQuery::after("t", 0).run(made[1])).await?;
    same(
        "the run of the event",
        &page.events.iter().map(|row| row.event.run).collect::<Vec<_>>(),
        &vec![Some(made[1]); 3],
    )
}

async fn events_of_a_stale_worker_are_refused(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let dead = some("the run", claim_for(&store, SHORT).await?)?;
    sleep(SHORT * 2).await;
    claim(&store).await?;
    superseded("an event", &store.commit_run(&dead.lease, RunCommit::events(vec![custom_event(made.id, 0)])).await)?;
    same("the events", &modes(&store, "t").await?, &["start", "start"].map(str::to_owned).to_vec())
}

async fn events_are_read_unchanged(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    let value = json!({ "text": "\u{0}\u{1f600}'; drop table events; --", "deep": [[[null, 1.5, -7, true]]] });
    let custom = LogEvent::Custom { node: "näme\u{0}\"'".to_owned(), value };
    let wild = NewEvent::new(made.id, custom).namespace(vec!["a:1".to_owned(), "b|2".to_owned()]);
    let none = NewEvent::new(None, LogEvent::StateUpdate { state: json!(null), thread_id: "thread".to_owned() });
    store.commit_run(&lease, RunCommit::events(vec![wild.clone(), none.clone()])).await?;
    let heard: Vec<_> = events(&store, "t", 1).await?.into_iter().map(|row| row.event).collect();
    same("the events", &heard, &vec![wild, none])
}

async fn listeners_are_notified(store: Subject) -> CaseResult {
    let long = Duration::from_secs(20);
    let (mut runs, mut bell) = (store.notifier().runs(), store.notifier().thread("t"));
    let made = add(&store, "t").await?;
    holds("a worker is woken", timeout(long, runs.changed()).await.is_ok())?;
    let lease = claim(&store).await?.lease;
    for number in 0..3 {
        while timeout(Duration::from_millis(30), bell.changed()).await.is_ok() {}
        store.commit_run(&lease, RunCommit::events(vec![custom_event(made.id, number)])).await?;
        holds("a listener is woken", timeout(long, bell.changed()).await.is_ok())?;
    }
    Ok(())
}

async fn pruned_events_are_reported(store: Subject) -> CaseResult {
    let old = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    store.commit_run(&lease, RunCommit::default().end(RunEnd::new(old.id, RunStatus::Success))).await?;
    same("pruning young rows", &store.prune_runs(Duration::from_mins(10)).await?, &PrunedRuns::default())?;
    sleep(Duration::from_millis(60)).await;
    let young = add(&store, "t").await?;
    same("pruning old rows", &store.prune_runs(Duration::from_millis(50)).await?, &PrunedRuns { events: 2, runs: 1 })?;
    same("the old run", &store.run(old.id).await?, &None)?;
    load_run(&store, young.id).await?;
    claim(&store).await?;
    let page = store.events(EventQuery::after("t", 0)).await?;
    same("the missing data", &page.gone, &2)?;
    same("the numbers go on", &page.events.iter().map(|row| row.number).collect::<Vec<_>>(), &vec![3])
}

async fn a_log_is_bounded(store: Subject) -> CaseResult {
    let made = add(&store, "t").await?;
    let lease = claim(&store).await?.lease;
    let large = "x".repeat(4 << 20);
    for _ in 0..10 {
        let event = NewEvent::new(made.id, LogEvent::Custom { node: "node".to_owned(), value: json!(large) });
        store.commit_run(&lease, RunCommit::events(vec![event])).await?;
    }
    let page = store.events(EventQuery::after("t", 10)).await?;
    same("the last", &page.last, &11)?;
    holds("the last is there", page.events.iter().any(|row| row.number == 11))?;
    holds("the first are gone", page.gone > 0)?;
    let all = store.events(EventQuery::after("t", 0)).await?;
    same("those that are there", &all.events.first().map(|row| row.number), &Some(all.gone + 1))?;
    let bytes: u64 = all.events.iter().map(|row| row.event.bytes()).sum();
    holds("they are no more than the log may hold", bytes <= hier_core::runs::LOG_BYTES)
}

async fn of_an_unknown_thread_is_an_error(store: Subject) -> CaseResult {
    let found = store.events(EventQuery::after("t", 0)).await;
    holds("it is an error", matches!(found, Err(RunsError::NoThread { .. })))
}
