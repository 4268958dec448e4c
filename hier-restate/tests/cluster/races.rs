//! Threads in a database, and other processes that use them at the same time.

use std::sync::Arc;

use hier_core::async_trait;
use hier_core::checkpoint::{
    Checkpointer as _, Claim, ListQuery, Listed, MemorySaver, SaverError, SaverLayer, WhenRunning,
};
use hier_core::graph::{DynCommand, DynInput};
use hier_core::prelude::*;
use hier_restate::{Error, RemoteGraph};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::support::serve;

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

async fn ask(run: &Run) -> hier_core::Result<DeskUpdate> {
    let answer: String = run.interrupt(run.node()).await?;
    Ok(Desk::update().log([answer]))
}

type OtherProcess = std::pin::Pin<Box<dyn Future<Output = ()> + Send>>;

/// A database that another process uses as soon as the worker has read the thread.
#[derive(Clone, Default)]
struct Raced {
    saver: MemorySaver,
    other: Arc<Mutex<Option<OtherProcess>>>,
}

impl Raced {
    async fn then(&self, other: impl Future<Output = ()> + Send + 'static) {
        *self.other.lock().await = Some(Box::pin(other));
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
        if let Some(other) = self.other.lock().await.take() {
            other.await;
        }
        listed
    }
}

/// Serves the graph with this database.
async fn pair(database: Raced) -> RemoteGraph {
    serve(|endpoint, name| endpoint.graph(name, Pair::compile(), ()).saver(database)).await
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
        let (saver, (send, claimed)) = (database.saver.clone(), tokio::sync::oneshot::channel());
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
