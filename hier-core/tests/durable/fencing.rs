//! One writer a thread: a run that was taken over, one that is refused, one that waits.

use std::sync::Arc;
use std::time::Duration;

use hier_core::checkpoint::{MemorySaver, SaverError, WhenRunning};
use hier_core::graph::NodeDef;
use hier_core::prelude::*;
use hier_core::{Durability, StateUpdate};
use serde_json::json;
use tokio::sync::Notify;

use super::faulty::Faulty;
use super::kit::*;

/// A graph whose node `slow` signals its first start and waits.
struct Gate {
    reached: Arc<Notify>,
    open: Arc<Notify>,
}

fn gated(parallel: bool) -> (Builder, Gate) {
    let gate = Gate { reached: Arc::default(), open: Arc::default() };
    let (reached, open) = (gate.reached.clone(), gate.open.clone());
    let slow = NodeDef::task(move |task: NodeTask| {
        let (reached, open) = (reached.clone(), open.clone());
        async move {
            let run = task.run().context().hit("slow");
            if run == 1 {
                reached.notify_one();
                open.notified().await;
            }
            task.state().update(json!({ "log": [format!("slow {run}")] }))
        }
    });
    let mut graph = marks(&["a", "b", "z"]);
    graph = graph.node("slow", slow).edge(START, "a").edge("a", "slow").edge("slow", "z");
    if parallel {
        graph = graph.edge("a", "b");
    }
    (graph, gate)
}

#[tokio::test]
async fn superseded_run_changes_nothing() {
    for (parallel, durability) in [(false, Durability::Sync), (true, Durability::Sync), (false, Durability::Exit)] {
        let (graph, gate) = gated(parallel);
        let saver = MemorySaver::new();
        let mut bench = Bench::on(graph, Faulty::new(&saver, usize::MAX));
        bench.config = bench.config.durability(durability);
        let stale = async {
            let ended = bench.start(json!({ "x": 1 })).await;
            (ended, bench.stored().await)
        };
        let second = async {
            gate.reached.notified().await;
            let end = if durability == Durability::Exit {
                bench.start(json!({ "x": 1 })).await
            } else {
                bench.continue_run().await
            };
            let log = log(end.unwrap());
            let stored = bench.stored().await;
            gate.open.notify_one();
            (log, stored)
        };
        let ((error, after), (log, before)) = tokio::join!(stale, second);
        let error = error.unwrap_err();
        let superseded =
            matches!(&error, RunError::Saver { error: SaverError::Superseded { thread, .. }, .. } if thread == "t");
        assert!(superseded, "{durability:?}: {error}");
        let expected = if parallel { json!(["a", "b", "slow 2", "z"]) } else { json!(["a", "slow 2", "z"]) };
        assert_eq!(log, expected, "{durability:?}");
        assert_eq!(after, before, "{durability:?}: what the stale run did later is not stored");
        if durability == Durability::Sync {
            assert_eq!(bench.tally.of("z"), 1, "it went no further");
        }
    }
}

#[tokio::test]
async fn run_can_be_refused_while_another_runs() {
    let (graph, gate) = gated(false);
    let bench = Bench::new(graph);
    let second = async {
        gate.reached.notified().await;
        let config = bench.config.clone().when_running(WhenRunning::Reject);
        let error = bench.continue_from(config).await.unwrap_err();
        gate.open.notify_one();
        error
    };
    let first = bench.config.clone().holder("the first");
    let first = bench.graph.invoke(bench.update(json!({ "x": 1 }))).config(first).context(bench.tally.clone());
    let (end, error) = tokio::join!(first, second);
    assert_eq!(log(end.unwrap()), json!(["a", "slow 1", "z"]), "it ran undisturbed");
    let busy = matches!(&error, RunError::Saver { error: SaverError::Busy { thread, holder }, .. }
        if thread == "t" && holder == "the first");
    assert!(busy, "{error}");
    // It has released the thread.
    let config = bench.config.clone().when_running(WhenRunning::Reject);
    assert!(bench.continue_from(config).await.unwrap().is_finished());
}

#[tokio::test]
async fn run_can_wait_for_another() {
    let (graph, gate) = gated(false);
    let bench = Bench::new(graph);
    let second = async {
        gate.reached.notified().await;
        let config = bench.config.clone().when_running(WhenRunning::Wait(Duration::from_mins(1)));
        let (end, ()) = tokio::join!(bench.continue_from(config), async { gate.open.notify_one() });
        end
    };
    let (first, second) = tokio::join!(bench.start(json!({ "x": 1 })), second);
    assert_eq!(log(first.unwrap()), json!(["a", "slow 1", "z"]));
    assert_eq!(log(second.unwrap()), json!(["a", "slow 1", "z"]), "there was nothing left to do");
    assert_eq!(bench.tally.all(), json!({ "a": 1, "slow": 1, "z": 1 }));
}

#[tokio::test(start_paused = true)]
async fn run_waits_for_a_bounded_time() {
    let (graph, gate) = gated(false);
    let bench = Bench::new(graph);
    let second = async {
        gate.reached.notified().await;
        let config = bench.config.clone().when_running(WhenRunning::Wait(Duration::from_secs(5)));
        let error = bench.continue_from(config).await.unwrap_err();
        gate.open.notify_one();
        error
    };
    let (first, error) = tokio::join!(bench.start(json!({ "x": 1 })), second);
    assert!(first.unwrap().is_finished());
    assert!(matches!(error, RunError::Saver { error: SaverError::Busy { .. }, .. }), "{error}");
}

/// A run that is dropped gives its thread free.
#[tokio::test]
async fn dropped_run_holds_nothing() {
    let (graph, gate) = gated(false);
    let bench = Bench::new(graph);
    tokio::select! {
        ended = bench.start(json!({ "x": 1 })) => panic!("{ended:?}"),
        () = gate.reached.notified() => {}
    }
    let config = bench.config.clone().when_running(WhenRunning::Reject);
    assert_eq!(log(bench.continue_from(config).await.unwrap()), json!(["a", "slow 2", "z"]));
}

/// An update from outside takes the thread over, too.
#[tokio::test]
async fn update_from_outside_supersedes_a_run() {
    let (graph, gate) = gated(false);
    let bench = Bench::new(graph);
    let second = async {
        gate.reached.notified().await;
        let update = StateUpdate::update(bench.update(json!({ "x": 9 }))).as_node("slow");
        bench.graph.update_state(bench.config.clone().when_running(WhenRunning::TakeOver), update).await.unwrap();
        gate.open.notify_one();
    };
    let (first, ()) = tokio::join!(bench.start(json!({ "x": 1 })), second);
    assert!(matches!(first.unwrap_err(), RunError::Saver { error: SaverError::Superseded { .. }, .. }));
    let state = bench.state().await;
    assert_eq!((state.values.to_value(), state.next), (json!({ "x": 9, "log": ["a"] }), vec!["z".to_owned()]));
}
