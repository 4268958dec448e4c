//! Replaced keys, and rows that were moved between databases.
#![cfg(feature = "encryption")]

mod kit;

use std::time::Duration;

use hier_core::checkpoint::{Checkpoint, Checkpointer, Claim, Inbox, InboxMessage, ListQuery, Prune, SaverError};
use hier_core::runs::{
    Document, EventQuery, LogEvent, NewEvent, NewRun, Request, RunClaim, RunCommit, RunEnd, RunQuery, RunStatus,
    RunStore, ThreadIndex, ThreadStatus,
};
use hier_postgres::Key;
use hier_sqlite::{Sqlite, SqliteOptions};
use rusqlite::Connection;
use uuid::Uuid;

fn key(number: u8) -> Key {
    Key::new([number; 32])
}

fn with(number: u8) -> SqliteOptions {
    Sqlite::options().encrypt(&key(number))
}

/// Stores a checkpoint with a value and a write.
async fn store(saver: &impl Checkpointer, thread: &str) -> Checkpoint {
    let lease = saver.acquire(thread, Claim::default()).await.expect("the thread");
    let (checkpoint, record) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    let write = kit::write(checkpoint.id, 0, b"written");
    saver.commit(&lease, vec![record, write].into()).await.expect("a commit");
    saver.release(&lease).await.expect("a release");
    checkpoint
}

/// Everything that was stored is read.
async fn reads(saver: &impl Checkpointer, thread: &str, checkpoint: &Checkpoint) {
    let latest = saver.get(thread, "", None).await.expect("a readable row").expect("the latest");
    assert_eq!(&latest.checkpoint, checkpoint);
    assert_eq!(latest.values[0].1.full.as_deref(), Some(&b"value"[..]));
    assert_eq!(latest.writes[0].writes[0].value, b"written");
}

fn is_damage<T: std::fmt::Debug>(result: Result<T, SaverError>) {
    match result {
        Err(SaverError::Damaged { .. }) => {}
        other => panic!("{other:?}"),
    }
}

async fn replaces_its_key<S: Checkpointer>(
    open: impl AsyncFn(&Key, Option<&Key>) -> S,
    reencrypt: impl AsyncFn(&S) -> Result<u64, SaverError>,
) {
    let (old, new) = (key(1), key(2));
    let first = store(&open(&old, None).await, "first").await;
    is_damage(open(&new, None).await.get("first", "", None).await);
    // Both are read, and the new one writes.
    let both = open(&new, Some(&old)).await;
    reads(&both, "first", &first).await;
    let second = store(&both, "second").await;
    is_damage(open(&old, None).await.get("second", "", None).await);
    for _ in 0..2 {
        assert_eq!(reencrypt(&both).await.expect("all of it"), 2);
    }
    let after = open(&new, None).await;
    reads(&after, "first", &first).await;
    reads(&after, "second", &second).await;
    is_damage(open(&old, None).await.get("first", "", None).await);
}

#[tokio::test]
async fn key_of_a_file_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let open = async |write: &Key, read: Option<&Key>| {
        let options = Sqlite::options().encrypt(write);
        read.map_or(options.clone(), |read| options.decrypt_with(read)).open(&path).await.expect("the file")
    };
    replaces_its_key(open, Sqlite::reencrypt).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn key_of_a_server_is_replaced() {
    use hier_postgres::Postgres;
    let url = kit::server::server();
    let open = async |write: &Key, read: Option<&Key>| {
        let options = Postgres::options().schema("keys").encrypt(write);
        let options = read.map_or(options.clone(), |read| options.decrypt_with(read));
        let saver = options.connect(&url).await.expect("the server");
        saver.migrate().await.expect("tables");
        saver
    };
    replaces_its_key(open, Postgres::reencrypt).await;
}

/// One file with two threads, one of them of another key: what cannot be read stops nothing.
#[tokio::test]
async fn unreadable_rows_do_not_stop_maintenance() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    continues(async |number| with(number).open(&path).await.expect("the file"), Sqlite::reencrypt).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn unreadable_rows_do_not_stop_maintenance_of_a_server() {
    use hier_postgres::Postgres;
    let url = kit::server::server();
    let open = async |number| {
        let saver =
            Postgres::options().schema("goes_on").encrypt(&key(number)).connect(&url).await.expect("the server");
        saver.migrate().await.expect("tables");
        saver
    };
    continues(open, Postgres::reencrypt).await;
}

async fn continues<S: Checkpointer>(
    open: impl AsyncFn(u8) -> S,
    reencrypt: impl AsyncFn(&S) -> Result<u64, SaverError>,
) {
    let (foreign, own) = (open(1).await, open(2).await);
    for thread in ["a", "c"] {
        store(&foreign, thread).await;
    }
    for _ in 0..3 {
        store(&own, "b").await;
    }
    let received = |result: Result<u64, SaverError>| {
        let error = result.expect_err("an unreadable row is an error").to_string();
        assert!(
            error.contains("`a`") && error.contains("`c`") && error.contains("the other threads were processed"),
            "{error}"
        );
    };
    let listed = own.admin().expect("administration").threads(None).await.expect("all of them");
    let mut names: Vec<_> = listed.iter().map(|info| (&*info.thread, info.latest.is_some())).collect();
    names.sort_unstable();
    assert_eq!(names, [("a", false), ("b", true), ("c", false)]);
    received(own.admin().expect("administration").prune(Prune::default()).await);
    assert_eq!(own.list(ListQuery::thread("b")).await.expect("a list").len(), 1);
    received(own.admin().expect("administration").delete_for_runs(&["run".to_owned()]).await.map(|()| 0));
    received(reencrypt(&own).await);
}

/// Rows of the runs of another key stay as they are; those of the old key are sealed with the new one.
async fn goes_past_rows<S: RunStore>(
    open: impl AsyncFn(u8, Option<u8>) -> S,
    reencrypt: impl AsyncFn(&S) -> Result<u64, SaverError>,
) {
    let (foreign, old) = (open(1, None).await, open(2, None).await);
    let mut runs = Vec::new();
    for (store, name) in [(&foreign, "theirs"), (&old, "ours")] {
        let run = NewRun::new(name, "desk", Request::default()).create_thread();
        runs.push(store.driver().create_run(run).await.expect("a run").id);
        let note = Document::new("note", name, serde_json::json!({ "n": 1 }));
        assert!(store.driver().put_document(note, None).await.expect("a document"));
    }
    let claim = RunClaim::new("desk 1", Duration::from_mins(1), ["desk".to_owned()]);
    let claimed = old.driver().claim_run(claim).await.expect("a readable row").expect("the run");
    let index = ThreadIndex::new(ThreadStatus::Idle).values(serde_json::json!({ "n": 1 }));
    let event =
        NewEvent::new(Some(claimed.run.id), LogEvent::Custom { node: "node".to_owned(), value: serde_json::json!(1) });
    let settlement = RunCommit::events(vec![event]).index(index).end(RunEnd::new(claimed.run.id, RunStatus::Success));
    old.driver().commit_run(&claimed.lease, settlement).await.expect("its end");

    let both = open(3, Some(2)).await;
    for _ in 0..2 {
        let error = reencrypt(&both).await.expect_err("an unreadable row is an error").to_string();
        for part in ["row `theirs` of `run_threads`", "2 more rows cannot be read", "the other rows were processed"] {
            assert!(error.contains(part), "{error}");
        }
    }
    let new = open(3, None).await;
    let thread = new.driver().thread("ours").await.expect("a readable row").expect("the thread");
    assert_eq!(thread.values, Some(serde_json::json!({ "n": 1 })));
    assert!(new.driver().run(runs[1]).await.expect("a readable row").is_some());
    assert!(new.driver().document("note", "ours").await.expect("a readable row").is_some());
    assert!(!new.driver().events(EventQuery::after("ours", 0)).await.expect("a readable row").events.is_empty());
    old.driver().thread("ours").await.expect_err("it is sealed with the new key");
    // Skipped rows are unchanged.
    assert!(foreign.driver().thread("theirs").await.expect("a readable row").is_some());
    assert!(foreign.driver().run(runs[0]).await.expect("a readable row").is_some());
}

#[tokio::test]
async fn unreadable_row_does_not_block_key_replacement() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let open = async |write: u8, read: Option<u8>| {
        let options = read.map_or(with(write), |read| with(write).decrypt_with(&key(read)));
        options.open(&path).await.expect("the file")
    };
    goes_past_rows(open, Sqlite::reencrypt).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn unreadable_row_does_not_block_key_replacement_on_a_server() {
    use hier_postgres::Postgres;
    let url = kit::server::server();
    let open = async |write: u8, read: Option<u8>| {
        let options = Postgres::options().schema("goes_past_rows").encrypt(&key(write));
        let options = read.map_or(options.clone(), |read| options.decrypt_with(&key(read)));
        let saver = options.connect(&url).await.expect("the server");
        saver.migrate().await.expect("tables");
        saver
    };
    goes_past_rows(open, Postgres::reencrypt).await;
}

/// The same thread, checkpoint and key, in another database.
#[tokio::test]
async fn row_of_another_database_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, other) = (folder.path().join("desk.db"), folder.path().join("other.db"));
    let saver = with(1).open(&path).await.expect("a new file");
    let checkpoint = store(&saver, "t").await;
    saver.close().await.expect("a close");
    std::fs::copy(&path, &other).expect("a copy");
    reads(&with(1).open(&other).await.expect("the copy"), "t", &checkpoint).await;
    // As if its rows had been put into another database.
    Connection::open(&other)
        .and_then(|db| db.execute_batch("update identity set id = randomblob(16)"))
        .expect("a change");
    is_damage(with(1).open(&other).await.expect("the file").get("t", "", None).await);
}

/// Rows that are moved under another key than the one that they were written for: without the key of the database that takes an
/// `update` only.
#[tokio::test]
async fn rows_of_runs_that_were_moved_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = with(1).open(&path).await.expect("a new file");
    for name in ["alice", "bob"] {
        saver.driver().create_run(NewRun::new(name, "desk", Request::default()).create_thread()).await.expect("a run");
        let signal = InboxMessage::signal(Uuid::from_u128(7), "approved", b"yes".to_vec());
        assert!(saver.post(name, "desk", signal).await.expect("a letter").is_new());
    }
    let change = |sql: &str| Connection::open(&path).and_then(|db| db.execute_batch(sql)).expect("a change");
    let mut query = RunQuery::default();
    query.thread = Some("alice".to_owned());
    let runs = || saver.driver().runs(query.clone());
    assert_eq!(runs().await.expect("a readable row").len(), 1);
    change("update runs set thread = case thread when 'alice' then 'bob' else 'alice' end");
    let error = runs().await.expect_err("it is bob's").to_string();
    assert!(error.contains("contains a run of another thread"), "{error}");
    let next = NewRun::new("alice", "desk", Request::default());
    let error = saver.driver().create_run(next).await.expect_err("it is bob's").to_string();
    assert!(error.contains("contains a run of another thread") && error.contains("alice"), "{error}");
    change("update mail set signal = 'rejected' where thread = 'alice'");
    is_damage(saver.messages("alice").await);
    assert_eq!(saver.messages("bob").await.expect("a readable row").len(), 1);
}

/// A program that ends normally leaves a single file.
#[tokio::test]
async fn last_handle_checkpoints_the_wal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = with(1).open(&path).await.expect("a new file");
    let other = saver.clone();
    let checkpoint = store(&saver, "t").await;
    reads(&saver, "t", &checkpoint).await;
    drop(saver);
    let files = || std::fs::read_dir(folder.path()).expect("a folder").count();
    assert!(files() > 1, "another handle has it open");
    drop(other);
    assert_eq!(files(), 1);
    reads(&with(1).open(&path).await.expect("the file"), "t", &checkpoint).await;
}
