//! The channels of nodes by name, for tools that show or check a graph.

use std::collections::BTreeSet;

use crate::{GraphSpec, Text};

/// The channels that a node reads and writes. A list is `None` if the type of the node does not show these channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeChannels {
    /// The channels that the node reads.
    pub reads: Option<Vec<Text>>,
    /// The channels that the node may write.
    pub writes: Option<Vec<Text>>,
}

/// Access to the [`NodeChannels`] of one node. Consists of the index of this node, and of a function that returns the
/// channels of the node with a given index.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    channels: fn(usize) -> NodeChannels,
    node: usize,
}

impl FlowSpec {
    /// An index that stands for all readers of channels other than nodes: the routes, the functions and the declared
    /// output of the graph.
    pub const OTHERS: usize = usize::MAX;

    /// Creates the spec of the node with the index `node`. The function `channels` returns the channels of the node with
    /// a given index. For the index [`OTHERS`](Self::OTHERS), it returns the channels that the routes, the functions and
    /// the declared output of the graph read.
    pub const fn new(channels: fn(usize) -> NodeChannels, node: usize) -> Self {
        Self { channels, node }
    }

    /// Returns the channels of the node.
    pub fn channels(&self) -> NodeChannels {
        (self.channels)(self.node)
    }

    /// Returns the channels that the routes, the functions and the declared output of the graph read.
    pub fn others(&self) -> NodeChannels {
        (self.channels)(Self::OTHERS)
    }
}

/// Returns the channels that nodes of the graph write, and that no node, no route and no declared output reads, sorted
/// by name. Returns an empty list if the type of a node does not show the channels that it reads, or if a route may
/// read every channel.
///
/// The caller of a graph without a declared output may still read these channels.
pub fn never_read(spec: &GraphSpec) -> Vec<Text> {
    let Some(read) = read(spec) else { return Vec::new() };
    let flows = spec.nodes.iter().filter_map(|node| node.flow);
    let written: BTreeSet<Text> = flows.filter_map(|flow| flow.channels().writes).flatten().collect();
    written.difference(&read).cloned().collect()
}

/// Returns the channels that a graph and the graphs in it read, or `None` if that is unknown.
fn read(spec: &GraphSpec) -> Option<BTreeSet<Text>> {
    let mut read = BTreeSet::from_iter(spec.nodes.first()?.flow?.others().reads?);
    for node in spec.nodes.iter() {
        match &node.nested {
            // The nested graph also reads channels that it writes itself and does not need from outside.
            Some(nested) => read.extend(self::read(nested.spec())?),
            None => read.extend(node.flow?.channels().reads?),
        }
    }
    Some(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    use crate::{EdgeSpec, NestedSpec, NodeSpec, Source, Target};

    fn channels(node: usize) -> NodeChannels {
        let list = |names: &[&'static str]| Some(names.iter().map(|name| Text::Borrowed(*name)).collect());
        match node {
            0 => NodeChannels { reads: list(&[]), writes: list(&["risk", "log"]) },
            1 => NodeChannels { reads: list(&["risk"]), writes: list(&["verdict", "tries"]) },
            _ => NodeChannels { reads: list(&["tries"]), writes: list(&[]) },
        }
    }

    fn any_route(node: usize) -> NodeChannels {
        if node == FlowSpec::OTHERS { NodeChannels::default() } else { channels(node) }
    }

    fn graph(nodes: Vec<NodeSpec>) -> GraphSpec {
        GraphSpec {
            name: "graph".into(),
            doc: "".into(),
            nodes: nodes.into(),
            edges: vec![EdgeSpec::Plain { from: Source::Start, to: Target::Node(0) }].into(),
            interrupt_before: Vec::new().into(),
            interrupt_after: Vec::new().into(),
        }
    }

    fn spec(flows: &[Option<FlowSpec>]) -> GraphSpec {
        graph(flows.iter().map(|flow| NodeSpec { flow: *flow, ..NodeSpec::new("node") }).collect())
    }

    #[test]
    fn channels_that_nothing_reads_are_listed() {
        let flows = [Some(FlowSpec::new(channels, 0)), Some(FlowSpec::new(channels, 1))];
        assert_eq!(never_read(&spec(&flows)), ["log", "verdict"], "a route reads `tries`");
    }

    #[test]
    fn a_reader_of_everything_silences_the_list() {
        assert!(never_read(&spec(&[Some(FlowSpec::new(channels, 0)), None])).is_empty());
        assert!(never_read(&spec(&[Some(FlowSpec::new(any_route, 0))])).is_empty());
    }

    #[test]
    fn graphs_in_a_graph_read_its_channels() {
        let inner = spec(&[Some(FlowSpec::new(channels, 1))]);
        let outer = |nested| {
            let first = NodeSpec { flow: Some(FlowSpec::new(channels, 0)), ..NodeSpec::new("first") };
            never_read(&graph(vec![
                first,
                NodeSpec { nested: Some(NestedSpec::Owned(Arc::new(nested))), ..NodeSpec::new("inner") },
            ]))
        };
        assert_eq!(outer(inner), ["log"]);
        assert!(outer(spec(&[None])).is_empty());
    }
}
