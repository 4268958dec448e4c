//! DOT and SVG.

use std::borrow::Cow;
use std::sync::Arc;

use hier_draw::Draw;
use hier_spec::{ArmSpec, ArmTarget, EdgeSpec, Goto, GraphSpec, NestedSpec, NodeSpec, Source, Target};
use proptest::prelude::*;

use super::*;

#[test]
fn dot_has_clusters_and_broken_edges() {
    let mut inner = chain(&["i1", "say \"hi\""]);
    inner = inner.interrupt_after(["i1"]);
    let mut outer = graph(&["w"]);
    outer = outer.subgraph("sub", &compiled(inner)).defer("sub");
    outer = outer.edge(START, "w").edge("sub", "w");
    outer =
        outer.route("w", "choose", [("go\\on", vec![EdgeEnd::from("sub")]), ("stop", vec![END.into()])], |_| "stop");
    let expected = r##"digraph "drawn" {
    node [shape=box, style="rounded,filled", fillcolor="#f2f0ff", fontname="Helvetica"];
    edge [fontname="Helvetica", fontsize=11];
    "__start__" [label="__start__", shape=oval, style=filled, fillcolor="#bfb6fc"];
    "w" [label="w"];
    "__end__" [label="__end__", shape=oval, style=filled, fillcolor="#bfb6fc"];
    subgraph cluster_0 {
        label="sub\ndeferred";
        "sub:i1" [label="i1\ninterrupt after"];
        "sub:say \"hi\"" [label="say \"hi\""];
    }
    "__start__" -> "w";
    "sub:say \"hi\"" -> "w";
    "w" -> "__end__" [style=dashed, label="stop"];
    "w" -> "sub:i1" [style=dashed, label="go\\on"];
    "sub:i1" -> "sub:say \"hi\"";
}
"##;
    assert_eq!(compiled(outer).spec().dot(), expected);
}

#[test]
fn svg_shows_nodes_frames_and_labels() {
    let svg = nested::two().spec().svg();
    for text in [">START</text>", ">END</text>", ">b_sub</text>", ">i2</text>", ">bee</text>", "stroke-dasharray"] {
        assert!(svg.contains(text), "no {text} in {svg}");
    }
    assert!(!svg.contains(">__start__<"));
    let svg = nested::nested().spec().svg();
    assert_eq!(svg.matches("url(#arrow)").count(), 5);
}

#[test]
fn text_in_svg_is_escaped() {
    let svg = compiled(chain(&["a<b> & \"c\"", "line\nbreak\u{7}"])).spec().svg();
    assert!(svg.contains(">a&lt;b&gt; &amp; &quot;c&quot;</text>"));
    assert!(svg.contains(">line</text>") && svg.contains(">break </text>"));
}

/// A name as long as a page does not make the picture as wide: it is broken into a few lines, and shown whole on hover.
#[test]
fn long_names_in_svg_are_folded_and_cut() {
    let (long, longer) = ("letters".repeat(10), "x".repeat(2_000));
    let svg =
        compiled(chain(&[&long, &longer, "words of a name that go on and on until they fill lines"])).spec().svg();
    let width = svg.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a width");
    assert!(width.parse::<f64>().expect("a number") < 500., "{width}");
    assert!(svg.contains(&format!(">{}</text>", &long[..40])) && svg.contains(&format!(">{}</text>", &long[40..])));
    assert!(svg.contains(&format!(">{}…</text>", &longer[..40])));
    assert!(svg.contains(&format!("<title>{longer}</title>")), "the whole name");
    assert!(svg.contains(">words of a name that go on and on until</text>"), "{svg}");
}

/// A layout that looks at all paths would not come back from this one.
#[test]
fn many_diamonds_are_drawn() {
    let mut spec = spec(40 * 3 + 1);
    let mut edges = vec![EdgeSpec::Plain { from: Source::Start, to: Target::Node(0) }];
    for diamond in 0..40 {
        let top = diamond * 3;
        let edge = |from, to| EdgeSpec::Plain { from: Source::Node(from), to: Target::Node(to) };
        edges.extend([edge(top, top + 1), edge(top, top + 2), edge(top + 1, top + 3), edge(top + 2, top + 3)]);
    }
    spec.edges = edges.into();
    let svg = spec.svg();
    assert_eq!(svg.matches("url(#arrow)").count(), 40 * 4 + 2);
}

/// This many nodes, each with a way to END, are placed in rows.
#[test]
fn large_graphs_are_drawn() {
    let mut spec = spec(300);
    let edge = |from, to| EdgeSpec::Plain { from, to };
    let mut edges = vec![edge(Source::Start, Target::Node(0))];
    for node in 0..300 {
        edges.push(edge(Source::Node(node), Target::End));
        edges.push(edge(Source::Node(node), Target::Node((node + 1) % 300)));
    }
    spec.edges = edges.into();
    assert_eq!(spec.svg().matches("url(#arrow)").count(), 601);
}

fn spec(nodes: usize) -> GraphSpec {
    let nodes = (0..nodes).map(|node| NodeSpec { name: format!("n{node}").into(), ..NodeSpec::new("") }).collect();
    GraphSpec {
        name: "random".into(),
        doc: "".into(),
        nodes: Cow::Owned(nodes),
        edges: Cow::Borrowed(&[]),
        interrupt_before: Cow::Borrowed(&[]),
        interrupt_after: Cow::Borrowed(&[]),
    }
}

fn target(nodes: usize) -> impl Strategy<Value = Target> {
    // One beyond the last, which no graph that is checked has, is drawn as nothing.
    prop_oneof![1 => Just(Target::End), 4 => (0..=nodes).prop_map(Target::Node)]
}

fn edge(nodes: usize) -> impl Strategy<Value = EdgeSpec> {
    let source = prop_oneof![1 => Just(Source::Start), 5 => (0..=nodes).prop_map(Source::Node)];
    let go = prop_oneof![target(nodes).prop_map(ArmTarget::Go), (0..=nodes).prop_map(ArmTarget::Send)];
    let arm = ("\\PC{0,40}", prop::collection::vec(go, 0..3))
        .prop_map(|(label, to)| ArmSpec { label: label.into(), to: to.into() });
    let arms = prop::collection::vec(arm, 0..4);
    let join = (prop::collection::vec(0..=nodes, 0..3), target(nodes));
    prop_oneof![
        3 => (source.clone(), target(nodes)).prop_map(|(from, to)| EdgeSpec::Plain { from, to }),
        1 => join.prop_map(|(from, to)| EdgeSpec::Join { from: from.into(), to }),
        2 => (source, arms).prop_map(|(from, arms)| EdgeSpec::Route { from, label: "route".into(), arms: arms.into() }),
    ]
}

/// Any graph, checked or not, of at most this many nodes, with these in some of them.
fn any_spec(nodes: usize, inner: BoxedStrategy<Option<Arc<GraphSpec>>>) -> impl Strategy<Value = GraphSpec> {
    (0..nodes).prop_flat_map(move |nodes| {
        let node = ("\\PC{0,12}", any::<bool>(), prop::collection::vec(target(nodes), 0..2), inner.clone());
        (prop::collection::vec(node, nodes), prop::collection::vec(edge(nodes), 0..nodes * 3 + 1)).prop_map(
            |(nodes, edges)| {
                let nodes: Vec<_> = nodes
                    .into_iter()
                    .map(|(name, defer, goto, nested)| NodeSpec {
                        name: name.into(),
                        defer,
                        goto: Goto::Only(goto.into()),
                        nested: nested.map(NestedSpec::Owned),
                        ..NodeSpec::new("")
                    })
                    .collect();
                GraphSpec { nodes: nodes.into(), edges: edges.into(), ..spec(0) }
            },
        )
    })
}

fn any_nested() -> impl Strategy<Value = GraphSpec> {
    let leaf = any_spec(4, Just(None).boxed()).prop_map(|spec| Some(Arc::new(spec)));
    let leaf = prop_oneof![3 => Just(None), 1 => leaf].boxed();
    let middle = any_spec(5, leaf).prop_map(|spec| Some(Arc::new(spec)));
    any_spec(9, prop_oneof![3 => Just(None), 1 => middle].boxed())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(100) })]

    #[test]
    fn every_graph_can_be_drawn(spec in any_nested()) {
        prop_assert!(spec.mermaid().starts_with("---\n"));
        prop_assert!(spec.dot().starts_with("digraph"));
        let svg = spec.svg();
        prop_assert!(svg.ends_with("</svg>\n"));
        prop_assert!(!["\"NaN", "\"inf", "\"-inf", "MNaN", "Minf"].iter().any(|number| svg.contains(number)));
        prop_assert_eq!(spec.svg(), svg);
    }
}
