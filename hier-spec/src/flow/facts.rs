//! The channels of nodes by name, for tools that show or check a graph.

use crate::{GraphSpec, Text};

/// The channels that a node reads and writes. Each list is none if the node's type does not say it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeChannels {
    /// The channels that the node reads.
    pub reads: Option<Vec<Text>>,
    /// The channels that the node may write.
    pub writes: Option<Vec<Text>>,
}

/// The source of a node's [`NodeChannels`]: a function of the graph, and the index of the node.
#[derive(Clone, Copy, Debug)]
pub struct FlowSpec {
    channels: fn(usize) -> NodeChannels,
    node: usize,
}

impl FlowSpec {
    /// Creates the source for a node.
    pub const fn new(channels: fn(usize) -> NodeChannels, node: usize) -> Self {
        Self { channels, node }
    }

    /// Returns the channels of the node.
    pub fn channels(&self) -> NodeChannels {
        (self.channels)(self.node)
    }
}

/// Returns the channels that nodes of the graph write and no node reads, sorted by name. Returns nothing if the type of
/// a node does not say what it reads, or if the graph has a route: a route may read every channel.
///
/// The caller of the graph may still read these channels in its output.
pub fn never_read(spec: &GraphSpec) -> Vec<Text> {
    let has_route = spec.edges.iter().any(|edge| matches!(edge, crate::EdgeSpec::Route { .. }));
    let nodes: Vec<NodeChannels> =
        spec.nodes.iter().map(|node| node.flow.map(|flow| flow.channels()).unwrap_or_default()).collect();
    let reads: Option<Vec<&Vec<Text>>> = nodes.iter().map(|node| node.reads.as_ref()).collect();
    let Some(reads) = reads.filter(|_| !has_route) else { return Vec::new() };
    let writes = nodes.iter().filter_map(|node| node.writes.as_ref()).flatten();
    let mut unread: Vec<Text> =
        writes.filter(|channel| !reads.iter().any(|reads| reads.contains(channel))).cloned().collect();
    unread.sort();
    unread.dedup();
    unread
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EdgeSpec, NodeSpec, Source, Target};

    fn channels(node: usize) -> NodeChannels {
        let list = |names: &[&'static str]| Some(names.iter().map(|name| Text::Borrowed(*name)).collect());
        match node {
            0 => NodeChannels { reads: list(&[]), writes: list(&["risk", "log"]) },
            _ => NodeChannels { reads: list(&["risk"]), writes: list(&["verdict"]) },
        }
    }

    fn spec(flows: &[Option<FlowSpec>]) -> GraphSpec {
        let node = |flow: &Option<FlowSpec>| NodeSpec { flow: *flow, ..NodeSpec::new("node") };
        GraphSpec {
            name: "graph".into(),
            doc: "".into(),
            nodes: flows.iter().map(node).collect(),
            edges: vec![EdgeSpec::Plain { from: Source::Start, to: Target::Node(0) }].into(),
            interrupt_before: Vec::new().into(),
            interrupt_after: Vec::new().into(),
        }
    }

    #[test]
    fn channels_that_no_node_reads_are_listed() {
        let flows = [Some(FlowSpec::new(channels, 0)), Some(FlowSpec::new(channels, 1))];
        assert_eq!(never_read(&spec(&flows)), ["log", "verdict"]);
    }

    #[test]
    fn a_node_that_may_read_everything_silences_the_list() {
        let flows = [Some(FlowSpec::new(channels, 0)), None];
        assert!(never_read(&spec(&flows)).is_empty());
    }
}
