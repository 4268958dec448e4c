//! Graphs on a database that others use too: runs that are dropped while it is locked, and graphs inside that several handles
//! change at once.
//!
//! On Postgres with a server: `scripts/postgres.sh test -p hier-postgres`.

mod kit;

use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hier_core::checkpoint::{Checkpointer, Claim, Lease, SaverError, WhenRunning};
use hier_core::graph::{DynCommand, DynGraph, DynInput, DynRun, DynUpdates};
use hier_core::prelude::*;
use hier_core::{Durability, async_trait};
use hier_sqlite::Sqlite;
use hier_testkit::{Layered, SaverLayer};
use rusqlite::Connection;
use serde_json::{Value, json};
use tokio::sync::{Mutex, Notify};
use tokio::time::timeout;

/// More than anything here may take, on a machine with other work.
const LONG: Duration = Duration::from_mins(2);

/// A server has the threads of earlier tests, too.
fn new_thread() -> String {
    uuid::Uuid::new_v4().to_string()
}

/// Another user of the database.
enum Other {
    File(Connection),
    Server(tokio_postgres::Client, &'static str),
}

impl Other {
    fn of_file(path: &Path) -> Self {
        Self::File(Connection::open(path).expect("the file"))
    }

    async fn of_server(url: &str, schema: &'static str) -> Self {
        let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.expect("the server");
        tokio::spawn(connection);
        Self::Server(client, schema)
    }

    /// Blocks other writers of threads from now on.
    async fn lock(&mut self) {
        match self {
            Self::File(file) => file.execute_batch("begin immediate").expect("a transaction"),
            Self::Server(client, schema) => {
                let rows = format!("begin; select * from {schema}.threads for update");
                client.batch_execute(&rows).await.expect("a transaction");
            }
        }
    }

    async fn unlock(&mut self) {
        match self {
            Self::File(file) => file.execute_batch("rollback").expect("an end"),
            Self::Server(client, _) => client.batch_execute("rollback").await.expect("an end"),
        }
    }
}

/// Locks the database when a thread was claimed: the first commit of the run has to wait.
struct Locking {
    saver: Arc<dyn Checkpointer>,
    other: Mutex<Other>,
    released: Notify,
}

#[async_trait]
impl SaverLayer for Locking {
    type Inner = dyn Checkpointer;

    fn inner(&self) -> &dyn Checkpointer {
        &*self.saver
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let lease = self.saver.acquire(thread, claim).await?;
        self.other.lock().await.lock().await;
        Ok(lease)
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        self.saver.release(lease).await?;
        self.released.notify_one();
        Ok(())
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Count {
    #[reducer(append)]
    log: Vec<usize>,
}

/// Holds a run at a point and signals it.
struct Stop {
    at: usize,
    reached: Notify,
}

impl Stop {
    fn at(at: usize) -> Arc<Self> {
        Arc::new(Self { at, reached: Notify::new() })
    }
}

async fn tick(count: &Count, run: &Run<Arc<Stop>>) -> CountUpdate {
    let (stop, number) = (run.context(), count.log.len());
    if number == stop.at {
        stop.reached.notify_one();
        pending::<()>().await;
    }
    Count::update().log([number])
}

graph! {
    Ticking<Count, Arc<Stop>> = Graph {
        nodes: [tick],
        edges: [START >> tick, tick >> if state.log.len() < 5 { tick } else { END }],
    }
}

/// The commits of the run that is dropped wait for the lock: the first was begun in place, the others are in the background.
async fn dropped_while_locked(saver: Arc<dyn Checkpointer>, other: Other) {
    let locking = Locking { saver: saver.clone(), other: Mutex::new(other), released: Notify::new() };
    let locking = Arc::new(Layered(locking));
    let (locked, free) =
        (Ticking::compile().checkpointer(locking.clone()), Ticking::compile().checkpointer(saver.clone()));
    for at in [0, 1, 3] {
        let thread = new_thread();
        let config = || Config::new().thread(&thread).durability(Durability::Async);
        let stop = Stop::at(at);
        tokio::select! {
            ended = locked.invoke(Count::default()).config(config()).context(stop.clone()) => panic!("it does not wait: {ended:?}"),
            reached = timeout(LONG, stop.reached.notified()) => reached.expect("it does not wait for its commits"),
        }
        let stored = timeout(LONG, free.state(config())).await.expect("reads do not wait").expect("the thread");
        assert_eq!(stored.checkpoint, None, "its commits wait");
        locking.other.lock().await.unlock().await;
        timeout(LONG, locking.released.notified()).await.expect("a dropped run releases its thread");
        let reject = Claim { when_running: WhenRunning::Reject, ..Claim::default() };
        let lease = saver.acquire(&thread, reject).await.expect("a free thread");
        saver.release(&lease).await.expect("the thread");

        let stored = free.state(config()).await.expect("the thread");
        let log = stored.values.log;
        assert_eq!(log, (0..log.len()).collect::<Vec<_>>());
        assert!(log.len() <= at, "more is stored than was done: {log:?}");
        let on = Stop::at(usize::MAX);
        let ended = match stored.checkpoint {
            Some(_) => free.invoke(()).config(config()).context(on).await,
            None => free.invoke(Count::default()).config(config()).context(on).await,
        };
        assert_eq!(ended.expect("it goes on").into_state().log, [0, 1, 2, 3, 4]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn run_dropped_at_a_locked_file_releases_its_thread() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let saver = Sqlite::options().busy_timeout(LONG).open(&path).await.expect("a new file");
    dropped_while_locked(Arc::new(saver), Other::of_file(&path)).await;
}

/// The private channel of the subgraph.
#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Draft {
    text: String,
    #[reducer(append)]
    log: Vec<String>,
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Case {
    #[reducer(append)]
    log: Vec<String>,
}

async fn write() -> DraftUpdate {
    Draft::update().text("a letter")
}

async fn review(draft: &Draft, run: &hier_core::Run) -> hier_core::Result<DraftUpdate> {
    let answer: String = run.interrupt(&draft.text).await?;
    Ok(Draft::update().log([answer]))
}

graph! { Drafting<Draft> = Graph { nodes: [write, review], edges: [START >> write >> review >> END] } }

graph! { Office<Case> = Graph { nodes: [Drafting], edges: [START >> Drafting >> END] } }

async fn run(graph: &dyn DynGraph, saver: &Arc<dyn Checkpointer>, thread: &str, input: DynInput) -> Outcome<Value> {
    let mut run = DynRun::new(input, Config::new().thread(thread));
    run.saver = Some(saver.clone());
    graph.run(run).await.expect("it runs")
}

/// Each change is applied once, or was refused because another run held the thread, and is then retried.
async fn changed_at_once(handles: [Arc<dyn Checkpointer>; 2]) {
    let graph: Arc<dyn DynGraph> = Arc::new(Office::compile().erase(|_| Ok(())));
    let thread = &*new_thread();
    let asked = run(&*graph, &handles[0], thread, DynInput::New(json!({}))).await;
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    let root = graph.state(handles[1].clone(), Config::new().thread(thread)).await.expect("the thread");
    let place = root.tasks[0].state.clone().expect("the task runs a graph");
    let mut changes = Vec::new();
    for number in 0..8 {
        let (graph, saver, place) = (graph.clone(), handles[number % 2].clone(), place.clone());
        let update = DynUpdates::values(json!({ "log": [number.to_string()] })).as_node("write");
        changes.push(tokio::spawn(timeout(LONG, async move {
            loop {
                match graph.update_state(saver.clone(), place.clone(), vec![vec![update.clone()]]).await {
                    Err(RunError::Saver { error: SaverError::Busy { .. }, .. }) => tokio::task::yield_now().await,
                    ended => break ended.map(drop),
                }
            }
        })));
    }
    for change in changes {
        change.await.expect("no panic").expect("an end").expect("a change");
    }
    let inside = graph.state(handles[0].clone(), place).await.expect("the graph inside");
    let mut log: Vec<String> = serde_json::from_value(inside.values["log"].clone()).expect("a list");
    log.sort_unstable();
    assert_eq!(log, ["0", "1", "2", "3", "4", "5", "6", "7"]);
    // The thread continues with all of them.
    let asked = run(&*graph, &handles[1], thread, DynInput::Continue).await;
    assert!(matches!(asked, Outcome::Interrupted(_)), "{asked:?}");
    let answer = DynCommand::from_json(&json!({ "resume": "sent" })).expect("an answer");
    let ended = run(&*graph, &handles[0], thread, DynInput::Command(answer)).await.into_state();
    let mut log: Vec<String> = serde_json::from_value(ended["log"].clone()).expect("a list");
    log.sort_unstable();
    assert_eq!(log, ["0", "1", "2", "3", "4", "5", "6", "7", "sent"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn subgraph_is_updated_through_two_handles_of_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("desk.db");
    let open = async || Sqlite::options().busy_timeout(LONG).open(&path).await.expect("the file");
    changed_at_once([Arc::new(open().await), Arc::new(open().await)]).await;
}

mod postgres {
    use std::sync::Arc;

    use hier_postgres::Postgres;

    use super::{Other, changed_at_once, dropped_while_locked};

    async fn saver(url: &str, schema: &str) -> Arc<Postgres> {
        let saver = Postgres::options().schema(schema).connect(url).await.expect("the server");
        saver.migrate().await.expect("tables");
        Arc::new(saver)
    }

    fn server() -> String {
        crate::kit::server::server()
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs Postgres: run ./scripts/test.sh"]
    async fn run_dropped_at_a_locked_row_releases_its_thread() {
        let url = server();
        let saver = saver(&url, "dropped").await;
        dropped_while_locked(saver, Other::of_server(&url, "dropped").await).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    #[ignore = "needs Postgres: run ./scripts/test.sh"]
    async fn subgraph_is_updated_through_two_handles_of_a_schema() {
        let url = server();
        let first = saver(&url, "inside").await;
        changed_at_once([first, saver(&url, "inside").await]).await;
    }
}
