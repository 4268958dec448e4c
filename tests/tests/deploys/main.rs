//! Deploys: threads of an old program meet a new one. Each verdict of a lock file is compared with the thread that is really resumed.

mod agents;
mod breaking;
mod harmless;
mod kit;
mod questions;
mod secrets;
mod states;
mod table;

use std::sync::Arc;

use std::sync::LazyLock;

use hier_core::checkpoint::Checkpointer;
use hier_sqlite::{Key, Sqlite};

use kit::Case;

static KEY: LazyLock<Key> = LazyLock::new(|| Key::new([7; 32]));

async fn check_all(cases: Vec<Case>) {
    let folder = tempfile::tempdir().unwrap();
    let mut failures = Vec::new();
    for case in cases {
        let file = if case.has_key { "protected.db" } else { "threads.db" };
        let options = if case.has_key { Sqlite::options().encrypt(&KEY) } else { Sqlite::options() };
        let saver: Arc<dyn Checkpointer> = Arc::new(options.open(folder.path().join(file)).await.unwrap());
        failures.extend(case.check(saver).await.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[tokio::test]
async fn breaking_changes_are_found_and_break() {
    let cases = breaking::cases();
    assert!(cases.len() >= 30, "{}", cases.len());
    check_all(cases).await;
}

#[tokio::test]
async fn harmless_changes_are_not_found_and_break_nothing() {
    let cases = harmless::cases();
    assert!(cases.len() >= 30, "{}", cases.len());
    check_all(cases).await;
}

/// Cases of every kind, with the threads in Postgres.
#[tokio::test]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn verdicts_hold_in_postgres() {
    let url = std::env::var("HIER_TEST_POSTGRES").expect("the URL of Postgres");
    let mut failures = Vec::new();
    let every = |cases: Vec<Case>| cases.into_iter().step_by(4);
    for (number, case) in every(breaking::cases()).chain(every(harmless::cases())).enumerate() {
        let schema = format!("deploys_{}_{number}", std::process::id());
        let options = hier_postgres::Postgres::options().schema(&schema);
        let options = if case.has_key { options.encrypt(&KEY) } else { options };
        let saver = options.connect(&url).await.unwrap();
        saver.migrate().await.unwrap();
        failures.extend(case.check(Arc::new(saver)).await.err());
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
