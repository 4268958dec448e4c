//! The data flow of a graph: the channels that the nodes read and write, and the rules about these channels:
//!
//! 1. [`conflict`]: two nodes that can run in one superstep do not both write a channel without a reducer.
//! 2. [`unwritten`]: a channel that a node or a route reads is written by the input, by a node of the graph or from
//!    outside.
//! 3. [`unfilled`]: a channel that the graph returns is written by the input or by a node of the graph.
//!
//! The types of nodes show the channels that the nodes read and write. If the type of a node does not show the channels
//! that the node writes, [`NodeFlow::is_typed`] is false. A rule that depends on such a node finds no mistakes. The
//! functions are `const`. The code that `graph!` generates calls them at compile time, because the macro knows only the
//! shape of the graph, and the compiler knows the types.
//!
//! A thread keeps its channels from run to run. Rule 2 therefore accepts a channel that any node of the graph writes,
//! even a node that runs later.

mod facts;
mod set;
mod steps;

pub use facts::{FlowSpec, NodeChannels, never_read};
pub use set::ChannelSet;
pub use steps::{SameStep, same_step};

/// The channels that a node reads and writes, as far as its type shows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFlow {
    /// The channels that the node reads. If `reads_all` is true, the node may read other channels, too.
    pub reads: ChannelSet,
    /// The channels that the node always writes when it runs.
    pub always: ChannelSet,
    /// The channels that the node may write. Complete if `is_typed` is true.
    pub writes: ChannelSet,
    /// True if the node writes no other channels than `writes`.
    pub is_typed: bool,
    /// True if the node may read channels beyond `reads`, for example because it takes the whole state.
    pub reads_all: bool,
}

impl NodeFlow {
    /// The flow of a node whose type shows nothing: the node may read and write every channel.
    pub const UNTYPED: Self = Self { writes: ChannelSet::ALL, is_typed: false, reads_all: true, ..Self::NOTHING };

    /// The flow of a node that neither reads nor writes.
    pub const NOTHING: Self = Self {
        reads: ChannelSet::EMPTY,
        always: ChannelSet::EMPTY,
        writes: ChannelSet::EMPTY,
        is_typed: true,
        reads_all: false,
    };

    /// Returns the flow of a node that acts, each time it runs, like a node with the flow `self` or one with `other`.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self {
            reads: self.reads.union(other.reads),
            always: self.always.intersection(other.always),
            writes: self.writes.union(other.writes),
            is_typed: self.is_typed && other.is_typed,
            reads_all: self.reads_all || other.reads_all,
        }
    }
}

/// Two nodes that can run in one superstep and that both always write the same channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The index of the other node.
    pub other: usize,
    /// The index of the channel.
    pub channel: usize,
}

/// Returns the first conflict of `node` with an earlier node, or `None` if no earlier node is in conflict with it. Two
/// nodes are in conflict if they can run in one superstep and both always write the same channel of `plain`. `plain`
/// has the channels without a reducer. `same_step` has a row of bits for each node: see [`SameStep::rows`].
pub const fn conflict(nodes: &[NodeFlow], same_step: &[u64], plain: ChannelSet, node: usize) -> Option<Conflict> {
    let words = nodes.len().div_ceil(64);
    // Without parallel nodes, there is no table.
    if same_step.len() < (node + 1) * words {
        return None;
    }
    let writes = nodes[node].always.intersection(plain);
    if writes.first().is_none() {
        return None;
    }
    let mut other = 0;
    while other < node {
        if same_step[node * words + other / 64] & (1 << (other % 64)) != 0
            && let Some(channel) = nodes[other].always.intersection(writes).first()
        {
            return Some(Conflict { other, channel });
        }
        other += 1;
    }
    None
}

/// Returns the channels that the nodes may write, or `None` if the type of a node does not show the channels that it
/// writes.
pub const fn written(nodes: &[NodeFlow]) -> Option<ChannelSet> {
    let (mut all, mut node) = (ChannelSet::EMPTY, 0);
    while node < nodes.len() {
        if !nodes[node].is_typed {
            return None;
        }
        all = all.union(nodes[node].writes);
        node += 1;
    }
    Some(all)
}

/// Returns the first channel of `reads` that is neither in `written` nor in `given`. `written` has the channels that
/// the nodes write, and `given` has those that are written from outside. If `written` or `given` is `None`, any channel
/// may be written, and the function returns `None`.
pub const fn unwritten(reads: ChannelSet, written: Option<ChannelSet>, given: Option<ChannelSet>) -> Option<usize> {
    match (written, given) {
        (Some(written), Some(given)) => reads.without(written).without(given).first(),
        _ => None,
    }
}

/// Returns the first channel of `output` that is neither in `written` nor in `given`. `written` has the channels that
/// the nodes write, and `given` has those that the input writes. If `written` or `given` is `None`, any channel may be
/// written, and the function returns `None`.
pub const fn unfilled(output: ChannelSet, written: Option<ChannelSet>, given: Option<ChannelSet>) -> Option<usize> {
    unwritten(output, written, given)
}
