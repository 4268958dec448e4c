//! Graphs as data, and the rules that their shape must obey.
//!
//! The same [`GraphSpec`] is read by the `graph!` macro (which checks it while the user compiles), by the run-time
//! builder (which reports the same findings as errors), by the engine and by the drawings. A spec written by the macro
//! is a constant: every list in it is a borrowed slice.

pub mod agent;
mod check;
mod declare;
pub mod names;
mod reach;
mod suggest;
mod together;

pub use check::{Finding, Rule, Site, check};
pub use suggest::{did_you_mean, nearest};

use std::borrow::Cow;
use std::sync::Arc;

/// A text that is a constant in a macro's graph and owned in a builder's.
pub type Text = Cow<'static, str>;
/// A list that is a constant in a macro's graph and owned in a builder's.
pub type List<T> = Cow<'static, [T]>;

/// The name under which the entry of a graph appears in events, checkpoints and drawings.
pub const START: &str = "__start__";
/// The name under which the end of a graph appears in events and drawings.
pub const END: &str = "__end__";

/// A whole graph: nodes, edges and breakpoints.
#[derive(Clone, Debug)]
pub struct GraphSpec {
    /// The graph's name: its type's name in snake case, unless given.
    pub name: Text,
    /// The doc comment or description of the graph.
    pub doc: Text,
    /// The nodes, in the order of their declaration. Everything else names a node by its index here.
    pub nodes: List<NodeSpec>,
    /// The edges, in the order of their declaration.
    pub edges: List<EdgeSpec>,
    /// Nodes before which a run stops.
    pub interrupt_before: List<usize>,
    /// Nodes after which a run stops.
    pub interrupt_after: List<usize>,
}

/// One node.
#[derive(Clone, Debug)]
pub struct NodeSpec {
    /// The node's name. Its spelling decides the order in which parallel writes are applied.
    pub name: Text,
    /// Whether the node waits until nothing else is left to run.
    pub defer: bool,
    /// Where the node's commands may go.
    pub goto: Goto,
    /// The channels that the node says it always writes.
    pub writes: List<Text>,
    /// The spec of the graph that this node runs, if it is one.
    pub nested: Option<Nested>,
    /// Whether that graph keeps its state for the whole thread, so that its calls cannot run side by side.
    pub per_thread: bool,
    /// The names of the layers around the calls that the node makes, from the outermost on. Of an agent's own nodes.
    pub layers: List<Text>,
}

impl NodeSpec {
    /// A node with a name and no options.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            defer: false,
            goto: Goto::Only(Cow::Borrowed(&[])),
            writes: Cow::Borrowed(&[]),
            nested: None,
            per_thread: false,
            layers: Cow::Borrowed(&[]),
        }
    }
}

/// The targets that a node's commands may choose.
#[derive(Clone, Debug)]
pub enum Goto {
    /// Any node of the graph (run-time builder only: nothing is known, so nothing is checked).
    Any,
    /// Only these; they count as edges for every check and drawing.
    Only(List<Target>),
}

/// A graph inside another one.
#[derive(Clone, Debug)]
pub enum Nested {
    /// The spec of a graph type.
    Static(fn() -> &'static GraphSpec),
    /// The spec of a graph that was built at run time.
    Owned(Arc<GraphSpec>),
}

impl Nested {
    /// The spec itself.
    pub fn spec(&self) -> &GraphSpec {
        match self {
            Self::Static(spec) => spec(),
            Self::Owned(spec) => spec,
        }
    }
}

/// Where an edge starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// The entry of the graph.
    Start,
    /// A node, by its index.
    Node(usize),
}

/// Where an edge leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// The end of the graph.
    End,
    /// A node, by its index.
    Node(usize),
}

/// One edge.
#[derive(Clone, Debug)]
pub enum EdgeSpec {
    /// Always followed.
    Plain {
        /// Where it starts.
        from: Source,
        /// Where it leads.
        to: Target,
    },
    /// Followed once all its sources have run.
    Join {
        /// The nodes that must have run.
        from: List<usize>,
        /// Where it leads.
        to: Target,
    },
    /// A function of the state chooses among arms.
    Route {
        /// Where it starts.
        from: Source,
        /// The name of the function that chooses.
        label: Text,
        /// The choices.
        arms: List<ArmSpec>,
    },
}

/// One choice of a route.
#[derive(Clone, Debug)]
pub struct ArmSpec {
    /// The pattern of a `match` arm, `true` or `false` of an `if`, the function of a `for`.
    pub label: Text,
    /// Where it leads.
    pub to: List<ArmTarget>,
}

/// One target of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArmTarget {
    /// The target runs once.
    Go(Target),
    /// The node runs once for each item.
    Send(usize),
}

impl ArmTarget {
    /// The target, sent or not.
    pub const fn target(self) -> Target {
        match self {
            Self::Go(target) => target,
            Self::Send(node) => Target::Node(node),
        }
    }
}

impl GraphSpec {
    /// The name of a node, or [`START`].
    pub fn source_name(&self, source: Source) -> &str {
        match source {
            Source::Start => START,
            Source::Node(node) => &self.nodes[node].name,
        }
    }

    /// The name of a node, or [`END`].
    pub fn target_name(&self, target: Target) -> &str {
        match target {
            Target::End => END,
            Target::Node(node) => &self.nodes[node].name,
        }
    }

    /// The index of the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// The error text for a node name that does not exist.
    pub fn unknown_node(&self, name: &str) -> String {
        let names: Vec<&str> = self.nodes.iter().map(|node| &*node.name).collect();
        format!("there is no node `{name}`{}", did_you_mean(name, names))
    }
}
