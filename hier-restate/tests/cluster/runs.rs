//! Runs behave as in one process.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::checkpoint::ListQuery;
use hier_core::graph::{DynCommand, DynInput, DynUpdates};
use hier_core::prelude::*;
use hier_restate::{Error, FanOut};
use serde_json::{Value, json};

use crate::support::serve;

#[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
struct Desk {
    goal: u64,
    #[reducer(sum)]
    done: u64,
    #[reducer(append)]
    rounds: Vec<u64>,
    answer: String,
}

graph! {
    Rounds<Desk, Arc<AtomicUsize>> = Graph {
        nodes: [seed, work, gather],
        edges: [
            START >> if has_work { seed } else { END },
            seed >> for item in items { work(item) },
            work >> gather >> if has_work { seed } else { END },
        ],
    }
}

async fn seed() {}

async fn work(Sent(_item): Sent<u64>, run: &Run<Arc<AtomicUsize>>) -> DeskUpdate {
    run.context().fetch_add(1, Ordering::SeqCst);
    Desk::update().done(1)
}

async fn gather(state: &Desk) -> DeskUpdate {
    Desk::update().rounds([state.rounds.len() as u64])
}

fn has_work(state: &Desk) -> bool {
    (state.rounds.len() as u64) < state.goal
}

fn items(state: &Desk) -> Vec<u64> {
    (0..=state.goal).collect()
}

graph! {
    Asks<Desk> = Graph {
        nodes: [before, ask, after],
        edges: [START >> before >> ask >> after >> END],
    }
}

async fn before() -> DeskUpdate {
    Desk::update().done(1)
}

async fn ask(run: &Run) -> hier_core::Result<DeskUpdate> {
    let answer: String = run.interrupt(&"may we?").await?;
    Ok(Desk::update().answer(answer))
}

async fn after() -> DeskUpdate {
    Desk::update().done(1)
}

fn new(values: Value) -> DynInput {
    DynInput::New(values)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn steps_end_as_in_one_process() {
    for fan_out in [FanOut::Local, FanOut::Remote(2), FanOut::Nodes(vec!["work".to_owned()])] {
        let counted = Arc::new(AtomicUsize::new(0));
        let context = counted.clone();
        let graph = serve(|endpoint, name| endpoint.graph(name, Rounds::compile(), context).fan_out(fan_out.clone()));
        let graph = graph.await;
        let end = graph.invoke(new(json!({ "goal": 3 }))).thread("a").await.unwrap();
        assert!(end.is_finished());
        assert_eq!(end.state()["done"], json!(12), "{fan_out:?}");
        assert_eq!(end.state()["rounds"], json!([0, 1, 2]));
        assert_eq!(counted.load(Ordering::SeqCst), 12);
        let history = graph.history("a", ListQuery::default()).await.unwrap();
        let steps: Vec<i64> = history.iter().map(|snapshot| snapshot.step).collect();
        assert_eq!(steps, (-1..=9).rev().collect::<Vec<i64>>());
        // A thread that has ended continues with its state.
        let end = graph.invoke(new(json!({ "goal": 4 }))).thread("a").await.unwrap();
        assert_eq!(end.state()["rounds"], json!([0, 1, 2, 3]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn answer_starts_the_next_run() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Asks::compile(), ())).await;
    let config = || Config::new().thread("q");
    let end = graph.invoke(new(json!({ "goal": 1 }))).config(config()).await.unwrap();
    let Outcome::Interrupted(asked) = end else { panic!("{end:?}") };
    assert_eq!(asked.questions[0].value, json!("may we?"));
    let state = graph.state(config()).await.unwrap();
    assert_eq!((state.next, state.questions.len()), (vec!["ask".to_owned()], 1));

    let mut command = DynCommand::default();
    command.resume = Some(json!("yes"));
    let end = graph.invoke(DynInput::Command(command.clone())).config(config()).await.unwrap();
    assert_eq!((end.is_finished(), &end.state()["answer"], &end.state()["done"]), (true, &json!("yes"), &json!(2)));

    // A second answer is refused and changes nothing.
    let error = graph.invoke(DynInput::Command(command)).config(config()).await.unwrap_err();
    let Error::Run(failure) = error else { panic!("{error:?}") };
    assert_eq!(failure.kind, "AnswerError");

    graph.update_state(config(), DynUpdates::values(json!({ "answer": "no" })).as_node("ask")).await.unwrap();
    let state = graph.state(config()).await.unwrap();
    assert_eq!((&state.values["answer"], state.next), (&json!("no"), vec!["after".to_owned()]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a Restate server: run ./scripts/peers.sh cluster"]
async fn recursion_limit_counts_supersteps_of_all_slices() {
    let graph = serve(|endpoint, name| endpoint.graph(name, Rounds::compile(), Arc::new(AtomicUsize::new(0)))).await;
    let error = graph.invoke(new(json!({ "goal": 100 }))).thread("l").recursion_limit(10).await.unwrap_err();
    let Error::Run(failure) = error else { panic!("{error:?}") };
    assert_eq!(failure.kind, "GraphRecursionError", "{failure}");
}
