//! Rollbacks keep what earlier runs have stored, at every moment of the run that is rolled back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, SaverLayer};
use hier_core::runs::{Cancel, Changed, MemoryRuns, RunStore, RunsError, ThreadAction, ThreadChange};
use hier_core::store::MemoryStore;
use hier_testkit::{Layered, RunsLayer};
use serde_json::{Value, json};

use crate::graphs::server;
use crate::support::{Desk, open};

/// A store that receives the rollback of a run just before the end of this run.
struct LateRollback {
    runs: Arc<dyn RunStore>,
    is_armed: AtomicBool,
}

#[async_trait]
impl SaverLayer for LateRollback {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &*self.runs
    }
}

#[async_trait]
impl RunsLayer for LateRollback {
    fn runs_store(&self) -> &dyn RunStore {
        &*self.runs
    }

    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        if let ThreadAction::Commit(_, commit) = &change.action
            && let Some(end) = &commit.end
            && self.is_armed.swap(false, Ordering::SeqCst)
        {
            let cancelled = self.runs.cancel_runs(&change.thread, &[end.run], Cancel::Rollback).await?;
            assert_eq!(cancelled.len(), 1, "the caller learns that the run was cancelled");
        }
        self.runs.run_backend().change(change).await
    }
}

async fn ending_run_is_rolled_back(runs: Arc<dyn RunStore>) {
    let store = Arc::new(Layered(LateRollback { runs, is_armed: AtomicBool::new(false) }));
    let desk: Desk = open(server().storage(store.clone(), Arc::new(MemoryStore::default()))).await;
    for graph in ["two", "hitl", "boom"] {
        for durability in ["sync", "async", "exit"] {
            let path = format!("/threads/{}", desk.thread().await);
            let body = json!({ "assistant_id": graph, "input": { "n": 1.0 }, "durability": durability });
            desk.post(&format!("{path}/runs/wait"), body.clone()).await;
            let before = (desk.get(&path).await.1, desk.get(&format!("{path}/state")).await.1);
            store.is_armed.store(true, Ordering::SeqCst);
            let (status, ended) = desk.post(&format!("{path}/runs/wait"), body).await;
            assert_eq!((status, ended), (200, json!({})), "{graph}, {durability}: the run no longer exists");
            assert_eq!(desk.get(&format!("{path}/runs")).await.1.as_array().map(Vec::len), Some(1), "{graph}");
            let (_, state) = desk.get(&format!("{path}/state")).await;
            assert_eq!(state, before.1, "{graph}, {durability}");
            let (_, thread) = desk.get(&path).await;
            for field in ["status", "values", "interrupts"] {
                assert_eq!(thread[field], before.0[field], "{graph}, {durability}: {field}");
            }
        }
    }
    desk.stop().await;
}

#[tokio::test]
async fn run_that_ends_while_it_is_cancelled_is_rolled_back() {
    ending_run_is_rolled_back(Arc::new(MemoryRuns::new())).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn run_that_ends_while_it_is_cancelled_is_rolled_back_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = hier_sqlite::Sqlite::open(folder.path().join("runs.db")).await.expect("a database");
    ending_run_is_rolled_back(Arc::new(runs)).await;
}

#[cfg(feature = "postgres")]
#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn run_that_ends_while_it_is_cancelled_is_rolled_back_on_postgres() {
    let url = std::env::var("HIER_TEST_POSTGRES").expect("the URL of a server: run it with scripts/postgres.sh");
    let runs = hier_postgres::Postgres::options().connect(&url).await.expect("a database");
    runs.migrate().await.expect("tables");
    ending_run_is_rolled_back(Arc::new(runs)).await;
}

/// The prune keeps the latest checkpoint of the run in progress, and the checkpoint to which a rollback returns.
async fn pruned_thread_is_rolled_back(runs: Arc<dyn RunStore>) {
    let desk: Desk = open(server().storage(runs, Arc::new(MemoryStore::default()))).await;
    let thread = desk.thread().await;
    let path = format!("/threads/{thread}");
    let body = |n: f64| json!({ "assistant_id": "slow", "input": { "n": n }, "durability": "sync" });
    desk.post(&format!("{path}/runs/wait"), body(0.0)).await;
    let (_, before) = desk.get(&format!("{path}/state")).await;
    let (_, run) = desk.post(&format!("{path}/runs"), body(600.0)).await;
    while desk.get(&format!("{path}/state")).await.1["values"]["log"].as_array().map(Vec::len) != Some(3) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let prune = json!({ "thread_ids": [thread], "strategy": "keep_latest" });
    assert_eq!(desk.post("/threads/prune", prune).await, (200, json!({ "pruned_count": 1 })));
    let (_, history) = desk.post(&format!("{path}/history"), json!({ "limit": 10 })).await;
    assert_eq!(history.as_array().map(Vec::len), Some(2), "{history}");
    let run = run["run_id"].as_str().expect("an id");
    let cancel = format!("{path}/runs/{run}/cancel?wait=1&action=rollback");
    assert_eq!(desk.post(&cancel, Value::Null).await, (200, json!({})));
    let (_, after) = desk.get(&format!("{path}/state")).await;
    assert_eq!((&after["values"], &after["next"]), (&before["values"], &before["next"]));
    desk.stop().await;
}

#[tokio::test]
async fn run_of_a_pruned_thread_is_rolled_back_to_the_state_before_it() {
    pruned_thread_is_rolled_back(Arc::new(MemoryRuns::new())).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn run_of_a_pruned_thread_is_rolled_back_to_the_state_before_it_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let runs = hier_sqlite::Sqlite::open(folder.path().join("runs.db")).await.expect("a database");
    pruned_thread_is_rolled_back(Arc::new(runs)).await;
}
