//! Valid and invalid graphs.

use hier_core::graph::EdgeEnd;
use hier_core::prelude::*;
use serde_json::json;

use super::{Builder, compile, marks, run};

fn refused(graph: Builder) -> Vec<String> {
    graph.compile().expect_err("the graph is refused").mistakes
}

#[test]
fn graphs_that_cannot_run_are_refused() {
    let no_entry = marks(&["a"]);
    let mut unknown_end = marks(&["a"]);
    unknown_end = unknown_end.edge(START, "a").edge("a", "zz");
    let mut unknown_start = marks(&["a"]);
    unknown_start = unknown_start.edge(START, "a").edge("zz", "a");
    let mut join_of_start = marks(&["a"]);
    join_of_start = join_of_start.edge(START, "a").edge(EdgeEnd::End, "a");
    let mut breakpoint = marks(&["a"]);
    breakpoint = breakpoint.edge(START, "a").interrupt_before(["zz"]);
    for (graph, expected) in [
        (no_entry, "START"),
        (unknown_end, "there is no node `zz`"),
        (unknown_start, "there is no node `zz`"),
        (join_of_start, "an edge cannot start at END"),
        (breakpoint, "there is no node `zz`"),
    ] {
        let mistakes = refused(graph);
        assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{expected}: {mistakes:?}");
    }
}

#[test]
fn indistinguishable_names_are_refused() {
    for (name, expected) in [("__end__", "reserved"), ("a", "given twice"), ("a:b", "reserved"), ("a|b", "reserved")] {
        let mut graph = marks(&["a", name]);
        graph = graph.edge(START, "a");
        let mistakes = refused(graph);
        assert!(mistakes.len() == 1 && mistakes[0].contains(expected), "{name}: {mistakes:?}");
    }
}

#[tokio::test]
async fn small_graphs_run() {
    let mut unreachable = marks(&["a", "b"]);
    unreachable = unreachable.edge(START, "a");
    assert_eq!(run(unreachable, json!({ "x": 1 })).await, json!({ "x": 1, "log": ["a"] }));

    let mut nothing = marks(&[]);
    nothing = nothing.edge(START, END);
    assert_eq!(run(nothing, json!({ "x": 1 })).await, json!({ "x": 1, "log": [] }));

    let mut one = marks(&["a"]);
    one = one.edge(START, "a");
    assert_eq!(run(one, json!({})).await, json!({ "log": ["a"] }));

    let mut one = marks(&["a"]);
    one = one.edge(START, "a");
    let error = compile(one).invoke(()).await.expect_err("there is nothing to go on with");
    assert!(matches!(error, RunError::EmptyInput { .. }), "{error}");
}
