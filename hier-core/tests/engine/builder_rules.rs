//! The builder applies the rules of `graph!`: it refuses the same graphs with the same messages.

use hier_core::graph::{GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::state::{DynState, Schema};

/// A graph with these nodes, each of which does nothing.
fn graph(name: &str, nodes: &[&str]) -> GraphBuilder<DynState> {
    let mut graph = GraphBuilder::dynamic(name, Schema::new().last("x"));
    for node in nodes {
        graph = graph.node(*node, async |task: Task<DynState>| task.state().update(serde_json::json!({})));
    }
    graph
}

/// Returns its mistakes.
fn mistakes(graph: GraphBuilder<DynState>) -> Vec<String> {
    graph.compile().err().map(|error| error.mistakes).unwrap_or_default()
}

/// There is one mistake, which says this.
fn refused(graph: GraphBuilder<DynState>, piece: &str) {
    let mistakes = mistakes(graph);
    assert!(matches!(mistakes.as_slice(), [one] if one.contains(piece)), "{piece}: {mistakes:#?}");
}

#[test]
fn names_of_the_engine_are_refused() {
    for name in ["", "a|b", "a:b", "a/b"] {
        let mut graph = graph(name, &["a"]);
        graph = graph.edge(START, "a").edge("a", END);
        refused(graph, if name.is_empty() { "the name of the graph is empty" } else { "the graph name" });
    }
    for name in ["__x", "START", "a:b", " "] {
        let mut graph = graph("g", &[name]);
        graph = graph.edge(START, name).edge(name, END);
        refused(graph, &format!("the node name `{name}`"));
    }
    for name in ["a:b", "branch:to:a", "__x"] {
        let mut graph: GraphBuilder<DynState> = GraphBuilder::dynamic("g", Schema::new().last(name));
        graph = graph.node("a", async |task: Task<DynState>| task.state().update(serde_json::json!({})));
        graph = graph.edge(START, "a").edge("a", END);
        refused(graph, &format!("the channel name `{name}` is reserved"));
    }
}

#[test]
fn empty_joins_and_duplicates_are_refused() {
    let chain = || {
        let mut chain = graph("g", &["a", "b"]);
        chain = chain.edge(START, "a").edge("a", "b").edge("b", END);
        chain
    };
    assert!(mistakes(chain()).is_empty());
    let mut empty = chain();
    empty = empty.join([], "b");
    refused(empty, "the join into `b` has no sources");
    // A lenient builder has no graph for it, either.
    let mut lenient = chain();
    lenient = lenient.lenient().join([], "b");
    refused(lenient, "the join into `b` has no sources");
    let mut doubled = chain();
    doubled = doubled.route("b", "r", [("x", vec!["a"]), ("x", vec!["b"])], |_| "x");
    assert!(mistakes(doubled).iter().any(|mistake| mistake.contains("two arms `x`")));
    let mut stops = chain();
    stops = stops.interrupt_before(["a", "a"]);
    refused(stops, "the node `a` is given twice in `interrupt_before`");
    let mut joins = graph("g", &["a", "b", "c"]);
    joins = joins.edge(START, "a").edge(START, "b").join(["a", "b"], "c").join(["b", "a"], "c").edge("c", END);
    refused(joins, "the join of `[b, a]` into `c` is given twice");
}

#[test]
fn unconditional_cycle_is_refused_unless_lenient() {
    let circle = || {
        let mut circle = graph("g", &["a", "b"]);
        circle = circle.edge(START, "a").edge("a", "b").edge("b", "a");
        circle = circle.route(
            "b",
            "done",
            [("yes", vec![END.into()]), ("no", vec![hier_core::graph::EdgeEnd::from("a")])],
            |_| "yes",
        );
        circle
    };
    refused(circle(), "`b >> a` is always followed");
    let mut lenient = circle();
    lenient = lenient.lenient();
    assert!(mistakes(lenient).is_empty());
}
