//! Drawings of graphs: [Mermaid](Draw::mermaid) text, [DOT](Draw::dot) and [SVG](Draw::svg).
//!
//! A drawing shows all edges that a graph declares, regardless of the edges that its functions choose at run time:
//!
//! * An edge that is always followed is a solid line. A join is a solid line from each of its sources.
//! * An arm of a route is a dashed line with the arm's label. A label that equals the name of the target is omitted.
//! * A Send is a dashed line with the name of the function that returns the items. A transition that a node's `goto`
//!   declares is a dashed line without a label.
//! * Several edges from one node to another are drawn as one line. If one of these edges is always followed, the line
//!   is solid. Otherwise the line is dashed and has the labels of all arms.
//! * A node without outgoing edges is drawn with an edge to END.
//! * A nested graph is drawn inside a frame, at any depth. If no edge of a nested graph leads to END, the nested graph
//!   is drawn as a plain node without a frame.
//! * The START of a nested graph is omitted if exactly one edge leaves it, and if this edge leads to the only node
//!   without another predecessor. The END is omitted if exactly one edge leads to it, and if this edge comes from the
//!   only node without another successor. Otherwise the START or END is drawn, and the edges from and to the nodes
//!   outside the nested graph are connected to it.
//!
//! In SVG and DOT, a node has a tooltip with the channels that it reads and writes, as far as its types show them.
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

/// Methods that draw a graph as Mermaid, DOT or SVG text.
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
    /// Draws the graph as a Mermaid flowchart, in the format of LangGraph.
    fn mermaid(&self) -> String;

    /// Draws the graph in DOT, the language of Graphviz.
    fn dot(&self) -> String;

    /// Draws an SVG picture.
    ///
    /// Scripts can find the parts of the picture by their classes:
    ///
    /// * A node is a `g` of the class `node`. START and END also have the class `terminal`.
    /// * A nested graph is a `g` of the class `frame`.
    /// * An edge has the class `edge`, and its label has the class `label`.
    /// * The white background of the picture has the class `ground`.
    ///
    /// Each `g` of a node or a frame has the attribute `data-path`. Its value is a JSON list of the names on the path
    /// from the root graph.
    fn svg(&self) -> String {
        self.svg_opened(|_| true)
    }

    /// Draws an SVG picture like [`svg`](Self::svg), but shows the content of only some nested graphs. The function
    /// `open` receives the path of a node with a nested graph, and returns true to show the graph. Each other nested
    /// graph is drawn as a node with the additional class `closed`.
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
