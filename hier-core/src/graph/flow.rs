//! The data flow of a graph, as a node of another graph sees it.

use hier_spec::flow::{ChannelSet, NodeFlow};

use crate::channel::Table;

/// The channels that a graph reads and writes, for the checks of an outer graph.
#[derive(Clone, Copy, Debug)]
pub struct GraphFlow {
    pub(super) channels: Option<Table>,
    /// The channels that the graph writes, and those that it reads and does not write.
    pub(super) node: NodeFlow,
    /// True if a node of the graph returns a view. Only then do the rules apply to the writes of the graph.
    pub(super) has_views: bool,
}

impl GraphFlow {
    /// The flow of a graph whose reads and writes are not known.
    pub const UNKNOWN: Self = Self { channels: None, node: NodeFlow::UNTYPED, has_views: false };

    /// Returns true if the graph may write the channel with this name, or if the writes of the graph are not known.
    pub const fn may_write(&self, channel: &str) -> bool {
        let Some(channels) = self.channels else { return true };
        if !self.node.is_typed || !self.has_views {
            return true;
        }
        match channels.position(channel) {
            Some(channel) => self.node.writes.contains(channel),
            None => false,
        }
    }

    /// Returns the name of a channel that the graph needs and that `outer` does not contain. `outer` contains the
    /// channels of the outer state. The graph needs a channel if its nodes read the channel, no node writes it, and it
    /// has no initial value. Returns `None` if `outer` contains all channels that the graph needs.
    pub const fn lacks(&self, outer: &Table) -> Option<&'static str> {
        let Some(channels) = self.channels else { return None };
        let mut needs = self.node.reads;
        while let Some(channel) = needs.first() {
            let name = name(&channels, channel);
            if !outer.contains(name) {
                return Some(name);
            }
            needs = needs.without(ChannelSet::EMPTY.with(channel));
        }
        None
    }

    /// Converts the flow to the channels of the outer graph.
    pub(super) const fn within(&self, outer: &Table) -> NodeFlow {
        let Some(channels) = self.channels else { return NodeFlow::UNTYPED };
        if outer.len() > ChannelSet::CAPACITY {
            return NodeFlow::UNTYPED;
        }
        NodeFlow {
            reads: moved(self.node.reads, &channels, outer),
            always: ChannelSet::EMPTY,
            writes: moved(self.node.writes, &channels, outer),
            // Its nodes may also read the channels that they write.
            reads_all: true,
            is_typed: self.node.is_typed,
        }
    }
}

/// Converts a set of channels to the indices of another table. Leaves out channels that the other table does not have.
pub(super) const fn moved(mut set: ChannelSet, from: &Table, to: &Table) -> ChannelSet {
    let mut moved = ChannelSet::EMPTY;
    while let Some(channel) = set.first() {
        if channel >= from.len() {
            break;
        }
        if let Some(place) = to.position(name(from, channel)) {
            moved = moved.with(place);
        }
        set = set.without(ChannelSet::EMPTY.with(channel));
    }
    moved
}

pub(super) const fn name(channels: &Table, channel: usize) -> &'static str {
    match channels.spec(channel) {
        Some(spec) => match spec.name {
            std::borrow::Cow::Borrowed(name) => name,
            std::borrow::Cow::Owned(_) => "",
        },
        None => "",
    }
}
