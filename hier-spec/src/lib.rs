//! Graphs as data, and the rules of their shape.
//!
//! Four parts of hier read a [`GraphSpec`]:
//!
//! * the `graph!` macro, which checks the spec at compile time;
//! * the run-time builder, which reports the same mistakes as errors;
//! * the engine;
//! * the drawings.
//!
//! The macro generates the spec as a constant, in which every list is a borrowed slice.

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
#[doc(hidden)]
pub mod words;

pub use check::{Finding, ShapeRule, SpecSite, check};
pub use suggest::{did_you_mean, nearest};

use std::borrow::Cow;
use std::sync::Arc;

/// A text. It is a constant in a graph that `graph!` generates, and an owned string in a graph that the builder makes.
pub type Text = Cow<'static, str>;
/// A list. It is a constant in a graph that `graph!` generates, and an owned vector in a graph that the builder makes.
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
    /// The nodes, in the order of their declaration. In the other parts of the spec, an index in this list identifies a
    /// node.
    pub nodes: List<NodeSpec>,
    /// The edges, in the order of their declaration.
    pub edges: List<EdgeSpec>,
    /// The nodes before which a run stops.
    pub interrupt_before: List<usize>,
    /// The nodes after which a run stops.
    pub interrupt_after: List<usize>,
}

/// A node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The node's name. The engine applies the writes of a superstep in the order of these names.
    pub name: Text,
    /// True if the node is deferred: it waits until no other task is left to run.
    pub defer: bool,
    /// The targets that the commands of the node may choose.
    pub goto: Goto,
    /// The channels that the node always writes, according to the option `writes` in its declaration.
    pub writes: List<Text>,
    /// The spec of the graph that this node runs, if it runs one.
    pub nested: Option<NestedSpec>,
    /// True if the graph in `nested` keeps its state for the whole thread. The calls of such a graph cannot run in
    /// parallel.
    pub per_thread: bool,
    /// The channels that the node reads and writes. `None` if the types of the graph are not known.
    pub flow: Option<flow::FlowSpec>,
    /// The names of the layers around the node's calls of models and tools, outermost first. Only nodes of agents have
    /// layers.
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
    /// Any node of the graph. Only a node of a run-time builder can have such commands. The checks then assume that the
    /// node can lead to every node, so they find fewer mistakes.
    Any,
    /// Only these targets. In checks and drawings, each of them counts as an edge.
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
    /// An edge without a condition.
    Plain {
        /// The start of the edge.
        from: Source,
        /// The end of the edge.
        to: Target,
    },
    /// An edge that is followed when all its sources have run.
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
    /// The label of the arm: the pattern of a `match` with its guard, `true` or `false` of an `if`, or the function or
    /// expression of a `for`. In a nested route, the labels of the outer arms come first, as in `P, test: true`.
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
    /// Returns the target that the arm runs once or for each item.
    pub const fn target(self) -> Target {
        match self {
            Self::Go(target) => target,
            Self::Send(node) => Target::Node(node),
        }
    }
}

impl GraphSpec {
    /// Returns the name of the node, or [`START`] for the entry.
    pub fn source_name(&self, source: Source) -> &str {
        match source {
            Source::Start => START,
            Source::Node(node) => &self.nodes[node].name,
        }
    }

    /// Returns the name of the node, or [`END`] for the end.
    pub fn target_name(&self, target: Target) -> &str {
        match target {
            Target::End => END,
            Target::Node(node) => &self.nodes[node].name,
        }
    }

    /// Returns the index of the node with this name, or `None` if there is no such node.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Returns the error message for a name that no node of the graph has.
    pub fn unknown_node(&self, name: &str) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| &*node.name).collect();
        format!("there is no node `{name}`{}", did_you_mean(name, names))
    }
}
