//! A process is killed while its question is open, and another one answers.

use std::path::Path;
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use hier_agents::prelude::*;
use hier_sqlite::Sqlite;

use super::{Desk, DeskQuestion, Ledger, answer};

/// The variable with the file of the process that is killed.
const FILE: &str = "HIER_QUESTIONS_FILE";

#[tokio::test]
#[ignore = "a process that other tests start"]
async fn child_process() {
    let file = std::env::var(FILE).expect("started by the test below");
    let desk = Desk::compile().checkpointer(Sqlite::open(&file).await.unwrap());
    let out = desk.invoke(Ledger::update().amounts([50, 500])).thread("t").await.unwrap();
    std::fs::write(
        Path::new(&file).with_extension("asked"),
        out.questions::<DeskQuestion>().unwrap().len().to_string(),
    )
    .unwrap();
    std::future::pending::<()>().await;
}

fn start(file: &Path) -> Child {
    let program = std::env::current_exe().unwrap();
    let arguments = ["kill::child_process", "--exact", "--ignored", "--nocapture"];
    Process::new(program).args(arguments).env(FILE, file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[tokio::test]
async fn questions_outlive_the_process_that_asked() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("desk.db");
    let mut process = start(&file);
    let begun = Instant::now();
    while !file.with_extension("asked").exists() {
        assert!(begun.elapsed() < Duration::from_mins(1), "it does not ask");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.kill().unwrap();
    process.wait().unwrap();

    let desk = Desk::compile().checkpointer(Sqlite::open(&file).await.unwrap());
    let open: Vec<DeskQuestion> = desk.state("t").await.unwrap().questions().unwrap();
    assert_eq!(open.len(), 3);
    let answers: Vec<_> = open.iter().map(answer).collect();
    let out = desk.invoke(answers).thread("t").await.unwrap();
    let mut log = out.state().log.clone();
    log.sort();
    assert_eq!(log, ["from main", "paid 50", "refused 500: too much"]);
}
