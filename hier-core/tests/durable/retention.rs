//! What a run, an older checkpoint, a copy or a fork builds on is not pruned from under it.

use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, ListQuery, MemorySaver, Prune, SaverError};
use hier_core::prelude::*;
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

/// The answer to a question of the past goes on from a checkpoint that is not the latest. If that one goes meanwhile, the
/// run is refused, and the thread stays readable.
#[tokio::test]
async fn a_run_whose_past_is_pruned_is_refused() {
    let saver = Arc::new(MemorySaver::new());
    let mut graph = marks(&["z"]);
    graph.node("ask", asks_and_prunes(&saver)).edge(START, "ask").edge("ask", "z");
    let bench = Bench::on(graph, saver.clone());
    let _ = bench.start(json!({ "x": 1 })).await.unwrap();
    let old = bench.state().await.config;
    let _ = bench.start(json!({ "x": 2, "log": ["second"] })).await.unwrap();
    let command: Command<DynState> = Command::resume("yes");
    let refused = bench.graph.invoke(command, old, bench.tally.clone()).await;
    assert!(matches!(&refused, Err(RunError::Saver { error: SaverError::Gone { .. }, .. })), "{refused:?}");
    let history = bench.graph.history(bench.config.clone(), ListQuery::default()).await.unwrap();
    assert!(!history.is_empty());
    assert_eq!(log(bench.answer("no").await.unwrap()), json!(["second", "no", "z"]));
}
