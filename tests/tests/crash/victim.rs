//! The graph that is killed, and the process that runs it: this test program, called with one ignored test.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use hier_agents::prelude::*;
use hier_core::checkpoint::{MemorySaver, WhenRunning};
use hier_core::{Durability, Result};

/// The environment variables of a victim.
pub(crate) const PLACE: &str = "HIER_CRASH_PLACE";
pub(crate) const THREAD: &str = "HIER_CRASH_THREAD";
pub(crate) const LOG: &str = "HIER_CRASH_LOG";
pub(crate) const DELAY: &str = "HIER_CRASH_DELAY";
pub(crate) const DURABILITY: &str = "HIER_CRASH_DURABILITY";

/// The numbers of rounds of a thread and of Sends of a round.
const ROUNDS: usize = 4;
const WIDTH: u64 = 3;

#[derive(State, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Tree {
    /// Plain: the last node that ran alone.
    last: String,
    #[reducer(sum)]
    done: u64,
    #[reducer(append)]
    trace: Vec<String>,
    #[reducer(append)]
    answers: Vec<String>,
    #[channel(topic)]
    news: Vec<u64>,
}

/// The resources of a process.
#[derive(Clone, Default)]
pub(crate) struct Site {
    log: Option<PathBuf>,
    delay: Duration,
}

graph! {
    Inner<Tree, Site> = Graph {
        nodes: [i1, i2 = beside, i3 = beside, i4],
        edges: [START >> i1 >> [i2, i3] >> i4 >> END],
    }
}

graph! {
    pub(crate) CrashTree<Tree, Site> = Graph {
        nodes: [seed, work, gather, Inner, ask],
        edges: [
            START >> seed >> for item in items { work(item) },
            work >> gather >> Inner >> ask >> if is_over { END } else { seed },
        ],
    }
}

/// Waits a little, and logs the key of the task before the task is done.
async fn put_down(run: &Run<Site>) -> Result<()> {
    let Site { log, delay } = run.context();
    if let Some(log) = log {
        tokio::time::sleep(delay.mul_f64(fastrand::f64() + 0.5)).await;
        let line = format!("{}\n", run.idempotency_key());
        // One write of one line: whole in the file or not there.
        OpenOptions::new().create(true).append(true).open(log)?.write_all(line.as_bytes())?;
    }
    Ok(())
}

async fn alone(state: &Tree, run: &Run<Site>) -> Result<TreeUpdate> {
    put_down(run).await?;
    let trace = format!("{} after {} with {:?}", run.node(), state.last, state.news);
    Ok(Tree::update().last(run.node().to_owned()).done(1).trace([trace]).news([run.superstep().unsigned_abs()]))
}

async fn seed(state: &Tree, run: &Run<Site>) -> Result<TreeUpdate> {
    alone(state, run).await
}

async fn gather(state: &Tree, run: &Run<Site>) -> Result<TreeUpdate> {
    alone(state, run).await
}

async fn i1(state: &Tree, run: &Run<Site>) -> Result<TreeUpdate> {
    alone(state, run).await
}

async fn i4(state: &Tree, run: &Run<Site>) -> Result<TreeUpdate> {
    alone(state, run).await
}

async fn beside(run: &Run<Site>) -> Result<TreeUpdate> {
    put_down(run).await?;
    Ok(Tree::update().done(1).trace([run.node().to_owned()]))
}

async fn work(Sent(item): Sent<u64>, run: &Run<Site>) -> Result<TreeUpdate> {
    put_down(run).await?;
    Ok(Tree::update().done(1).trace([format!("work {item}")]).news([item]))
}

async fn ask(state: &Tree, run: &Run<Site>) -> Result<TreeUpdate> {
    let answer: String = run.interrupt(&state.answers.len()).await?;
    put_down(run).await?;
    Ok(Tree::update().done(1).answers([answer]))
}

fn items(_: &Tree) -> Vec<u64> {
    (0..WIDTH).collect()
}

fn is_over(state: &Tree) -> bool {
    state.answers.len() == ROUNDS
}

/// The answer to a question.
fn reply(question: &serde_json::Value) -> Command<Tree> {
    Command::resume(format!("answer {question}"))
}

/// The state at the end of an undisturbed run.
pub(crate) async fn undisturbed() -> Tree {
    let graph = CrashTree::compile().checkpointer(MemorySaver::new());
    let config = Config::new().thread("undisturbed");
    let mut outcome =
        graph.invoke(Tree::update()).config(config.clone()).context(Site::default()).await.expect("it runs");
    while let Outcome::Interrupted(interrupted) = outcome {
        let answer = reply(&interrupted.questions[0].value);
        outcome = graph.invoke(answer).config(config.clone()).context(Site::default()).await.expect("it goes on");
    }
    outcome.into_state()
}

/// Begins the thread, continues it, or answers its question. It ends at a question, or at the end, which it
/// prints.
#[test]
#[ignore = "a process that other tests start"]
fn child_process() {
    let variable = |name: &str| std::env::var(name).unwrap_or_else(|_| panic!("`{name}` is not set"));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let graph = CrashTree::compile().checkpointer(super::place::open(&variable(PLACE)).await);
        let durability = if variable(DURABILITY) == "async" { Durability::Async } else { Durability::Sync };
        // The previous process was killed and holds the thread until its lease expires.
        let config = Config::new().thread(variable(THREAD)).durability(durability).when_running(WhenRunning::TakeOver);
        let delay = Duration::from_micros(variable(DELAY).parse().expect("microseconds"));
        let site = Site { log: Some(variable(LOG).into()), delay };
        let open = graph.state(config.clone()).await.expect("the thread can be read");
        println!("\nready");
        let outcome = match (open.checkpoint, open.questions.first()) {
            (None, _) => graph.invoke(Tree::update()).config(config).context(site).await,
            (Some(_), Some(question)) => graph.invoke(reply(&question.value)).config(config).context(site).await,
            (Some(_), None) => graph.invoke(()).config(config).context(site).await,
        };
        match outcome.unwrap_or_else(|error| panic!("{error}")) {
            Outcome::Finished(state) => println!("\nfinished {}", serde_json::to_string(&state).expect("it is JSON")),
            other => println!("\nasked {:?}", other.state().answers.len()),
        }
    });
}
