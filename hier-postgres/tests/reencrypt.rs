//! A key that is replaced where there is much of everything: a page at a time.
#![cfg(feature = "encryption")]

mod kit;

use std::time::Duration;

use hier_core::checkpoint::SaverError;
use hier_core::runs::{
    Document, EventQuery, LogEvent, NewEvent, NewRun, NewThread, Request, RunClaim, RunCommit, RunEnd, RunStatus,
    RunStore, ThreadIndex, ThreadStatus,
};
use hier_postgres::Key;
use hier_sqlite::{Sqlite, SqliteOptions};
use serde_json::json;

/// More than a page has.
const MANY: u64 = 1_100;

fn with(number: u8) -> SqliteOptions {
    Sqlite::options().encrypt(&Key::new([number; 32]))
}

fn run_of(thread: String, input: String) -> NewRun {
    let mut request = Request::default();
    request.input = input.into();
    NewRun::new(thread, "desk", request).create_thread()
}

/// Rows of each kind: more than a page of threads, events and documents, a page of them of another key.
async fn fill<S: RunStore>(old: &S, foreign: &S) {
    for number in 0..MANY {
        for (store, name) in [(old, "ours"), (foreign, "theirs")] {
            let note = Document::new("note", format!("{name}-{number:05}"), json!({ "n": number }));
            assert!(store.driver().put_document(note, None).await.expect("a document"));
        }
        old.driver().create_thread(NewThread::new(format!("thread-{number:05}"))).await.expect("a thread");
    }
    old.driver().create_run(run_of("busy".to_owned(), "input".to_owned())).await.expect("a run");
    let claim = RunClaim::new("desk 1", Duration::from_mins(1), ["desk".to_owned()]);
    let claimed = old.driver().claim_run(claim).await.expect("a readable row").expect("the run");
    let events = (0..MANY)
        .map(|number| {
            NewEvent::new(Some(claimed.run.id), LogEvent::Custom { node: "node".to_owned(), value: json!(number) })
        })
        .collect();
    let index = ThreadIndex::new(ThreadStatus::Idle).values(json!({ "n": 1 }));
    let settlement = RunCommit::events(events).index(index).end(RunEnd::new(claimed.run.id, RunStatus::Success));
    old.driver().commit_run(&claimed.lease, settlement).await.expect("its end");
}

async fn seals_all_pages<S: RunStore>(
    open: impl AsyncFn(u8, Option<u8>) -> S,
    reencrypt: impl AsyncFn(&S) -> Result<u64, SaverError>,
) {
    let (foreign, old) = (open(1, None).await, open(2, None).await);
    fill(&old, &foreign).await;
    let error = reencrypt(&open(3, Some(2)).await).await.expect_err("an unreadable row is an error").to_string();
    assert!(error.contains(&format!("{} more rows cannot be read", MANY - 1)), "{error}");
    assert!(error.contains("theirs-00000") && error.contains("theirs-00010"), "{error}");

    let new = open(3, None).await;
    assert_eq!(new.driver().documents("note").await.expect("a readable row").len() as u64, MANY);
    let mut query = EventQuery::after("busy", 0);
    query.limit = usize::MAX;
    let page = new.driver().events(query).await.expect("a readable row");
    let received = page.events.iter().filter(|event| event.event.mode() == "custom").count() as u64;
    assert_eq!(received, MANY);
    for number in [0, MANY / 2, MANY - 1] {
        assert!(new.driver().thread(&format!("thread-{number:05}")).await.expect("a readable row").is_some());
    }
    assert_eq!(new.driver().thread("busy").await.expect("it").expect("the thread").values, Some(json!({ "n": 1 })));
    assert_eq!(foreign.driver().documents("note").await.expect("a readable row").len() as u64, MANY);
}

#[tokio::test]
async fn every_page_of_a_file_is_reencrypted() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let open = async |write: u8, read: Option<u8>| {
        let options = read.map_or(with(write), |read| with(write).decrypt_with(&Key::new([read; 32])));
        options.open(&path).await.expect("the file")
    };
    seals_all_pages(open, Sqlite::reencrypt).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn every_page_of_a_server_is_reencrypted() {
    use hier_postgres::Postgres;
    let url = kit::server::server();
    let open = async |write: u8, read: Option<u8>| {
        let options = Postgres::options().schema("seals_all_pages").encrypt(&Key::new([write; 32]));
        let options = read.map_or(options.clone(), |read| options.decrypt_with(&Key::new([read; 32])));
        let saver = options.connect(&url).await.expect("the server");
        saver.migrate().await.expect("tables");
        saver
    };
    seals_all_pages(open, Postgres::reencrypt).await;
}

/// The number of kilobytes in a line of this process's status.
#[cfg(target_os = "linux")]
fn kilobytes(of: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find(|line| line.starts_with(of)).expect("the line");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number of kilobytes")
}

/// 96 MB of rows are never in memory together. Without a key, which changes nothing but how long it takes.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn reencryption_uses_bounded_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = Sqlite::open(folder.path().join("desk.db")).await.expect("a new file");
    for number in 0..96 {
        store.driver().create_run(run_of(format!("thread-{number}"), "x".repeat(1 << 20))).await.expect("a run");
    }
    // From now on the peak is counted anew.
    std::fs::write("/proc/self/clear_refs", "5").expect("Linux takes it");
    let before = kilobytes("VmRSS:");
    store.reencrypt().await.expect("all of it");
    let grown = kilobytes("VmHWM:").saturating_sub(before);
    // A page of rows, its encrypted form, and the overhead of SQLite.
    assert!(grown < 48 << 10, "{grown} KB more");
}
