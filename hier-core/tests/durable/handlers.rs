//! Error handlers that outlive the run in which the node failed.

use hier_core::Durability;
use hier_core::prelude::*;
use serde_json::{Value, json};

use super::kit::*;

/// A node that always fails, and a handler that asks what to do.
fn asking_handler() -> Node {
    let boom = does(|_| Err(NodeError::permanent("boom")));
    boom.on_error(|task: NodeTask| async move {
        task.run().context().hit("handler");
        let answer: Value = task.run().interrupt(&"what now?").await?;
        let failure = task.failure().map(|failure| (failure.node.clone(), failure.error.to_string()));
        task.state().update(json!({ "log": [[answer, failure]] }))
    })
}

#[tokio::test]
async fn after_a_question_of_the_handler_only_the_handler_runs() {
    for durability in [Durability::Sync, Durability::Async, Durability::Exit] {
        let mut graph = marks(&["sibling", "b"]);
        graph = graph.node("a", asking_handler()).edge(START, "a").edge(START, "sibling").edge("a", "b");
        let mut bench = Bench::new(graph);
        bench.config = bench.config.durability(durability);
        assert_eq!(asked(bench.start(json!({ "x": 1 })).await.unwrap()), ["what now?"]);
        let task = &bench.state().await.tasks[0];
        assert_eq!((task.node.as_str(), task.error.as_deref()), ("a", Some("boom")));
        // The error is rebuilt from its text; the node's own edges are not followed.
        let end = log(bench.answer("go").await.unwrap());
        assert_eq!(end, json!([["go", ["a", "boom"]], "sibling"]), "{durability:?}");
        assert_eq!(bench.tally.all(), json!({ "a": 1, "handler": 2, "sibling": 1 }), "{durability:?}");
    }
}

#[tokio::test]
async fn failed_handler_runs_again_without_its_node() {
    let mut graph = builder();
    let boom = does(|_| Err(NodeError::permanent("boom")));
    let handler = |task: NodeTask| async move {
        if task.run().context().hit("handler") == 1 {
            return Err(NodeError::permanent("the handler too"));
        }
        task.state().update(json!({ "log": ["handled"] }))
    };
    graph = graph.node("a", boom.on_error(handler)).edge(START, "a");
    let bench = Bench::new(graph);
    let error = bench.start(json!({ "x": 1 })).await.unwrap_err();
    assert!(error.to_string().contains("the handler too"), "{error}");
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["handled"]));
    assert_eq!(bench.tally.of("handler"), 2);
}

/// A finished handler stays finished: its node's edges are not followed when the step is resumed.
#[tokio::test]
async fn finished_handler_does_not_run_again() {
    let mut graph = marks(&["b", "z"]);
    let boom = does(|_| Err(NodeError::permanent("boom")));
    let handler = |task: NodeTask| async move {
        task.run().context().hit("handler");
        Ok::<_, NodeError>(Command::update(task.state().update(json!({ "log": ["handled"] }))?).goto("z"))
    };
    graph = graph.node("a", boom.on_error(handler)).node("late", fails(1));
    graph = graph.edge(START, "a").edge(START, "late").edge("a", "b");
    let bench = Bench::new(graph);
    bench.start(json!({ "x": 1 })).await.unwrap_err();
    assert_eq!(bench.state().await.next, ["late"]);
    assert_eq!(log(bench.continue_run().await.unwrap()), json!(["handled", "late", "z"]));
    assert_eq!(bench.tally.all(), json!({ "a": 1, "handler": 1, "late": 2, "z": 1 }));
}
