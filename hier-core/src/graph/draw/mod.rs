//! Drawings of graphs: [Mermaid](mermaid) text, [DOT](dot) and [SVG](svg).
//!
//! All three show the declared graph, so the same picture is drawn whatever its functions would choose:
//!
//! * an edge that is always followed is a full line; a join is one such line from each of its sources;
//! * the arms of a route are broken lines with the arms' labels, without the label where it is just the target's name;
//!   a Send is a broken line with the name of the function that yields the items; a `goto` is one without a label;
//! * there is at most one line from one node to another: a full one if the graph has it, else a broken one with the
//!   labels of all the arms that lead there;
//! * a node that nothing leaves has an edge to END;
//! * a graph inside another one is drawn inside a frame, to any depth. Its START and END are left out where one node takes
//!   their place: where exactly one edge leaves START (or reaches END) and the node there is then the only one without a
//!   predecessor (a successor). Otherwise they stay, and the edges from outside lead to them. A graph without an END is
//!   drawn as a plain node.
//!
//! The drawings are the same on every run and every machine.

mod dot;
mod mermaid;
mod model;
mod plane;
mod rank;
mod request;
mod svg;

use hier_spec::GraphSpec;

pub use request::{REQUEST, on_request};

/// The graph as a Mermaid flowchart, in the reference's format.
pub fn mermaid(spec: &GraphSpec) -> String {
    mermaid::draw(&model::picture(spec, &|_| true))
}

/// The graph in DOT, the language of Graphviz.
pub fn dot(spec: &GraphSpec) -> String {
    dot::draw(&model::picture(spec, &|_| true), &spec.name)
}

/// The graph as an SVG picture.
///
/// Its parts can be found again by a page that shows it: each node is a `g` of the class `node` (`terminal` too for START and END),
/// each graph inside a `g` of the class `frame`, both with the path of names from the root as a JSON list in `data-path`; edges have
/// the class `edge`, their labels `label`, and the paper `ground`.
pub fn svg(spec: &GraphSpec) -> String {
    svg_opened(spec, |_| true)
}

/// The same with only those graphs inside opened, by the paths of their nodes, that `open` names. The others are nodes of the class
/// `closed`.
pub fn svg_opened(spec: &GraphSpec, open: impl Fn(&[String]) -> bool) -> String {
    svg::draw(&model::picture(spec, &open), &spec.name)
}
