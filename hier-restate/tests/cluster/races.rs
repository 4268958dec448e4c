//! Threads in a database, and other processes that use them at the same time.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use hier_core::async_trait;
use hier_core::checkpoint::{
    Checkpointer as _, Claim, Commit, Lease, LeaseState, ListQuery, Listed, MemorySaver, SaverError, SaverLayer,
    WhenRunning,
};
use hier_core::graph::{CompiledGraph, DynCommand, DynInput, DynUpdates};
use hier_core::prelude::*;
use hier_restate::{Error, RemoteGraph};
use serde_json::{Value, json};
use tokio::sync::{Mutex, Semaphore, oneshot};

use crate::support::{Network, serve};

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[reducer(append)]
    log: Vec<String>,
}

graph! {
    Pair<Desk> = Graph {
        nodes: [one = ask, two = ask],
        edges: [START >> [one, two] >> END],
    }
}

graph! {
    Line<Desk> = Graph {
        nodes: [first = note, second = note],
        edges: [START >> first >> second >> END],
    }
}

async fn note(run: &Run) -> DeskUpdate {
    Desk::update().log([run.node().to_owned()])
}

async fn ask(run: &Run) -> hier_core::Result<DeskUpdate> {
    let answer: String = run.interrupt(run.node()).await?;
    Ok(Desk::update().log([answer]))
}

type OtherProcess = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// A database that another process uses at a certain time.
#[derive(Clone)]
struct Raced {
    saver: MemorySaver,
    after_read: Arc<Mutex<Option<OtherProcess>>>,
    after_commit: Arc<Mutex<Option<OtherProcess>>>,
    /// A permit for each claim of a worker.
    claims: Arc<Semaphore>,
}

impl Default for Raced {
    fn default() -> Self {
        let claims = Arc::new(Semaphore::new(0));
        Self { saver: MemorySaver::new(), after_read: Arc::default(), after_commit: Arc::default(), claims }
    }
}

impl Raced {
    /// Runs the other process as soon as the worker has read the thread.
    async fn then(&self, other: impl Future<Output = ()> + Send + 'static) {
        *self.after_read.lock().await = Some(Box::pin(other));
    }

    /// Runs the other process after the next commit of the worker, whose connection then breaks.
    async fn then_break(&self, other: impl Future<Output = ()> + Send + 'static) {
        *self.after_commit.lock().await = Some(Box::pin(other));
    }
}

#[async_trait]
impl SaverLayer for Raced {
    type Inner = MemorySaver;

    fn inner(&self) -> &MemorySaver {
        &self.saver
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        let listed = self.saver.list(query).await;
        let other = self.after_read.lock().await.take();
        if let Some(other) = other {
            other.await;
        }
        listed
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let lease = self.saver.acquire(thread, claim).await?;
        self.claims.add_permits(1);
        Ok(lease)
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        let state = self.saver.commit(lease, commit).await?;
        let other = self.after_commit.lock().await.take();
        if let Some(other) = other {
            other.await;
            let broken = io::Error::new(io::ErrorKind::ConnectionReset, "the connection broke");
            return Err(SaverError::database("cannot read the answer", broken));
        }
        Ok(state)
    }
}

/// A run of another process, whose input is `theirs`.
async fn other_run(graph: CompiledGraph<Desk>, saver: MemorySaver) {
    let input = Desk::update().log(["theirs".to_owned()]);
    let _end = graph.checkpointer(saver).invoke(input).thread("t").await.expect("the other run ends");
}

/// Serves the graph with this database.
async fn pair(database: Raced) -> RemoteGraph {
    serve(|endpoint, name| endpoint.graph(name, Pair::compile(), ()).saver(database)).await
}

async fn line(database: Raced) -> RemoteGraph {
    serve(|endpoint, name| endpoint.graph(name, Line::compile(), ()).saver(database)).await
}

/// Runs the graph, and returns the kind of the end.
async fn end(graph: &RemoteGraph, input: DynInput, when_running: WhenRunning) -> String {
    match graph.invoke(input).config(Config::new().thread("t").when_running(when_running)).await {
        Ok(Outcome::Interrupted(_)) => "asked".to_owned(),
        Ok(end) => panic!("{end:?}"),
        Err(Error::Run(failure)) => failure.kind,
        Err(other) => panic!("{other}"),
    }
}

/// The log of the latest checkpoint.
async fn log(graph: &RemoteGraph) -> Value {
    graph.state(Config::new().thread("t")).await.unwrap().values["log"].take()
}

fn update(text: &str) -> DynInput {
    let mut command = DynCommand::default();
    command.update = json!({ "log": [text] });
    DynInput::Command(command)
}

fn new(log: &Value) -> DynInput {
    DynInput::New(json!({ "log": log }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_of_another_process_is_ended_only_by_an_input_that_may_take_over() {
    for (when_running, kind, is_held) in
        [(WhenRunning::Reject, "CheckpointerError", true), (WhenRunning::TakeOver, "asked", false)]
    {
        let database = Raced::default();
        let (saver, (send, claimed)) = (database.saver.clone(), oneshot::channel());
        let claim = async move { drop(send.send(saver.acquire("t", Claim::default()).await.unwrap())) };
        database.then(claim).await;
        let graph = pair(database.clone()).await;
        assert_eq!(end(&graph, new(&json!([])), when_running).await, kind);
        let lease = claimed.await.expect("the other process has claimed the thread");
        assert_eq!(database.saver.renew(&lease).await.is_ok(), is_held);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_of_another_process_is_not_ended_by_an_invalid_input() {
    let database = Raced::default();
    let lease = database.saver.acquire("t", Claim::default()).await.unwrap();
    end(&pair(database.clone()).await, new(&json!(7)), WhenRunning::TakeOver).await;
    database.saver.renew(&lease).await.expect("the other process still holds the thread");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn answer_of_another_process_is_not_taken_for_the_own_answer() {
    let database = Raced::default();
    let graph = pair(database.clone()).await;
    let Outcome::Interrupted(asked) = graph.invoke(new(&json!([]))).thread("t").await.unwrap() else { panic!() };
    let id = asked.questions.iter().find(|question| question.value == "one").unwrap().id.clone();
    let (other, question) = (Pair::compile().checkpointer(database.saver.clone()), id.clone());
    let answers = async move {
        let end = other.invoke(Command::answers([(question, "theirs")])).thread("t").await.unwrap();
        assert!(matches!(end, Outcome::Interrupted(_)), "{end:?}");
    };
    database.then(answers).await;
    let mut command = DynCommand::default();
    command.resume = Some(json!({ id: "ours" }));
    assert_eq!(end(&graph, DynInput::Command(command), WhenRunning::TakeOver).await, "AnswerError");
    let mut command = DynCommand::default();
    command.resume = Some(json!("second"));
    let end = graph.invoke(DynInput::Command(command)).thread("t").await.unwrap();
    assert_eq!(end.into_state(), json!({ "log": ["theirs", "second"] }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_of_another_process_is_not_ended_by_a_command() {
    let database = Raced::default();
    let graph = pair(database.clone()).await;
    assert_eq!(end(&graph, new(&json!([])), WhenRunning::TakeOver).await, "asked");
    let lease = database.saver.acquire("t", Claim::default()).await.unwrap();
    let refused = graph.invoke(update("ours")).thread("t").await.expect_err("the thread is busy");
    let Error::Run(failure) = refused else { panic!("{refused}") };
    assert_eq!(failure.kind, "CheckpointerError");
    database.saver.renew(&lease).await.expect("the other process still holds the thread");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn input_is_stored_once_if_another_process_uses_the_thread_before_the_repeat() {
    let database = Raced::default();
    let graph = line(database.clone()).await;
    database.then_break(other_run(Line::compile(), database.saver.clone())).await;
    let end = graph.invoke(new(&json!(["ours"]))).thread("t").await.unwrap();
    assert_eq!(end.into_state(), json!({ "log": ["ours", "theirs", "first", "second"] }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn update_is_stored_once_if_another_process_uses_the_thread_before_the_repeat() {
    let database = Raced::default();
    let graph = line(database.clone()).await;
    database.then_break(other_run(Line::compile(), database.saver.clone())).await;
    let update = DynUpdates::values(json!({ "log": ["ours"] })).as_node("first");
    let updated = graph.update_state(Config::new().thread("t"), update).await.unwrap();
    assert_eq!(graph.state(updated).await.unwrap().values, json!({ "log": ["ours"] }));
    assert_eq!(log(&graph).await, json!(["ours", "theirs", "first", "second"]));
}

/// The second superstep of the update is applied after the work of the other process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn repeated_update_keeps_the_work_of_another_process() {
    let database = Raced::default();
    let graph = line(database.clone()).await;
    database.then_break(other_run(Line::compile(), database.saver.clone())).await;
    let supersteps = ["one", "two"].map(|text| vec![DynUpdates::values(json!({ "log": [text] })).as_node("second")]);
    graph.bulk_update_state(Config::new().thread("t"), supersteps.to_vec()).await.unwrap();
    assert_eq!(log(&graph).await, json!(["one", "theirs", "first", "second", "two"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn command_is_stored_once_if_another_process_uses_the_thread_before_the_repeat() {
    let database = Raced::default();
    let graph = pair(database.clone()).await;
    assert_eq!(end(&graph, new(&json!([])), WhenRunning::TakeOver).await, "asked");
    database.then_break(other_run(Pair::compile(), database.saver.clone())).await;
    assert_eq!(end(&graph, update("ours"), WhenRunning::Reject).await, "asked");
    assert_eq!(log(&graph).await, json!(["ours", "theirs"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn input_is_stored_once_if_a_lost_attempt_claims_the_thread_late() {
    let (database, network) = (Raced::default(), Network::default());
    let saver = database.clone();
    let graph = network.serve(|endpoint, name| endpoint.graph(name, Line::compile(), ()).saver(saver)).await;
    let (continues, late) = oneshot::channel::<()>();
    database
        .then(async move {
            network.break_connections();
            late.await.expect("the test sends a signal");
        })
        .await;
    let end = graph.invoke(new(&json!(["ours"]))).thread("t").await.unwrap();
    assert_eq!(end.into_state(), json!({ "log": ["ours", "first", "second"] }));
    let before = database.claims.forget_permits(usize::MAX);
    assert!(before > 0, "no attempt has claimed the thread");
    continues.send(()).expect("the first attempt still waits");
    database.claims.acquire().await.expect("it is open").forget();
    // Waits for the end of the late attempt.
    let free = Claim { when_running: WhenRunning::Wait(Duration::from_mins(1)), ..Claim::default() };
    database.saver.acquire("t", free).await.expect("the late attempt ends");
    assert_eq!(log(&graph).await, json!(["ours", "first", "second"]));
}
