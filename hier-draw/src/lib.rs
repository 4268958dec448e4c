//! Drawings of graphs: [Mermaid](Draw::mermaid) text, [DOT](Draw::dot) and [SVG](Draw::svg).
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

/// Draws a graph.
///
/// ```
/// use hier_core::prelude::*;
/// use hier_draw::Draw;
///
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Case { done: bool }
/// # async fn assess() {}
/// graph! {
///     Review<Case> = Graph { nodes: [assess], edges: [START >> assess >> END] }
/// }
///
/// assert!(Review::SPEC.mermaid().contains("assess"));
/// ```
pub trait Draw {
    /// Draws a Mermaid flowchart in LangGraph's format.
    fn mermaid(&self) -> String;

    /// Draws in DOT, the language of Graphviz.
    fn dot(&self) -> String;

    /// Draws an SVG picture.
    ///
    /// A page that shows it can find its parts: each node is a `g` of the class `node` (START and END also `terminal`), each graph inside
    /// a `g` of the class `frame`, both with the path of names from the root as a JSON list in `data-path`. Edges have the class `edge`,
    /// their labels `label`, and the background `ground`.
    fn svg(&self) -> String {
        self.svg_opened(|_| true)
    }

    /// Draws an SVG picture in which `open` selects the graphs inside that are shown, by the paths of their nodes. The others are nodes of
    /// the class `closed`.
    fn svg_opened(&self, open: impl Fn(&[String]) -> bool) -> String;
}

impl Draw for GraphSpec {
    fn mermaid(&self) -> String {
        mermaid::draw(&model::picture(self, &|_| true))
    }

    fn dot(&self) -> String {
        dot::draw(&model::picture(self, &|_| true), &self.name)
    }

    fn svg_opened(&self, open: impl Fn(&[String]) -> bool) -> String {
        svg::draw(&model::picture(self, &open), &self.name)
    }
}
