//! Graphs as data, and the rules of their shape.
//!
//! Four parts of hier read a [`GraphSpec`]: the `graph!` macro, which checks it at compile time; the run-time builder,
//! which reports the same findings as errors; the engine; and the drawings. The macro writes it as a constant, in which
//! every list is a borrowed slice.

#[doc(hidden)]
pub mod agent;
mod check;
pub mod const_text;
mod declare;
#[doc(hidden)]
pub mod flow;
#[doc(hidden)]
pub mod names;
#[doc(hidden)]
pub mod positions;
mod reach;
mod suggest;
mod together;
pub mod trust;

pub use check::{Finding, ShapeRule, SpecSite, check};
pub use suggest::{did_you_mean, nearest};

use std::borrow::Cow;
use std::sync::Arc;

/// A text: a constant in the graph of a macro, owned in that of a builder.
pub type Text = Cow<'static, str>;
/// A list: a constant in the graph of a macro, owned in that of a builder.
pub type List<T> = Cow<'static, [T]>;

/// The name of a graph's entry in events, checkpoints and drawings.
pub const START: &str = "__start__";
/// The name of a graph's end in events and drawings.
pub const END: &str = "__end__";

/// A graph: nodes, edges and breakpoints.
#[derive(Clone, Debug)]
pub struct GraphSpec {
    /// The graph's name. Defaults to the name of its type in snake case.
    pub name: Text,
    /// The doc comment or description of the graph.
    pub doc: Text,
    /// The nodes, in the order of their declaration. Their indices identify them everywhere else.
    pub nodes: List<NodeSpec>,
    /// The edges, in the order of their declaration.
    pub edges: List<EdgeSpec>,
    /// Nodes before which a run stops.
    pub interrupt_before: List<usize>,
    /// Nodes after which a run stops.
    pub interrupt_after: List<usize>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The node's name. Parallel writes are applied in the order of the names.
    pub name: Text,
    /// True if the node waits until no other task is left to run.
    pub defer: bool,
    /// The targets that the node's commands may choose.
    pub goto: Goto,
    /// The channels that the node declares to always write.
    pub writes: List<Text>,
    /// The spec of the graph that this node runs, if it runs one.
    pub nested: Option<NestedSpec>,
    /// True if that graph keeps its state for the whole thread, so that its calls cannot run in parallel.
    pub per_thread: bool,
    /// The channels that the node reads and writes, if the types of its graph are known.
    pub flow: Option<flow::FlowSpec>,
    /// The names of the layers around the node's calls, from the outermost on. Only nodes of agents have layers.
    pub layers: List<Text>,
}

impl NodeSpec {
    /// Creates a node without options.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            defer: false,
            goto: Goto::Only(Cow::Borrowed(&[])),
            writes: Cow::Borrowed(&[]),
            nested: None,
            per_thread: false,
            flow: None,
            layers: Cow::Borrowed(&[]),
        }
    }
}

/// The targets that a node's commands may choose.
#[derive(Clone, Debug)]
pub enum Goto {
    /// Any node of the graph. Only the run-time builder allows it, and it disables the checks of these edges.
    Any,
    /// Only these targets, which count as edges in every check and drawing.
    Only(List<Target>),
}

/// A graph inside another graph.
#[derive(Clone, Debug)]
pub enum NestedSpec {
    /// The spec of a graph type.
    Static(fn() -> &'static GraphSpec),
    /// The spec of a graph that was built at run time.
    Owned(Arc<GraphSpec>),
}

impl NestedSpec {
    /// Returns the spec.
    pub fn spec(&self) -> &GraphSpec {
        match self {
            Self::Static(spec) => spec(),
            Self::Owned(spec) => spec,
        }
    }
}

/// The start of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The entry of the graph.
    Start,
    /// A node, by its index.
    Node(usize),
}

/// The end of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// The end of the graph.
    End,
    /// A node, by its index.
    Node(usize),
}

/// An edge.
#[derive(Clone, Debug)]
pub enum EdgeSpec {
    /// An edge that is always followed.
    Plain {
        /// The start of the edge.
        from: Source,
        /// The end of the edge.
        to: Target,
    },
    /// An edge that is followed once all its sources have run.
    Join {
        /// The nodes that must have run.
        from: List<usize>,
        /// The end of the edge.
        to: Target,
    },
    /// A function of the state that selects an arm.
    Route {
        /// The start of the route.
        from: Source,
        /// The name of the function.
        label: Text,
        /// The arms of the route.
        arms: List<ArmSpec>,
    },
}

/// An arm of a route.
#[derive(Clone, Debug)]
pub struct ArmSpec {
    /// The pattern of a `match` arm, `true` or `false` of an `if`, the function of a `for`.
    pub label: Text,
    /// The targets of the arm.
    pub to: List<ArmTarget>,
}

/// A target of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArmTarget {
    /// Runs the target once.
    Go(Target),
    /// Runs the node once for each item.
    Send(usize),
}

impl ArmTarget {
    /// Returns the target, with or without an item.
    pub const fn target(self) -> Target {
        match self {
            Self::Go(target) => target,
            Self::Send(node) => Target::Node(node),
        }
    }
}

impl GraphSpec {
    /// Returns the name of a node, or [`START`].
    pub fn source_name(&self, source: Source) -> &str {
        match source {
            Source::Start => START,
            Source::Node(node) => &self.nodes[node].name,
        }
    }

    /// Returns the name of a node, or [`END`].
    pub fn target_name(&self, target: Target) -> &str {
        match target {
            Target::End => END,
            Target::Node(node) => &self.nodes[node].name,
        }
    }

    /// Returns the index of the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Returns the error message for an unknown node.
    pub fn unknown_node(&self, name: &str) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| &*node.name).collect();
        format!("there is no node `{name}`{}", did_you_mean(name, names))
    }
}
