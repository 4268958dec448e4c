//! One row of the runs that cannot be read does not hold up the others.

mod kit;

use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use hier_core::checkpoint::SaverError;
use hier_core::runs::{
    Document, LogEvent, NewEvent, NewRun, NewThread, PrunedRuns, Request, RunClaim, RunCommit, RunEnd, RunQuery,
    RunStatus, RunStore, RunsError, ThreadQuery,
};

/// More than a store looks at in one go.
const MANY: usize = 103;

/// The log of `tracing` in this process.
#[derive(Clone, Default)]
struct Logs(Arc<Mutex<Vec<u8>>>);

impl Write for Logs {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("the log").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Logs {
    /// Stores log from other threads too, so there is one for all.
    fn here() -> &'static Self {
        static TOLD: OnceLock<Logs> = OnceLock::new();
        TOLD.get_or_init(|| {
            let received = Self::default();
            let writer = received.clone();
            tracing_subscriber::fmt().with_writer(move || writer.clone()).init();
            received
        })
    }

    /// The lines that have this.
    fn lines(&self, with: &str) -> Vec<String> {
        let log = String::from_utf8(self.0.lock().expect("the log").clone()).expect("a text");
        log.lines().filter(|line| line.contains(with)).map(str::to_owned).collect()
    }
}

fn claim() -> RunClaim {
    RunClaim::new("desk 1", Duration::from_mins(1), ["desk".to_owned()])
}

async fn add(store: &dyn RunStore, thread: &str) -> uuid::Uuid {
    let run = NewRun::new(thread, "desk", Request::default()).create_thread();
    store.create_run(run).await.expect("a run").id
}

/// Threads of which the row, or that of a run, is damaged wait longer than one that is whole. `damage` runs a statement, in which
/// `{b}` is what stands for a row.
async fn the_others_are_done(store: &dyn RunStore, name: &str, damage: impl AsyncFn(&str)) {
    let received = Logs::here();
    for number in 0..MANY {
        add(store, &format!("{name}-bad-{number:03}")).await;
    }
    let good = add(store, &format!("{name}-good")).await;
    damage(&format!("update run_threads set body = {{b}} where name like '{name}-bad-%' and name < '{name}-bad-05'"))
        .await;
    damage(&format!("update runs set body = {{b}} where thread like '{name}-bad-%' and thread >= '{name}-bad-05'"))
        .await;

    let claimed = store.claim_run(claim()).await.expect("a readable row").expect("the run that is whole");
    assert_eq!(claimed.run.id, good);
    for thread in ["bad-000", "bad-050", "bad-102"].map(|thread| format!("{name}-{thread}")) {
        let lines = received.lines(&format!("`{thread}`"));
        assert_eq!(lines.len(), 1, "{lines:?}");
        for part in ["WARN", "cannot be read: row `", "restore them from a backup", "remove_thread"] {
            assert!(lines[0].contains(part), "{}", lines[0]);
        }
    }
    let event = NewEvent::new(Some(good), LogEvent::Custom { node: "node".to_owned(), value: serde_json::json!(1) });
    let settlement = RunCommit::events(vec![event]).end(RunEnd::new(good, RunStatus::Success));
    store.commit_run(&claimed.lease, settlement).await.expect("its end");
    assert!(store.claim_run(claim()).await.expect("a readable row").is_none());
    assert_eq!(received.lines(&format!("`{name}-bad-000`")).len(), 1, "it is not said again and again");

    // The row of a run that has ended is not read to find the live runs of its thread.
    let ended = format!("{name}-ended");
    add(store, &ended).await;
    let claimed = store.claim_run(claim()).await.expect("a readable row").expect("the only run that can be claimed");
    let end = RunCommit::default().end(RunEnd::new(claimed.run.id, RunStatus::Success));
    store.commit_run(&claimed.lease, end).await.expect("its end");
    let live = add(store, &ended).await;
    damage(&format!("update runs set body = {{b}} where thread = '{ended}' and ended is not null")).await;
    let found = store.runs(RunQuery::thread(&*ended).live()).await.expect("readable rows");
    assert_eq!(found.iter().map(|run| run.id).collect::<Vec<_>>(), [live]);
    let mut all = RunQuery::default().live();
    all.limit = 1_000;
    assert!(store.runs(all).await.expect("readable rows").iter().any(|run| run.id == live));
    assert_eq!(received.lines(&format!("`{ended}`")), Vec::<String>::new());

    // Addressed rows report their error. Removed rows do not.
    let bad = format!("{name}-bad-000");
    let run = NewRun::new(&*bad, "desk", Request::default());
    let refused = store.create_run(run).await.expect_err("its queue cannot be read");
    assert!(matches!(&refused, RunsError::Saver(SaverError::Damaged { thread, .. }) if *thread == bad), "{refused:?}");
    assert!(store.remove_thread(&bad).await.expect("a removal"));
    add(store, &bad).await;

    // Lists have the others.
    let (mut threads, mut runs) = (ThreadQuery::default(), RunQuery::default());
    (threads.limit, runs.limit) = (1_000, 1_000);
    let found = store.search_threads(threads).await.expect("a list");
    let names: Vec<&str> = found.iter().map(|thread| &*thread.id).collect();
    assert!(names.contains(&&*format!("{name}-good")) && names.contains(&&*bad), "{names:?}");
    assert!(!names.contains(&&*format!("{name}-bad-001")), "{names:?}");
    let found = store.runs(runs).await.expect("a list");
    assert!(found.iter().any(|run| run.id == good));
    assert_eq!(found.iter().filter(|run| run.thread == format!("{name}-bad-060")).count(), 0);

    for id in ["one", "two"] {
        let document = Document::new("note", id, serde_json::json!({ "n": 1 }));
        assert!(store.put_document(document, None).await.expect("a document"));
    }
    damage("update documents set body = {b} where id = 'one'").await;
    let found = store.documents("note").await.expect("a list");
    assert_eq!(found.iter().map(|document| &*document.id).collect::<Vec<_>>(), ["two"]);
    store.document("note", "one").await.expect_err("it cannot be read");

    // Threads with earlier events that cannot be reported as lost.
    store.create_thread(NewThread::new(format!("{name}-empty"))).await.expect("a thread");
    damage(&format!(
        "update events set thread = '{name}-bad-001', number = 7 where thread = '{name}-good' and number = 1"
    ))
    .await;
    let PrunedRuns { events, runs } = store.prune_runs(Duration::ZERO).await.expect("a pruning");
    assert!(events > 0 && runs == 2, "{events} events, {runs} runs");
}

#[tokio::test(flavor = "multi_thread")]
async fn unreadable_rows_in_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let store = hier_sqlite::Sqlite::open(&path).await.expect("a new file");
    let db = rusqlite::Connection::open(&path).expect("the file");
    let damage = async |sql: &str| db.execute_batch(&sql.replace("{b}", "x'7b00'")).expect("damage");
    the_others_are_done(&store, "file", damage).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs Postgres: run ./scripts/test.sh"]
async fn unreadable_rows_in_postgres() {
    let url = kit::server::server();
    let store = hier_postgres::Postgres::options().schema("unreadable").connect(&url).await.expect("the server");
    store.migrate().await.expect("tables");
    let (client, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.expect("the server");
    tokio::spawn(connection);
    client.batch_execute("set search_path to unreadable").await.expect("the schema");
    let damage = async |sql: &str| {
        client.batch_execute(&sql.replace("{b}", "'\\x7b00'::bytea")).await.expect("damage");
    };
    the_others_are_done(&store, "server", damage).await;
}
