//! The memory of a search for threads by their values, and of a copy of a thread.
//!
//! Postgres needs a server: `scripts/postgres.sh test -p hier-postgres`.

#![cfg(target_os = "linux")]

mod kit;

use std::time::Duration;

use hier_core::checkpoint::{Claim, ListQuery, Listed};
use hier_core::runs::{
    NewRun, NewThread, Request, RunClaim, RunCommit, RunEnd, RunStatus, RunStore, ThreadIndex, ThreadQuery,
    ThreadStatus,
};
use hier_postgres::Postgres;
use hier_sqlite::Sqlite;
use serde_json::json;
use tokio::sync::Mutex;

/// The tests measure the memory of this process, so only one of them runs at a time.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The number of kilobytes in a line of this process's status.
fn kilobytes(of: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(of)).expect("the line");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of kilobytes")
}

/// 48 MB of values match, but only those of the result are in memory together.
async fn searches_in_bounded_memory(store: &impl RunStore) {
    let _alone = ALONE.lock().await;
    let text = "x".repeat(512 << 10);
    for number in 0..96 {
        let new = NewRun::new(format!("thread-{number:03}"), "desk", Request::default()).create_thread();
        let run = store.driver().create_run(new).await.expect("a run");
        let claim = RunClaim::new("worker", Duration::from_mins(1), ["desk"]);
        let lease = store.driver().claim_run(claim).await.expect("a claim").expect("the run").lease;
        let index =
            ThreadIndex::new(ThreadStatus::Idle).values(json!({ "kind": "a", "number": number, "text": &text }));
        let end = RunEnd::new(run.id, RunStatus::Success);
        store.driver().commit_run(&lease, RunCommit::default().index(index).end(end)).await.expect("its end");
    }
    let mut query = ThreadQuery::default();
    query.values = json!({ "kind": "a" }).as_object().cloned().expect("an object");
    (query.limit, query.offset) = (2, 1);
    // From now on the peak is counted anew.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux takes it");
    let before = kilobytes("VmRSS:");
    let found = store.driver().search_threads(query.clone()).await.expect("a search");
    let grown = kilobytes("VmHWM:").saturating_sub(before);
    let ids: Vec<&str> = found.iter().map(|thread| &*thread.id).collect();
    assert_eq!(ids, ["thread-094", "thread-093"]);
    assert_eq!(found[0].values.as_ref().map(|values| &values["number"]), Some(&json!(94)));
    assert!(grown < 24 << 10, "{grown} KB more");
    query.values.insert("number".to_owned(), json!(7));
    (query.offset, query.with_values) = (0, false);
    let found = store.driver().search_threads(query).await.expect("a search");
    assert_eq!(found.iter().map(|thread| (&*thread.id, &thread.values)).collect::<Vec<_>>(), [("thread-007", &None)]);
}

/// Copies a thread of 72 MB, of which only a part is in memory at a time.
async fn copies_in_bounded_memory(store: &impl RunStore) {
    let _alone = ALONE.lock().await;
    store.driver().create_thread(NewThread::new("long")).await.expect("a thread");
    let lease = store.acquire("long", Claim::default()).await.expect("the thread");
    let (value, mut last) = (vec![b'x'; 512 << 10], None);
    for _ in 0..48 {
        let (next, record) =
            kit::next(last.as_ref(), &[(0, last.is_some(), value.clone()), (1, false, value.clone())], 2);
        let write = kit::write(next.id, 0, &value);
        store.commit(&lease, vec![record, write].into()).await.expect("a commit");
        last = Some(next);
    }
    store.release(&lease).await.expect("the lease");
    // From now on the peak is counted anew.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux takes it");
    let before = kilobytes("VmRSS:");
    store.driver().clone_thread("long", NewThread::new("copy")).await.expect("a copy");
    let grown = kilobytes("VmHWM:").saturating_sub(before);
    assert!(grown < 24 << 10, "{grown} KB more");
    let (wanted, found) = (store.get("long", "", None).await, store.get("copy", "", None).await);
    assert!(found.expect("a read") == wanted.expect("a read"), "the last checkpoint");
    let count = |listed: Vec<Listed>| listed.len();
    assert_eq!(store.list(ListQuery::thread("copy")).await.map(count).expect("a list"), 48);
}

#[tokio::test]
async fn search_in_a_file_uses_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    searches_in_bounded_memory(&Sqlite::open(folder.path().join("desk.db")).await.expect("a new file")).await;
}

#[tokio::test]
async fn copy_in_a_file_uses_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    copies_in_bounded_memory(&Sqlite::open(folder.path().join("desk.db")).await.expect("a new file")).await;
}

#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn copy_in_postgres_uses_bounded_memory() {
    let store = Postgres::options().schema("copy_memory").connect(&kit::server::server()).await.expect("the server");
    store.migrate().await.expect("tables");
    copies_in_bounded_memory(&store).await;
}

#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn search_in_postgres_uses_bounded_memory() {
    let store = Postgres::options().schema("search_memory").connect(&kit::server::server()).await.expect("the server");
    store.migrate().await.expect("tables");
    searches_in_bounded_memory(&store).await;
}
