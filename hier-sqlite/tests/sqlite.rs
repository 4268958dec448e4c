//! The saver in SQLite keeps the contract, in every form in which it stores.

mod kit;

use hier_core::checkpoint::{Checkpointer, Claim};
use hier_sqlite::{Sqlite, SqliteOptions};
use hier_testkit::checkpoint::{self as suite, Report};

async fn report(options: SqliteOptions) -> Report {
    let folder = tempfile::tempdir().expect("a folder");
    let mut report = Report::default();
    for (number, case) in suite::cases().enumerate() {
        let path = folder.path().join(format!("{number}.db"));
        let saver = options.clone().open(path).await.expect("a new file");
        report.results.push((case, case.run(saver).await));
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn file_keeps_the_contract() {
    let report = report(Sqlite::options()).await;
    assert!(report.passed(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn memory_keeps_the_contract() {
    let report = suite::run_suite(Sqlite::in_memory).await;
    assert!(report.passed(), "{report}");
}

#[cfg(feature = "compression")]
#[tokio::test(flavor = "multi_thread")]
async fn compressed_file_keeps_the_contract() {
    let report = report(Sqlite::options().compress()).await;
    assert!(report.passed(), "{report}");
}

#[cfg(all(feature = "compression", feature = "encryption"))]
#[tokio::test(flavor = "multi_thread")]
async fn encrypted_and_compressed_file_keeps_the_contract() {
    let report = report(Sqlite::options().compress().encrypt(&hier_sqlite::Key::new([7; 32]))).await;
    assert!(report.passed(), "{report}");
}

/// As processes do that are started together.
#[tokio::test(flavor = "multi_thread")]
async fn new_file_can_be_opened_by_many_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    for number in 0..10 {
        let path = folder.path().join(format!("{number}.db"));
        let mut opening = tokio::task::JoinSet::new();
        for _ in 0..16 {
            let path = path.clone();
            opening.spawn(async move { Sqlite::open(path).await.map(|_| ()) });
        }
        for opened in opening.join_all().await {
            opened.expect("the file");
        }
    }
}

/// The checkpoint and its values share a page. The other page is the index.
#[tokio::test(flavor = "multi_thread")]
async fn commit_of_a_step_writes_two_pages() {
    const STEPS: u64 = 100;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::open(&path).await.expect("a new file");
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    let (mut last, first) = kit::next(None, &[(0, false, b"value".to_vec())], 1);
    saver.commit(&lease, vec![first].into()).await.expect("a commit");
    let log = || std::fs::metadata(path.with_extension("db-wal")).expect("the log").len();
    let before = log();
    for _ in 0..STEPS {
        let (next, record) = kit::next(Some(&last), &[(0, false, b"value".to_vec())], 1);
        saver.commit(&lease, vec![record].into()).await.expect("a commit");
        last = next;
    }
    // A page of the log has a header of 24 bytes. A full page is followed by a new one, which changes others.
    let pages = (log() - before) / (8_192 + 24);
    assert!((2 * STEPS..2 * STEPS + STEPS / 4).contains(&pages), "{pages} pages for {STEPS} steps");
}

async fn runs_report(options: SqliteOptions) -> hier_testkit::runs::Report {
    let folder = tempfile::tempdir().expect("a folder");
    let mut report = hier_testkit::runs::Report::default();
    for (number, case) in hier_testkit::runs::cases().enumerate() {
        let path = folder.path().join(format!("{number}.db"));
        let store = options.clone().open(path).await.expect("a new file");
        report.results.push((case, case.run(store).await));
    }
    report
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_a_file_keep_the_contract() {
    let report = runs_report(Sqlite::options()).await;
    assert!(report.passed(), "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_memory_keep_the_contract() {
    let report = hier_testkit::runs::run_suite(Sqlite::in_memory).await;
    assert!(report.passed(), "{report}");
}

#[cfg(all(feature = "compression", feature = "encryption"))]
#[tokio::test(flavor = "multi_thread")]
async fn runs_in_an_encrypted_and_compressed_file_keep_the_contract() {
    let report = runs_report(Sqlite::options().compress().encrypt(&hier_sqlite::Key::new([7; 32]))).await;
    assert!(report.passed(), "{report}");
}
