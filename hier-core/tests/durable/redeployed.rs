//! Open threads in graphs that have changed meanwhile: nodes that are gone, renamed, or reached by other edges.

use std::sync::Arc;

use hier_core::graph::{CompiledGraph, GraphBuilder, NodeDef, Task};
use hier_core::prelude::*;

use super::golden;
use super::versions::{OPEN, refused, v1};

type Builder = GraphBuilder<v1::Case>;

fn note(text: &'static str) -> NodeDef<v1::Case> {
    NodeDef::task(move |_: Task<v1::Case>| async move { v1::note(text) })
}

/// The graph of the golden thread, with its two parallel nodes called like this.
fn graph(name: &str, ask: &'static str, beside: &'static str) -> CompiledGraph<v1::Case> {
    let mut graph = Builder::new(name);
    for name in ["collect", "check", beside, "publish"] {
        graph = graph.node(name, note("ran again"));
    }
    graph = graph.node(ask, async |task: Task<v1::Case>| -> hier_core::Result<v1::CaseUpdate> {
        let answer: String = task.run().interrupt(&"publish?").await?;
        Ok(v1::note(&answer))
    });
    graph = graph.edge(START, "collect").edge("collect", ask).edge("collect", beside);
    graph = graph.each("collect", "items", "check", |_| [0_u64; 0]).join([ask, beside], "publish");
    graph = graph.edge("publish", END).edge("check", END);
    graph.compile().unwrap_or_else(|error| panic!("{error}"))
}

fn end(outcome: Result<Outcome<v1::Case>, RunError>) -> Vec<String> {
    v1::findings(outcome.unwrap().state()).to_vec()
}

#[tokio::test]
async fn removed_node_is_reported() {
    let graph = graph("review", "confirm", "beside").checkpointer(golden::stored(OPEN).await);
    for result in
        [graph.state("t").await.map(|_| ()), graph.invoke(Command::resume("yes")).thread("t").await.map(|_| ())]
    {
        refused(result, &["node `ask`", ".renamed(\"ask\""]);
    }
    let graph = graph.renamed("ask", "confirm");
    assert_eq!(graph.state("t").await.unwrap().next, ["confirm"]);
    let asked = graph.invoke(()).thread("t").await.unwrap();
    assert!(matches!(&asked, Outcome::Interrupted(asked) if asked.questions.len() == 1), "{asked:?}");
    let log = end(graph.invoke(Command::resume("yes")).thread("t").await);
    assert_eq!(log, ["collected", "beside", "yes", "ran again"]);
}

/// Work under the node's old name is finished.
#[tokio::test]
async fn finished_renamed_node_does_not_run_again() {
    let graph = graph("review", "ask", "sibling").renamed("beside", "sibling");
    let graph = graph.checkpointer(golden::stored(OPEN).await);
    assert_eq!(graph.state("t").await.unwrap().next, ["ask"]);
    let log = end(graph.invoke(Command::resume("yes")).thread("t").await);
    assert_eq!(log, ["collected", "yes", "beside", "ran again"]);
}

/// Current and former names of nodes are texts with any letters.
#[tokio::test]
async fn non_ascii_node_names_are_stored() {
    let graph = |name: &'static str| {
        let mut graph = super::kit::marks(&[]);
        graph = graph.node(name, super::kit::asks(&["?"])).edge(START, name);
        graph
    };
    let mut bench = super::kit::Bench::new(graph("审核"));
    let _ = bench.start(serde_json::json!({ "x": 1 })).await.unwrap();
    bench.graph = bench.graph.renamed("ab", "x").renamed("核", "y").renamed("é", "审核");
    assert_eq!(bench.state().await.next, ["审核"]);
    assert_eq!(super::kit::log(bench.answer("yes").await.unwrap()), serde_json::json!(["yes"]));
    let mut bench = super::kit::Bench::new(graph("审核"));
    let _ = bench.start(serde_json::json!({ "x": 1 })).await.unwrap();
    bench.graph = super::kit::compile(graph("check")).checkpointer(bench.saver.clone()).renamed("审核", "check");
    assert_eq!(super::kit::log(bench.answer("yes").await.unwrap()), serde_json::json!(["yes"]));
}

/// A new edge does not change open tasks, even if another edge would now trigger their nodes.
#[tokio::test]
async fn new_edges_do_not_change_an_open_step() {
    let mut graph = Builder::new("review");
    for name in ["collect", "check", "beside", "publish", "added"] {
        graph = graph.node(name, note("ran again"));
    }
    let keys = Arc::new(std::sync::Mutex::new(Vec::new()));
    let noted = keys.clone();
    graph = graph.node("ask", move |task: Task<v1::Case>| {
        let noted = noted.clone();
        async move {
            noted.lock().unwrap().push(task.run().task_id());
            let answer: String = task.run().interrupt(&"publish?").await?;
            Ok::<_, NodeError>(v1::note(&answer))
        }
    });
    graph = graph.edge(START, "collect").edge(START, "added").edge("collect", "ask").edge("collect", "beside");
    graph = graph.edge("added", "ask").edge("added", "beside").edge("added", "check");
    graph = graph.each("collect", "items", "check", |_| [0_u64; 0]).join(["ask", "beside"], "publish");
    graph = graph.edge("publish", END).edge("check", END);
    let graph = graph.compile().unwrap_or_else(|error| panic!("{error}"));
    let graph = graph.checkpointer(golden::stored(OPEN).await);
    let open = graph.state("t").await.unwrap();
    assert_eq!((open.next.as_slice(), open.questions.len()), (&["ask".to_owned()][..], 1));
    let log = end(graph.invoke(Command::resume("yes")).thread("t").await);
    assert_eq!(log, ["collected", "yes", "beside", "ran again"]);
    let task = open.tasks.iter().find(|task| task.node == "ask").map(|task| task.id);
    assert_eq!(*keys.lock().unwrap(), [task.unwrap()], "it is the task that it was");
}

#[tokio::test]
async fn renamed_graph_continues_its_threads() {
    let graph = graph("audit", "ask", "beside").checkpointer(golden::stored(OPEN).await);
    let error = graph.state("t").await.unwrap_err();
    assert!(error.to_string().contains("thread of graph `review`"), "{error}");
    let graph = graph.renamed("review", "audit");
    let log = end(graph.invoke(Command::resume("yes")).thread("t").await);
    assert_eq!(log, ["collected", "yes", "beside", "ran again"]);
}
