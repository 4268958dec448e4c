//! Threads in a database, and work that Restate repeats because the database does not answer.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hier_core::checkpoint::{
    Checkpointer as _, Claim, Commit, Lease, LeaseState, ListQuery, MemorySaver, SaverError, SaverLayer, WhenRunning,
};
use hier_core::graph::{CompiledGraph, DynCommand, DynInput, DynUpdates};
use hier_core::prelude::*;
use hier_core::{StopReason, async_trait};
use hier_restate::{Error, RemoteGraph};
use hier_sqlite::Sqlite;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::serve;

/// A database whose connection breaks once, after it has stored a commit or a claim and before it answers.
#[derive(Clone)]
struct Breaks {
    saver: Sqlite,
    /// The number of commits and claims until the connection breaks.
    after: Arc<AtomicUsize>,
}

impl Breaks {
    fn answer<T>(&self, stored: T) -> Result<T, SaverError> {
        if self.after.fetch_sub(1, Ordering::SeqCst) == 0 {
            let broken = io::Error::new(io::ErrorKind::ConnectionReset, "the connection broke");
            return Err(SaverError::database("cannot read the answer", broken));
        }
        Ok(stored)
    }
}

const NEVER: usize = usize::MAX / 2;

#[async_trait]
impl SaverLayer for Breaks {
    type Inner = Sqlite;

    fn inner(&self) -> &Sqlite {
        &self.saver
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        self.answer(self.saver.commit(lease, commit).await?)
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        self.answer(self.saver.acquire(thread, claim).await?)
    }
}

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    #[reducer(append)]
    log: Vec<String>,
}

graph! {
    Inner<Desk> = Graph {
        nodes: [i1 = note, i2 = note],
        edges: [START >> i1 >> i2 >> END],
    }
}

graph! {
    Outer<Desk> = Graph {
        nodes: [a = note, b = note, work = note_item, Inner, c = note, ask, d = note],
        edges: [
            START >> a >> b >> for item in items { work(item) },
            work >> Inner >> c >> ask >> d >> END,
        ],
    }
}

graph! {
    Stops<Desk> = Graph {
        nodes: [s1 = note, s2 = note, s3 = note],
        edges: [START >> s1 >> s2 >> s3 >> END],
        interrupt_before: [s1],
        interrupt_after: [s2],
    }
}

graph! {
    Around<Desk> = Graph {
        nodes: [Stops, then = note],
        edges: [START >> Stops >> then >> END],
    }
}

async fn note(run: &Run) -> DeskUpdate {
    Desk::update().log([run.node().to_owned()])
}

async fn note_item(Sent(item): Sent<u64>) -> DeskUpdate {
    Desk::update().log([format!("work {item}")])
}

fn items(_: &Desk) -> Vec<u64> {
    vec![1, 2]
}

async fn ask(run: &Run) -> hier_core::Result<DeskUpdate> {
    let answer: String = run.interrupt(&"may we?").await?;
    Ok(Desk::update().log([answer]))
}

/// Calls the script with a new thread, and then once for each of its commits and claims, of which it loses the answer.
async fn lose_each_answer(script: impl AsyncFn(&RemoteGraph, Config) -> Value) -> Value {
    lose_each_answer_of(Outer::compile(), script).await
}

async fn lose_each_answer_of(
    compiled: CompiledGraph<Desk>,
    script: impl AsyncFn(&RemoteGraph, Config) -> Value,
) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let saver = Sqlite::open(folder.path().join("threads.db")).await.unwrap();
    let database = Breaks { saver, after: Arc::new(NEVER.into()) };
    let after = database.after.clone();
    let graph = serve(|endpoint, name| endpoint.graph(name, compiled, ()).saver(database)).await;
    let expected = script(&graph, Config::new().thread("whole")).await;
    let commits = NEVER - after.load(Ordering::SeqCst);
    assert!(commits > 2, "{commits} commits");
    for lost in 0..commits {
        after.store(lost, Ordering::SeqCst);
        let seen = script(&graph, Config::new().thread(format!("lost-{lost}"))).await;
        assert!(after.load(Ordering::SeqCst) > NEVER, "the connection did not break at commit {lost}");
        assert_eq!(seen, expected, "lost the answer to commit {lost} of {commits}");
    }
    expected
}

/// Runs the graph, and returns the kind of the end.
async fn end(graph: &RemoteGraph, input: DynInput, config: Config) -> String {
    match graph.invoke(input).config(config).await {
        Ok(Outcome::Finished(_)) => "finished".to_owned(),
        Ok(Outcome::Interrupted(_)) => "asked".to_owned(),
        Ok(Outcome::Stopped(stopped)) => match stopped.reason {
            StopReason::Before(nodes) => format!("before {}", nodes.join(", ")),
            StopReason::After(nodes) => format!("after {}", nodes.join(", ")),
            other => panic!("{other:?}"),
        },
        Err(Error::Run(failure)) => failure.kind,
        Err(other) => panic!("{other}"),
    }
}

/// The state of a thread and the supersteps of its history.
async fn stored(graph: &RemoteGraph, config: Config) -> Value {
    let history = graph.history(config, ListQuery::default()).await.unwrap();
    let steps: Vec<_> =
        history.iter().map(|state| format!("{} {:?} {:?}", state.step, state.source, state.next)).collect();
    json!({ "log": history[0].values["log"], "steps": steps })
}

/// Selects the checkpoint before the node `b`.
async fn older(graph: &RemoteGraph, config: Config) -> Config {
    let history = graph.history(config.clone(), ListQuery::default()).await.unwrap();
    config.checkpoint(history.iter().find(|state| state.next == ["b"]).unwrap().checkpoint.unwrap())
}

fn new() -> DynInput {
    DynInput::New(json!({ "log": ["input"] }))
}

fn answer() -> DynInput {
    let mut command = DynCommand::default();
    command.resume = Some(json!("yes"));
    command.update = json!({ "log": ["update"] });
    DynInput::Command(command)
}

const WHOLE: [&str; 9] = ["input", "a", "b", "work 1", "work 2", "i1", "i2", "c", "update"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn input_and_answer_are_stored_once_if_a_slice_is_repeated() {
    let seen = lose_each_answer(async |graph, config| {
        let config = config.when_running(WhenRunning::Reject);
        let ends = [end(graph, new(), config.clone()).await, end(graph, answer(), config.clone()).await];
        json!([ends, stored(graph, config).await])
    });
    let seen = seen.await;
    assert_eq!(seen[0], json!(["asked", "finished"]));
    assert_eq!(seen[1]["log"], json!([&WHOLE[..], &["yes", "d"]].concat()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_stops_at_breakpoints_if_a_slice_is_repeated() {
    let seen = lose_each_answer(async |graph, config| {
        let config = config.interrupt_before(["a", "Inner", "c", "d"]).interrupt_after(["a", "work", "ask", "d"]);
        let mut ends = vec![end(graph, new(), config.clone()).await];
        while ends.last().is_some_and(|end| end != "asked") {
            ends.push(end(graph, DynInput::Continue, config.clone()).await);
        }
        ends.push(end(graph, answer(), config.clone()).await);
        while ends.last().is_some_and(|end| end != "finished") {
            ends.push(end(graph, DynInput::Continue, config.clone()).await);
        }
        json!([ends, stored(graph, config).await])
    });
    let ends =
        json!(["before a", "after a", "after work, work", "before c", "asked", "after ask", "after d", "finished"]);
    assert_eq!(seen.await[0], ends);
}

/// Runs the graph until it has finished, and returns the kinds of the ends.
async fn all_ends(graph: &RemoteGraph, mut input: DynInput, config: &Config) -> Vec<String> {
    let mut ends = Vec::new();
    while ends.last().is_none_or(|end| end != "finished") {
        ends.push(end(graph, input, config.clone()).await);
        input = DynInput::Continue;
    }
    ends
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn subgraph_stops_at_breakpoints_if_a_slice_is_repeated() {
    let seen = lose_each_answer_of(Around::compile(), async |graph, config| {
        let ends = all_ends(graph, new(), &config).await;
        json!([ends, stored(graph, config).await])
    });
    let seen = seen.await;
    assert_eq!(seen[0], json!(["before Stops", "before Stops", "finished"]));
    assert_eq!(seen[1]["log"], json!(["input", "s1", "s2", "s3", "then"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_stops_after_the_target_of_a_command_if_a_slice_is_repeated() {
    let seen = lose_each_answer(async |graph, config| {
        end(graph, new(), config.clone()).await;
        let DynInput::Command(mut command) = answer() else { unreachable!() };
        command.goto = vec![("d".to_owned(), None)];
        let config = config.interrupt_after(["d"]);
        let ends = all_ends(graph, DynInput::Command(command), &config).await;
        json!([ends, stored(graph, config).await])
    });
    assert_eq!(seen.await[0], json!(["after d", "after d", "finished"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn answer_to_an_older_checkpoint_is_stored_once() {
    let seen = lose_each_answer(async |graph, config| {
        end(graph, new(), config.clone()).await;
        let asked = graph.state(config.clone()).await.unwrap().checkpoint.unwrap();
        let later = DynUpdates::values(json!({ "log": ["later"] })).as_node("c");
        graph.update_state(config.clone(), later).await.unwrap();
        let end = end(graph, answer(), config.clone().checkpoint(asked)).await;
        json!([end, stored(graph, config).await])
    });
    let seen = seen.await;
    assert_eq!(seen[0], json!("finished"));
    assert_eq!(seen[1]["log"], json!([&WHOLE[..], &["yes", "d"]].concat()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn recursion_limit_counts_the_supersteps_of_repeated_slices() {
    let seen = lose_each_answer(async |graph, config| {
        let end = end(graph, new(), config.clone().recursion_limit(3)).await;
        json!([end, stored(graph, config).await])
    });
    assert_eq!(seen.await[0], json!("GraphRecursionError"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn recursion_limit_counts_the_supersteps_of_a_repeated_fork() {
    let seen = lose_each_answer(async |graph, config| {
        end(graph, new(), config.clone()).await;
        let older = older(graph, config.clone()).await.recursion_limit(3);
        let end = end(graph, DynInput::Continue, older).await;
        json!([end, stored(graph, config).await])
    });
    assert_eq!(seen.await[0], json!("GraphRecursionError"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn each_superstep_of_an_update_is_stored_once() {
    let update = |text: &str, node: &str| vec![DynUpdates::values(json!({ "log": [text] })).as_node(node)];
    let seen = lose_each_answer(async |graph, config| {
        let supersteps = vec![update("one", "a"), update("two", "b"), update("three", "c")];
        let updated = graph.bulk_update_state(config.clone(), supersteps).await.unwrap();
        let state = graph.state(updated).await.unwrap();
        json!([state.values["log"], state.next, stored(graph, config).await])
    });
    let seen = seen.await;
    assert_eq!((&seen[0], &seen[1]), (&json!(["one", "two", "three"]), &json!(["ask"])));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn replay_of_an_older_checkpoint_is_stored_once() {
    lose_each_answer(async |graph, config| {
        end(graph, new(), config.clone()).await;
        let end = end(graph, DynInput::Continue, older(graph, config.clone()).await).await;
        json!([end, stored(graph, config).await])
    })
    .await;
}

/// Stops in the subgraph, and continues it by its namespace. Returns the ends of the runs and the log.
async fn continue_subgraph(graph: &RemoteGraph, config: Config) -> Value {
    let stopped = end(graph, new(), config.clone()).await;
    let inside = graph.state(config.clone()).await.unwrap().tasks.remove(0).state.expect("a subgraph");
    let inside = config.clone().namespace(inside.checkpoint_namespace());
    let ends = [end(graph, DynInput::Continue, inside.clone()).await, end(graph, DynInput::Continue, inside).await];
    json!([stopped, ends, graph.state(config).await.unwrap().values["log"]])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_that_continues_a_subgraph_also_continues_its_outer_graph() {
    let expected = json!(["before Stops", ["before Stops", "finished"], ["input", "s1", "s2", "s3", "then"]]);
    let graph = serve(|endpoint, name| endpoint.graph(name, Around::compile(), ())).await;
    assert_eq!(continue_subgraph(&graph, Config::new().thread("t")).await, expected);
    assert_eq!(lose_each_answer_of(Around::compile(), continue_subgraph).await, expected);
}

/// A database that is down for a number of claims.
#[derive(Clone)]
struct Down {
    saver: MemorySaver,
    refuses: Arc<AtomicUsize>,
}

#[async_trait]
impl SaverLayer for Down {
    type Inner = MemorySaver;

    fn inner(&self) -> &MemorySaver {
        &self.saver
    }

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        let refused = self.refuses.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        if refused.is_ok() {
            return Err(SaverError::database("cannot connect", io::Error::from(io::ErrorKind::ConnectionRefused)));
        }
        self.saver.acquire(thread, claim).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn run_continues_after_a_long_outage_of_the_database() {
    let database = Down { saver: MemorySaver::new(), refuses: Arc::new(6.into()) };
    let graph = serve(|endpoint, name| endpoint.graph(name, Outer::compile(), ()).saver(database)).await;
    // The server of the tests pauses an invocation after 3 attempts if its service sets no other limit.
    let run = end(&graph, new(), Config::new().thread("t"));
    assert_eq!(timeout(Duration::from_mins(1), run).await.expect("the run ends"), "asked");
}
