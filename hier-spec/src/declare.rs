//! Constructors of constant specs, for the code that `graph!` generates.

use std::borrow::Cow;

use crate::flow::FlowSpec;
use crate::{ArmSpec, ArmTarget, EdgeSpec, Goto, GraphSpec, NestedSpec, NodeSpec, Source, Target, Text};

impl GraphSpec {
    /// Creates a spec from constants.
    pub const fn declared(
        name: &'static str,
        doc: &'static str,
        nodes: &'static [NodeSpec],
        edges: &'static [EdgeSpec],
        interrupt_before: &'static [usize],
        interrupt_after: &'static [usize],
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            doc: Cow::Borrowed(doc),
            nodes: Cow::Borrowed(nodes),
            edges: Cow::Borrowed(edges),
            interrupt_before: Cow::Borrowed(interrupt_before),
            interrupt_after: Cow::Borrowed(interrupt_after),
        }
    }
}

impl NodeSpec {
    /// Creates a node from constants. The commands of the node may choose only the targets in `goto`.
    pub const fn declared(
        name: &'static str,
        defer: bool,
        goto: &'static [Target],
        writes: &'static [Text],
        nested: Option<NestedSpec>,
    ) -> Self {
        let (goto, writes) = (Goto::Only(Cow::Borrowed(goto)), Cow::Borrowed(writes));
        let layers = Cow::Borrowed(&[] as &[Text]);
        Self { name: Cow::Borrowed(name), defer, goto, writes, nested, per_thread: false, flow: None, layers }
    }

    /// Creates a node from constants, with the channels that its type reads and writes in `flow`. The commands of the
    /// node may choose only the targets in `goto`.
    pub const fn typed(
        name: &'static str,
        defer: bool,
        goto: &'static [Target],
        writes: &'static [Text],
        nested: Option<NestedSpec>,
        flow: FlowSpec,
    ) -> Self {
        let (goto, writes) = (Goto::Only(Cow::Borrowed(goto)), Cow::Borrowed(writes));
        let (layers, flow) = (Cow::Borrowed(&[] as &[Text]), Some(flow));
        Self { name: Cow::Borrowed(name), defer, goto, writes, nested, per_thread: false, flow, layers }
    }

    /// Creates a node of an agent from constants. `layers` has the names of the layers around the node's calls of
    /// models and tools. The commands of the node may choose only the targets in `goto`.
    pub const fn layered(name: &'static str, goto: &'static [Target], layers: &'static [Text]) -> Self {
        let (goto, layers) = (Goto::Only(Cow::Borrowed(goto)), Cow::Borrowed(layers));
        let writes = Cow::Borrowed(&[] as &[Text]);
        Self {
            name: Cow::Borrowed(name),
            defer: false,
            goto,
            writes,
            nested: None,
            per_thread: false,
            flow: None,
            layers,
        }
    }
}

impl EdgeSpec {
    /// Creates a join from constants.
    pub const fn join(from: &'static [usize], to: Target) -> Self {
        Self::Join { from: Cow::Borrowed(from), to }
    }

    /// Creates a route from constants.
    pub const fn route(from: Source, label: &'static str, arms: &'static [ArmSpec]) -> Self {
        Self::Route { from, label: Cow::Borrowed(label), arms: Cow::Borrowed(arms) }
    }
}

impl ArmSpec {
    /// Creates an arm from constants.
    pub const fn declared(label: &'static str, to: &'static [ArmTarget]) -> Self {
        Self { label: Cow::Borrowed(label), to: Cow::Borrowed(to) }
    }
}
