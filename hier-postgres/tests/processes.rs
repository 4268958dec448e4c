//! Two processes and one thread: a process that lost the thread stores nothing, a dead one is waited for, and
//! acknowledged data survives a kill.

mod kit;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hier_core::checkpoint::{Checkpoint, Checkpointer, Claim, ListQuery, SaverError, WhenRunning};
use hier_sqlite::Sqlite;

/// The database of the other process.
const PLACE: &str = "HIER_TEST_PLACE";
/// The duration of its claim in milliseconds.
const LASTS: &str = "HIER_TEST_LASTS";
/// Longer than any test.
const LONG: Duration = Duration::from_mins(10);

async fn open(place: &str) -> Arc<dyn Checkpointer> {
    if place.starts_with("postgres:") {
        let saver = hier_postgres::Postgres::options().schema("processes").connect(place).await.expect("a server");
        saver.migrate().await.expect("tables");
        return Arc::new(saver);
    }
    Arc::new(Sqlite::open(place).await.expect("the file"))
}

/// The other process. It claims the thread and then, for each line that it is sent, commits a checkpoint and says what came
/// of it.
#[test]
#[ignore = "a process that other tests start"]
fn child_process() {
    let place = std::env::var(PLACE).expect("the place");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        let saver = open(&place).await;
        let lasts = std::env::var(LASTS).expect("a time").parse().map(Duration::from_millis).expect("milliseconds");
        let claim = Claim { holder: "the other process".to_owned(), lasts, ..Claim::default() };
        let lease = saver.acquire("t", claim).await.expect("the thread");
        println!("\nclaimed");
        let mut last: Option<Checkpoint> = None;
        for _ in std::io::stdin().lines() {
            let (mut checkpoint, _) = kit::next(last.as_ref(), &[], 1);
            // Ids grow from process to process.
            checkpoint.id = uuid::Uuid::now_v6(&[2; 6]);
            let record = hier_core::checkpoint::WriteRecord::Checkpoint {
                namespace: "".into(),
                checkpoint: Box::new(checkpoint.clone()),
                pieces: Vec::new(),
            };
            match saver.commit(&lease, vec![record].into()).await {
                Ok(_) => println!("stored {}", checkpoint.id),
                Err(SaverError::Superseded { .. }) => println!("superseded"),
                Err(error) => println!("{error}"),
            }
            last = Some(checkpoint);
        }
    });
}

struct Other {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Other {
    /// Its claim lasts so long; it is never renewed.
    fn start(place: &str, lasts: Duration) -> Self {
        let own = std::env::current_exe().expect("this test");
        let mut process = Command::new(own)
            .args(["child_process", "--exact", "--ignored", "--nocapture"])
            .env(PLACE, place)
            .env(LASTS, lasts.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("a process");
        let input = process.stdin.take().expect("its input");
        let output = BufReader::new(process.stdout.take().expect("its output"));
        let mut other = Self { process, input, output };
        other.hear("claimed");
        other
    }

    /// The next line that starts with this.
    fn hear(&mut self, start: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).expect("its output"), 0, "it ended without `{start}`");
            if line.starts_with(start) {
                return line.trim().to_owned();
            }
        }
    }

    fn commit(&mut self) {
        writeln!(self.input, "commit").expect("its input");
    }

    fn kill(mut self) -> Vec<String> {
        self.process.kill().expect("a kill");
        self.process.wait().expect("an end");
        let lines = self.output.lines().map_while(Result::ok);
        lines.filter(|line| line.starts_with("stored")).collect()
    }
}

async fn overtaken(place: &str) {
    let saver = open(place).await;
    let mut other = Other::start(place, LONG);
    other.commit();
    other.hear("stored");
    let reject = Claim { when_running: WhenRunning::Reject, ..Claim::default() };
    match saver.acquire("t", reject).await {
        Err(SaverError::Busy { holder, .. }) => assert_eq!(holder, "the other process"),
        other => panic!("{other:?}"),
    }
    let lease = saver.acquire("t", Claim::default()).await.expect("the thread");
    other.commit();
    other.hear("superseded");
    let (checkpoint, record) = kit::next(None, &[], 1);
    saver.commit(&lease, vec![record].into()).await.expect("a commit");
    let ids = saver.list(ListQuery::thread("t")).await.expect("a list");
    assert_eq!(ids.len(), 2, "the one from before, and ours: {ids:?}");
    assert!(ids.iter().any(|listed| listed.checkpoint.id == checkpoint.id));
    other.kill();
}

async fn died(place: &str) {
    let saver = open(place).await;
    Other::start(place, Duration::from_millis(500)).kill();
    let wait = Claim { when_running: WhenRunning::Wait(Duration::from_secs(30)), ..Claim::default() };
    let lease = saver.acquire("t", wait).await.expect("the thread, once the lease has run out");
    saver.release(&lease).await.expect("a release");
}

async fn killed_while_committing(place: &str, times: usize) {
    let mut acknowledged = Vec::new();
    for time in 0..times {
        let mut other = Other::start(place, LONG);
        for _ in 0..200 {
            other.commit();
        }
        // At a different place in the middle each time.
        for _ in 0..=time * 7 % 150 {
            acknowledged.push(other.hear("stored"));
        }
        acknowledged.extend(other.kill());
    }
    let saver = open(place).await;
    let all = saver.list(ListQuery::thread("t")).await.expect("a list");
    let stored: std::collections::HashSet<_> = all.iter().map(|it| format!("stored {}", it.checkpoint.id)).collect();
    for line in &acknowledged {
        assert!(stored.contains(line), "{line} was acknowledged and is not there");
    }
    assert!(stored.len() <= acknowledged.len() + times * 2, "{} of {}", stored.len(), acknowledged.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_superseded_process_stores_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    overtaken(&folder.path().join("desk.db").display().to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_lease_of_a_dead_process_is_awaited() {
    let folder = tempfile::tempdir().expect("a folder");
    died(&folder.path().join("desk.db").display().to_string()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_acknowledged_commits_survive() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    killed_while_committing(&path.display().to_string(), 20).await;
    Sqlite::open(&path).await.expect("the file").check().await.expect("a whole file");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn postgres_processes_share_threads() {
    let url = kit::server::server();
    let saver = open(&url).await;
    saver.delete_thread("t").await.expect("an empty thread");
    overtaken(&url).await;
    died(&url).await;
    killed_while_committing(&url, 5).await;
}
