//! The recursion limit, and the channels that show it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hier_core::graph::Task;
use hier_core::prelude::*;
use hier_core::state::DynState;
use serde_json::{Value, json};

use super::{Builder, builder, outcome, tells};

/// A chain of this many nodes, and the count of how often one ran.
fn chain(length: usize) -> (Builder, Arc<AtomicUsize>) {
    let (count, mut graph) = (Arc::new(AtomicUsize::new(0)), builder());
    for number in 0..length {
        let count = count.clone();
        graph = graph.node(format!("n{number}"), move |_: Task<DynState>| {
            count.fetch_add(1, Ordering::Relaxed);
            std::future::ready(())
        });
        graph = match number.checked_sub(1) {
            None => graph.edge(START, "n0"),
            Some(before) => graph.edge(format!("n{before}"), format!("n{number}")),
        };
    }
    (graph, count)
}

#[tokio::test]
async fn run_of_k_steps_needs_a_limit_of_k_plus_1() {
    for (length, limit, fails, runs) in
        [(1, 1, true, 1), (1, 2, false, 1), (2, 2, true, 2), (2, 3, false, 2), (3, 3, true, 3), (3, 4, false, 3)]
    {
        let (graph, count) = chain(length);
        let result = outcome(graph, json!({ "x": 1 }), Config::new().recursion_limit(limit)).await;
        assert_eq!(matches!(result, Err(RunError::RecursionLimit { .. })), fails, "{length} nodes, limit {limit}");
        assert_eq!((result.is_err(), count.load(Ordering::Relaxed)), (fails, runs), "{length} nodes, limit {limit}");
    }
}

fn managed(task: &Task<DynState>) -> Value {
    json!([task.state().is_last_step(), task.state().remaining_steps()])
}

#[tokio::test]
async fn nodes_see_how_many_steps_remain() {
    let mut graph = builder();
    graph = graph.node("a", tells(managed)).node("b", tells(managed)).node("c", tells(managed));
    graph = graph.edge(START, "a").edge("a", "b").edge("b", "c");
    let outcome = outcome(graph, json!({}), Config::new().recursion_limit(4)).await.expect("it ends");
    assert_eq!(outcome.state().get("log"), Some(&json!([[false, 3], [false, 2], [true, 1]])));
}

/// Differs: the child's list is not merged into the parent's once more (`["p", 9]` stands once).
#[tokio::test]
async fn subgraph_counts_its_own_steps() {
    let steps = |name: &'static str| tells(move |task| json!([name, task.state().remaining_steps()]));
    let mut child = builder();
    child = child.node("i", steps("i")).edge(START, "i");
    let mut graph = builder();
    graph = graph.node("p", steps("p")).subgraph("sub", &super::compile(child)).edge(START, "p").edge("p", "sub");
    let outcome = outcome(graph, json!({}), Config::new().recursion_limit(10)).await.expect("it ends");
    assert_eq!(outcome.state().get("log"), Some(&json!([["p", 9], ["i", 9]])));
}
