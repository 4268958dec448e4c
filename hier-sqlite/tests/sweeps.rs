//! Deletion of expired and old data in separate transactions, so that other writers wait only briefly.
//!
//! In each test, the file refuses to delete a part of the data. The parts before it are deleted nevertheless.

mod kit;

use std::path::Path;
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Claim, ThreadAdmin};
use hier_core::runs::{EventQuery, NewRun, NewThread, Request, RunClaim, RunStore};
use hier_core::store::{Store, StoreExt, StoreOptions};
use hier_sqlite::{Sqlite, SqliteOptions, SqliteStore};
use rusqlite::Connection;
use serde_json::json;

/// Makes the file refuse to delete the rows of a table that meet a condition.
fn refuse(path: &Path, table: &str, condition: &str) {
    let trigger =
        format!("create trigger refuse before delete on {table} when {condition} begin select raise(abort, 'no'); end");
    Connection::open(path).and_then(|file| file.execute_batch(&trigger)).expect("a trigger");
}

fn count(path: &Path, table: &str) -> i64 {
    let file = Connection::open(path).expect("the file");
    file.query_row(&format!("select count(*) from {table}"), [], |row| row.get(0)).expect("a number")
}

#[tokio::test]
async fn each_expired_thread_is_swept_in_a_transaction_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::open(&path).await.expect("a new file");
    for thread in ["c", "b", "a"] {
        let claim = Claim { time_to_live: Some(Duration::ZERO), ..Claim::default() };
        let lease = saver.acquire(thread, claim).await.expect("the thread");
        saver.commit(&lease, vec![kit::next(None, &[], 1).1].into()).await.expect("a commit");
        saver.release(&lease).await.expect("the lease");
    }
    for thread in ["run b", "run a"] {
        let mut new = NewThread::new(thread);
        new.time_to_live = Some(Duration::ZERO);
        saver.driver().create_thread(new).await.expect("a thread");
    }
    refuse(&path, "threads", "old.name = 'b'");
    saver.sweep().await.expect_err("the thread `b` cannot be deleted");
    let left = saver.threads(None).await.expect("a list");
    assert_eq!(left.iter().map(|info| &*info.thread).collect::<Vec<_>>(), ["b", "c"]);
    Connection::open(&path).and_then(|file| file.execute_batch("drop trigger refuse")).expect("no trigger");
    assert_eq!(saver.sweep().await.expect("a sweep"), 4);
    assert_eq!((count(&path, "threads"), count(&path, "run_threads")), (0, 0));
}

#[tokio::test]
async fn expired_items_are_swept_in_several_transactions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let lives = StoreOptions::default().time_to_live(Duration::from_micros(1));
    let store = SqliteStore::open_with(&path, SqliteOptions::default(), lives).await.expect("a new file");
    for number in 0..1_100 {
        store.put(["a"], &number.to_string(), &json!({})).await.expect("a put");
    }
    refuse(&path, "store_items", "old.key = '1099'");
    store.sweep().await.expect_err("an item cannot be deleted");
    assert_eq!(count(&path, "store_items"), 100);
    Connection::open(&path).and_then(|file| file.execute_batch("drop trigger refuse")).expect("no trigger");
    assert_eq!(store.sweep().await.expect("a sweep"), 100);
    assert_eq!((count(&path, "store_items"), count(&path, "store_spaces")), (0, 0));
}

#[tokio::test]
async fn old_events_and_runs_are_deleted_in_several_transactions() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let store = Sqlite::open(&path).await.expect("a new file");
    for thread in ["a", "b"] {
        let new = NewRun::new(thread, "desk", Request::default()).create_thread();
        store.driver().create_run(new).await.expect("a run");
        let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
        store.driver().claim_run(claim).await.expect("a claim").expect("the run");
    }
    refuse(&path, "events", "old.thread = 'b'");
    store.driver().prune_runs(Duration::ZERO).await.expect_err("events cannot be deleted");
    let log = store.driver().events(EventQuery::after("a", 0)).await.expect("the log");
    assert!(log.events.is_empty() && log.gone > 0, "{log:?}");
    let file = Connection::open(&path).expect("the file");
    let runs = "drop trigger refuse;
        insert into runs (id, thread, number, status, ended, body)
        with recursive n (n) as (select 1 union all select n + 1 from n where n < 1100)
        select randomblob(16), 'c', n, 'success', n, x'' from n";
    file.execute_batch(runs).expect("ended runs");
    refuse(&path, "runs", "old.ended = 1100");
    store.driver().prune_runs(Duration::ZERO).await.expect_err("a run cannot be deleted");
    assert_eq!(count(&path, "runs"), 102);
    file.execute_batch("drop trigger refuse").expect("no trigger");
    assert_eq!(store.driver().prune_runs(Duration::ZERO).await.expect("a prune").runs, 100);
}
