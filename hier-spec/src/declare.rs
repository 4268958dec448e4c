//! Constructors for constants: what the `graph!` macro writes a spec with.

use std::borrow::Cow;

use crate::{ArmSpec, ArmTarget, EdgeSpec, Goto, GraphSpec, Nested, NodeSpec, Source, Target, Text};

impl GraphSpec {
    /// A spec whose parts are constants.
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
    /// A node whose parts are constants; its commands may choose `goto` only.
    pub const fn declared(
        name: &'static str,
        defer: bool,
        goto: &'static [Target],
        writes: &'static [Text],
        nested: Option<Nested>,
    ) -> Self {
        let (goto, writes) = (Goto::Only(Cow::Borrowed(goto)), Cow::Borrowed(writes));
        let layers = Cow::Borrowed(&[] as &[Text]);
        Self { name: Cow::Borrowed(name), defer, goto, writes, nested, per_thread: false, layers }
    }

    /// A node of an agent, around whose calls these layers are; its commands may choose `goto` only.
    pub const fn layered(name: &'static str, goto: &'static [Target], layers: &'static [Text]) -> Self {
        let (goto, layers) = (Goto::Only(Cow::Borrowed(goto)), Cow::Borrowed(layers));
        let writes = Cow::Borrowed(&[] as &[Text]);
        Self { name: Cow::Borrowed(name), defer: false, goto, writes, nested: None, per_thread: false, layers }
    }
}

impl EdgeSpec {
    /// A join of constant sources.
    pub const fn join(from: &'static [usize], to: Target) -> Self {
        Self::Join { from: Cow::Borrowed(from), to }
    }

    /// A route with constant arms.
    pub const fn route(from: Source, label: &'static str, arms: &'static [ArmSpec]) -> Self {
        Self::Route { from, label: Cow::Borrowed(label), arms: Cow::Borrowed(arms) }
    }
}

impl ArmSpec {
    /// An arm with constant targets.
    pub const fn declared(label: &'static str, to: &'static [ArmTarget]) -> Self {
        Self { label: Cow::Borrowed(label), to: Cow::Borrowed(to) }
    }
}
