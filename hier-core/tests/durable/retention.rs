//! Pruning keeps the data that a run, a checkpoint, a copy or a fork builds on.

use std::sync::Arc;
use std::time::Duration;

use hier_core::StateUpdate;
use hier_core::checkpoint::{
    Checkpointer, Claim, ListQuery, MemorySaver, Prune, SaverError, Strategy, ThreadAdmin, sweep_every,
};
use hier_core::graph::NodeDef;
use hier_core::prelude::*;
use hier_core::state::DynState;
use serde_json::{Value, json};

use super::kit::*;

/// A node that asks, and while it works the thread is pruned to its latest checkpoints.
fn asks_and_prunes(saver: &Arc<MemorySaver>) -> Node {
    let saver = saver.clone();
    NodeDef::task(move |task: NodeTask| {
        let saver = saver.clone();
        async move {
            let answer: Value = task.run().interrupt(&"q").await?;
            saver.prune(Prune::default()).await.map_err(|error| NodeError::permanent(error.to_string()))?;
            task.state().update(json!({ "log": [answer] }))
        }
    })
}

/// The answer to a question of the past continues from a checkpoint that is not the latest. If that one is deleted meanwhile, the
/// run is refused, and the thread stays readable.
#[tokio::test]
async fn run_from_a_pruned_checkpoint_is_refused() {
    let saver = Arc::new(MemorySaver::new());
    let mut graph = marks(&["z"]);
    graph = graph.node("ask", asks_and_prunes(&saver)).edge(START, "ask").edge("ask", "z");
    let bench = Bench::on(graph, saver.clone());
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let old = bench.state().await.config;
    let _ = bench.start(json!({ "x": 2, "log": ["second"] })).await.unwrap();
    let command: Command<DynState> = Command::resume("yes");
    let refused = bench.graph.invoke(command).config(old).context(bench.tally.clone()).await;
    assert!(matches!(&refused, Err(RunError::Saver { error: SaverError::Gone { .. }, .. })), "{refused:?}");
    let history = bench.graph.history(bench.config.clone(), ListQuery::default()).await.unwrap();
    assert!(!history.is_empty());
    assert_eq!(log(bench.answer("no").await.unwrap()), json!(["second", "no", "z"]));
}

/// A value that is longer than a reference to it.
fn long() -> Value {
    json!([format!("{:0100}", 1)])
}

/// The input is stored once, with the step after it. A copy of its checkpoint has it for itself.
#[tokio::test]
async fn copied_input_outlives_its_original() {
    let bench = Bench::new(row(&["a", "b"]));
    let end = bench.start(json!({ "x": 1, "log": long() })).await.unwrap();
    bench.graph.update_state(bench.at(0).await, StateUpdate::copy()).await.unwrap();
    bench.saver.prune(Prune::default()).await.unwrap();
    assert_eq!(bench.state().await.next, ["__start__"]);
    assert_eq!(log(bench.continue_run().await.unwrap()), end.state().to_value()["log"]);
    // So has the fork that a replay of it makes.
    let bench = Bench::new(row(&["a", "b"]));
    let _ = bench.start(json!({ "x": 1, "log": long() })).await.unwrap();
    assert_eq!(log(bench.continue_from(bench.at(0).await).await.unwrap()), end.state().to_value()["log"]);
    bench.saver.prune(Prune { strategy: Strategy::Keep(4), ..Prune::default() }).await.unwrap();
    let kept: Vec<_> = bench.history().await.iter().map(|at| at.next.clone()).collect();
    assert_eq!(kept, [vec!["__start__"], vec!["a"], vec!["b"], vec![]]);
}

/// A copy of a checkpoint has the commands of callers there, and its input outlives the steps after the original.
#[tokio::test]
async fn branch_has_the_pending_input_of_its_checkpoint() {
    let mut graph = row(&["a"]);
    graph = graph.node("b", fails(1)).node("other", mark()).edge("a", "b");
    let bench = Bench::new(graph);
    let long = "an input that is too long to be stored twice".repeat(4);
    bench.start(json!({ "log": [long] })).await.unwrap_err();
    let command = Command::update(bench.update(json!({ "x": 5, "log": ["told"] }))).goto("other");
    let end = bench.command(command).await.unwrap();
    assert_eq!(end.state().to_value()["x"], json!(5));
    let saver: Arc<dyn Checkpointer> = bench.saver.clone();
    let history = bench.history().await;
    let after_a = history.iter().find(|at| at.next.contains(&"b".to_owned())).and_then(|at| at.checkpoint).unwrap();
    let input = history[0].checkpoint.unwrap();
    for (from, logged) in [(after_a, json!(["a", "told", "b", "other"])), (input, json!(["a", "b"]))] {
        bench.saver.copy_thread("t", "copy").await.unwrap();
        let lease = bench.saver.acquire("copy", Claim::default()).await.unwrap();
        let made = hier_core::branch_off(&saver, &lease, from).await.unwrap().expect("the checkpoint is there");
        assert_eq!(hier_core::branch_off(&saver, &lease, uuid::Uuid::nil()).await.unwrap(), None);
        bench.saver.release(&lease).await.unwrap();
        bench.saver.prune(Prune { threads: Some(vec!["copy".to_owned()]), ..Prune::default() }).await.unwrap();
        let state = bench.graph.state("copy").await.unwrap();
        assert_eq!(state.checkpoint, Some(made));
        let end = bench.graph.invoke(()).thread("copy").context(bench.tally.clone()).await.unwrap();
        let whole = log(end);
        assert_eq!(whole[0], json!(long), "the input");
        assert_eq!(json!(whole.as_array().unwrap()[1..]), logged);
    }
}

/// The sweeper runs once for each interval, and stops with its guard.
#[tokio::test(start_paused = true)]
async fn sweeper_deletes_expired_threads_at_its_interval() {
    let bench = Bench::new(row(&["a"]));
    let run_and_expire = async || {
        let input = bench.graph.update(json!({})).unwrap();
        let run = bench.graph.invoke(input).thread("short").time_to_live(Duration::ZERO).context(bench.tally.clone());
        assert!(run.await.unwrap().is_finished());
    };
    let threads = async || bench.saver.admin().unwrap().threads(None).await.unwrap().len();
    let _ = bench.start(json!({})).await.unwrap();
    let interval = Duration::from_mins(1);
    let sweeper = sweep_every(bench.saver.clone(), interval);
    for _ in 0..2 {
        run_and_expire().await;
        tokio::time::sleep(interval).await;
        assert_eq!(threads().await, 1, "only the thread without a time to live");
    }
    drop(sweeper);
    run_and_expire().await;
    tokio::time::sleep(2 * interval).await;
    assert_eq!(threads().await, 2);
}
