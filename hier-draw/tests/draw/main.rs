//! The drawings of graphs. The Mermaid texts are those that `LangGraph` 1.2.22 draws (`get_graph(xray=True)`)
//! of the same graphs, unless a test says otherwise.

mod flow;
mod nested;
mod pictures;

use hier_core::graph::{CompiledGraph, EdgeEnd, GraphBuilder, Task};
use hier_core::prelude::*;
use hier_core::state::{DynState, Schema};
use hier_draw::Draw;

type Builder = GraphBuilder<DynState>;

/// A graph with these nodes, none of which does anything.
fn graph(nodes: &[&str]) -> Builder {
    let mut graph = Builder::dynamic("drawn", Schema::new().last("x"));
    for node in nodes {
        graph = add(graph, node);
    }
    graph
}

/// A node whose commands go nowhere.
fn add(graph: Builder, node: &str) -> Builder {
    graph.node(node, async |_: Task<DynState>| {}).goto(node, Vec::<&str>::new())
}

fn chain(nodes: &[&str]) -> Builder {
    let mut graph = graph(nodes);
    graph = graph.edge(START, nodes[0]).edge(nodes[nodes.len() - 1], END);
    for pair in nodes.windows(2) {
        graph = graph.edge(pair[0], pair[1]);
    }
    graph
}

fn compiled(graph: Builder) -> CompiledGraph<DynState> {
    graph.compile().unwrap_or_else(|error| panic!("{error}"))
}

/// Compares the drawing with these lines, to which the head and the tail that all have are added.
#[track_caller]
fn draws(graph: &CompiledGraph<DynState>, lines: &str) {
    let lines: String = lines.trim().lines().flat_map(|line| ["\t", line.trim(), "\n"]).collect();
    // LangGraph does not indent broken lines of a label.
    let lines = lines.replace("\t__interrupt", "__interrupt");
    let expected = format!(
        "---\nconfig:\n  flowchart:\n    curve: linear\n---\ngraph TD;\n{lines}\tclassDef default fill:#f2f0ff,\
         line-height:1.2\n\tclassDef first fill-opacity:0\n\tclassDef last fill:#bfb6fc\n"
    );
    assert_eq!(graph.spec().mermaid(), expected);
}

#[test]
fn route_has_its_arms_labels() {
    let mut graph = graph(&["a", "b"]);
    graph = graph.edge(START, "a").edge("b", END);
    graph = graph.route("a", "choose", [("go", vec![EdgeEnd::from("b")]), ("end", vec![END.into()])], |_| "go");
    draws(
        &compiled(graph),
        "__start__([<p>__start__</p>]):::first
        a(a)
        b(b)
        __end__([<p>__end__</p>]):::last
        __start__ --> a;
        a -. &nbsp;end&nbsp; .-> __end__;
        a -. &nbsp;go&nbsp; .-> b;
        b --> __end__;",
    );
}

#[test]
fn join_is_an_edge_from_each_source() {
    let mut graph = graph(&["split", "left", "right", "done"]);
    graph = graph.edge(START, "split").edge("split", "left").edge("split", "right").join(["left", "right"], "done");
    graph = graph.edge("done", END);
    draws(
        &compiled(graph),
        "__start__([<p>__start__</p>]):::first
        split(split)
        left(left)
        right(right)
        done(done)
        __end__([<p>__end__</p>]):::last
        __start__ --> split;
        left --> done;
        right --> done;
        split --> left;
        split --> right;
        done --> __end__;",
    );
}

#[test]
fn label_equal_to_the_target_is_omitted() {
    let mut graph = graph(&["work", "check"]);
    graph = graph.route(START, "begin", [("work", vec!["work"]), ("skip", vec!["check"])], |_| "work");
    graph = graph.edge("work", "check");
    graph =
        graph.route("check", "again", [("again", vec![EdgeEnd::from("work")]), ("done", vec![END.into()])], |_| "done");
    draws(
        &compiled(graph),
        "__start__([<p>__start__</p>]):::first
        work(work)
        check(check)
        __end__([<p>__end__</p>]):::last
        __start__ -. &nbsp;skip&nbsp; .-> check;
        __start__ -.-> work;
        check -. &nbsp;done&nbsp; .-> __end__;
        check -. &nbsp;again&nbsp; .-> work;
        work --> check;",
    );
}

#[test]
fn options_are_drawn_below_the_name() {
    let mut graph = chain(&["a", "b", "c"]);
    graph = graph.defer("b").interrupt_before(["a", "b"]).interrupt_after(["b", "c"]);
    draws(
        &compiled(graph),
        "__start__([<p>__start__</p>]):::first
        a(a<hr/><small><em>__interrupt = before</em></small>)
        b(b<hr/><small><em>defer = True
        __interrupt = before,after</em></small>)
        c(c<hr/><small><em>__interrupt = after</em></small>)
        __end__([<p>__end__</p>]):::last
        __start__ --> a;
        a --> b;
        b --> c;
        c --> __end__;",
    );
}

#[test]
fn ids_are_escaped() {
    draws(
        &compiled(chain(&["my node", "*star*", "a.b/c-d_é", "_under_"])),
        r"__start__([<p>__start__</p>]):::first
        my\20node(my node)
        \2astar\2a(<p>*star*</p>)
        a\2eb\2fc-d_\e9(a.b/c-d_é)
        _under_(<p>_under_</p>)
        __end__([<p>__end__</p>]):::last
        \2astar\2a --> a\2eb\2fc-d_\e9;
        __start__ --> my\20node;
        a\2eb\2fc-d_\e9 --> _under_;
        my\20node --> \2astar\2a;
        _under_ --> __end__;",
    );
}

#[test]
fn long_labels_are_broken_and_loops_come_last() {
    let mut graph = graph(&["a", "b"]);
    graph = graph.edge(START, "a").edge("b", END);
    let long = "one two three four five six seven eight nine ten eleven";
    let arms = [(long, vec![EdgeEnd::from("b")]), ("self", vec!["a".into()]), ("stop", vec![END.into()])];
    graph = graph.route("a", "choose", arms, |_| "stop");
    draws(
        &compiled(graph),
        "__start__([<p>__start__</p>]):::first
        a(a)
        b(b)
        __end__([<p>__end__</p>]):::last
        __start__ --> a;
        a -. &nbsp;stop&nbsp; .-> __end__;
        a -. &nbsp;one two three four five six seven eight nine&nbsp<br>&nbspten eleven&nbsp; .-> b;
        b --> __end__;
        a -. &nbsp;self&nbsp; .-> a;",
    );
}

#[test]
fn gotos_are_conditional_edges() {
    let mut graph = graph(&["a", "b"]);
    graph = graph.edge(START, "a").edge("b", "a").goto("a", [EdgeEnd::from("b"), END.into()]);
    draws(
        &compiled(graph),
        "__start__([<p>__start__</p>]):::first
        a(a)
        b(b)
        __end__([<p>__end__</p>]):::last
        __start__ --> a;
        a -.-> __end__;
        a -.-> b;
        b --> a;",
    );
}

/// LangGraph draws only one of several labels, and no Sends.
#[test]
fn arms_with_one_target_share_an_edge_and_sends_have_one() {
    let mut graph = graph(&["a", "b"]);
    graph = graph.edge(START, "a").edge("b", END).each("a", "items", "b", |_| vec![1_i64]);
    graph = graph.route(
        "a",
        "choose",
        [("B(_)", vec![EdgeEnd::from("b")]), ("\"x\" | \"y\"", vec![END.into()])],
        |_| "B(_)",
    );
    draws(
        &compiled(graph),
        "__start__([<p>__start__</p>]):::first
        a(a)
        b(b)
        __end__([<p>__end__</p>]):::last
        __start__ --> a;
        a -. &nbsp;#quot;x#quot; #124; #quot;y#quot;&nbsp; .-> __end__;
        a -. &nbsp;B#40;_#41;, items&nbsp; .-> b;
        b --> __end__;",
    );
}

/// LangGraph does not escape these names, and Mermaid rejects them.
#[test]
fn words_of_mermaid_are_escaped() {
    draws(
        &compiled(chain(&["call", "end", "a(b)"])),
        r"__start__([<p>__start__</p>]):::first
        \63all(call)
        \65nd(end)
        a\28b\29(a#40;b#41;)
        __end__([<p>__end__</p>]):::last
        __start__ --> \63all;
        \63all --> \65nd;
        \65nd --> a\28b\29;
        a\28b\29 --> __end__;",
    );
}

/// An entity in a name is a part of the name, not the letter that it stands for.
#[test]
fn entities_in_names_are_escaped() {
    let mut graph = graph(&["&lt;b&gt;"]);
    graph = graph.edge(START, "&lt;b&gt;").edge("&lt;b&gt;", END);
    let text = compiled(graph).spec().mermaid();
    assert!(text.contains("(#38;lt;b#38;gt;)"), "{text}");
}
