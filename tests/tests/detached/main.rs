//! Detached subagents whose supervisor runs in a worker: a run on the subagent's own thread continues each.

mod due;
mod faults;
mod shutdown;
mod site;

use std::sync::Arc;
use std::time::Duration;

use hier_core::Durability;
use hier_core::checkpoint::ListQuery;
use hier_core::runs::{Cancel, MemoryRuns, NewRun, Request, RunClaim, RunQuery, RunStatus, RunStore, ThreadQuery};
use serde_json::{Value, json};

use crate::site::on_each_store;

#[tokio::test]
async fn worker_continues_the_subagent_between_turns() {
    on_each_store(async |site| {
        assert_eq!(site.turn("Dig.").await.len(), 1);
        assert!(site.turn("And?").await[1].starts_with("`miner-1` is running"));
        let run = site.only_run_of_subagent().await;
        site.mine.gate.add_permits(1);
        let run = site.ended(&run).await;
        assert_eq!((run.status, &run.error), (RunStatus::Success, &None));
        assert_eq!(run.output.unwrap()["values"], json!({ "status": "reported", "report": "done" }));
        assert_eq!(site.turn("And?").await[2], "`miner-1` reported.\ndone");
        assert_eq!(site.mine.dug(), 1);
        site.only_run_of_subagent().await;
        let listed = site.store.search_threads(ThreadQuery::default()).await.unwrap();
        assert_eq!(listed.iter().map(|row| &*row.id).collect::<Vec<_>>(), ["t"]);
    })
    .await;
}

#[tokio::test]
async fn subagent_continues_whenever_its_start_is_stored() {
    on_each_store(async |site| {
        site.start_worker(|worker| worker);
        for durability in [Durability::Sync, Durability::Exit] {
            site.turn_storing("Dig.", durability).await;
            site.mine.gate.add_permits(1);
            let run = site.only_run_of_subagent().await;
            let run = site.ended(&run).await;
            assert_eq!(run.output.unwrap()["values"]["status"], json!("reported"), "{durability:?}");
            assert!(site.store.remove_thread("t").await.unwrap());
        }
    })
    .await;
}

#[tokio::test]
async fn another_worker_continues_the_subagent_of_a_dead_one() {
    on_each_store(async |site| {
        site.turn("Dig.").await;
        site.mine.works(1).await;
        site.kill_worker().await;
        site.start_worker(|worker| worker);
        site.mine.gate.add_permits(1);
        let run = site.only_run_of_subagent().await;
        assert_eq!(site.ended(&run).await.status, RunStatus::Success);
        assert_eq!(site.turn("And?").await[1], "`miner-1` reported.\ndone");
        assert_eq!(site.mine.dug(), 1);
    })
    .await;
}

#[tokio::test]
async fn deletion_of_the_thread_deletes_the_subagent_and_its_run() {
    on_each_store(async |site| {
        site.turn("Dig.").await;
        site.mine.works(1).await;
        let run = site.only_run_of_subagent().await;
        assert!(site.store.remove_thread("t").await.unwrap());
        site.stop_workers().await;
        assert!(site.store.runs(RunQuery::default()).await.unwrap().is_empty());
        let mut background = ThreadQuery::default();
        background.ids = Some(vec![run.thread.clone()]);
        assert!(site.store.search_threads(background).await.unwrap().is_empty());
        assert!(site.store.list(ListQuery::default()).await.unwrap().is_empty());
        assert_eq!(site.mine.dug(), 0);
    })
    .await;
}

#[tokio::test]
async fn rollback_keeps_the_subagents_of_earlier_turns_running() {
    on_each_store(async |site| {
        site.turn("Dig.").await;
        let run = site.only_run_of_subagent().await;
        site.store.cancel_runs(&run.thread, &[run.id], Cancel::Interrupt).await.unwrap();
        assert_eq!(site.ended(&run).await.status, RunStatus::Interrupted);
        // This turn continues the subagent itself.
        let waits = site.start_turn("Wait.", Durability::Async).await;
        site.mine.works(1).await;
        site.store.cancel_runs("t", &[waits.id], Cancel::Rollback).await.unwrap();
        while site.store.run(waits.id).await.unwrap().is_some_and(|run| run.status.is_live()) {
            tokio::task::yield_now().await;
        }
        site.mine.gate.add_permits(1);
        let [again, before] = &site.runs_of_subagents().await[..] else { panic!("another run continues it") };
        assert_eq!(before.id, run.id);
        assert_eq!(site.ended(again).await.status, RunStatus::Success);
        assert_eq!(site.turn("And?").await[1], "`miner-1` reported.\ndone");
        assert_eq!(site.mine.dug(), 1);
    })
    .await;
}

#[tokio::test]
async fn callers_cannot_name_a_background_thread() {
    let store: Arc<dyn RunStore> = Arc::new(MemoryRuns::new());
    let new = NewRun::new("t/background/x", "foreman", Request::input(Value::Null)).create_thread();
    let refused = store.create_run(new).await.expect_err("it belongs to `t`");
    assert!(refused.to_string().contains("t/background/x"), "{refused}");
}

/// A worker with one slot executes the run of the subagent first.
#[tokio::test]
async fn run_of_a_subagent_frees_the_slot_that_its_supervisor_needs() {
    on_each_store(async |site| {
        site.stop_workers().await;
        let turn = site.start_turn("And?", Durability::Async).await;
        let claim = RunClaim::new("another worker", Duration::from_mins(1), ["foreman"]);
        let claimed = site.store.claim_run(claim).await.unwrap().expect("the run of the supervisor");
        let mut request = Request::default();
        request.detached = true;
        let waits = NewRun::new("t/background/miner-1", "foreman", request).create_thread();
        let waits = site.store.create_run(waits).await.unwrap();
        site.start_worker(|worker| worker.concurrency(1));
        while site.store.run(waits.id).await.unwrap().expect("the run").status != RunStatus::Running {
            tokio::task::yield_now().await;
        }
        site.store.requeue(&claimed.lease, turn.id).await.unwrap();
        for run in [turn, waits] {
            let ended = tokio::time::timeout(Duration::from_mins(1), site.ended(&run)).await.expect("it has a slot");
            assert_eq!((ended.status, ended.attempts), (RunStatus::Success, 1));
        }
    })
    .await;
}
