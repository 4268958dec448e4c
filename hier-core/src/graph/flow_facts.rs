//! The data flow of a graph as constants. The macro `graph!` knows the shape of the graph, and the compiler knows the
//! types of its nodes. [`FlowFacts`] joins this information and applies the rules of [`hier_spec::flow`].

use hier_spec::Text;
use hier_spec::const_text::ConstText;
use hier_spec::flow::{self, ChannelSet, FlowSpec, NodeChannels, NodeFlow};

use super::flow::{GraphFlow, name};
use super::input::OwnedView;
use super::site::NodeInfo;
use crate::channel::Table;
use crate::state::Reads;
use crate::state::fields::Fields;
use crate::state::{IntoUpdate, State, WriteClaim};

const fn flow_of(claim: &WriteClaim) -> NodeFlow {
    if claim.is_known() {
        let (always, writes) = (claim.always(), claim.all());
        NodeFlow { reads: ChannelSet::EMPTY, always, writes, is_typed: true, reads_all: false }
    } else {
        NodeFlow::UNTYPED
    }
}

impl<S: State, C> NodeInfo<S, C> {
    /// Returns the channels that the node reads and writes. For a subgraph, these are channels of the outer state.
    pub const fn flow(self) -> NodeFlow {
        if let Some(graph) = self.graph_flow() {
            return graph.within(&S::CHANNELS);
        }
        let mut flow = flow_of(self.writes());
        let (reads, mut at) = (self.reads(), 0);
        while at < reads.len() {
            match reads[at] {
                Reads::Channels(read) => flow.reads = flow.reads.union(read),
                Reads::State | Reads::Input => flow.reads_all = true,
                Reads::Sent | Reads::Nothing => {}
            }
            at += 1;
        }
        flow
    }

    /// Makes the compilation fail if the node runs a subgraph that needs a channel which the state `S` does not have.
    /// `graph` is the name of the subgraph for the error.
    #[track_caller]
    pub const fn check_nested(self, graph: &str) {
        if let Some(flow) = self.graph_flow()
            && let Some(channel) = flow.lacks(&S::CHANNELS)
        {
            ConstText::new()
                .text("nothing gives ")
                .quoted(graph)
                .text(" the channel ")
                .quoted(channel)
                .text(
                    ", which its nodes read and do not write: add the channel to the state of this graph, write it in a \
                     node of the subgraph, or mark it `#[channel(initial)]`",
                )
                .refuse();
        }
    }
}

/// The channels that the `N` nodes of a graph read and write. `graph!` uses this type to check the graph at compile
/// time.
#[derive(Debug)]
pub struct FlowFacts<const N: usize> {
    channels: Table,
    fields: Fields,
    names: [&'static str; N],
    nodes: [NodeFlow; N],
    same_step: &'static [u64],
    /// Nodes that commands can reach. Their state may be the payload of a Send.
    commanded: &'static [usize],
    /// The channels with a value before the first node: those of the input, and those with an initial value. None if
    /// the input may write any channel.
    given: Option<ChannelSet>,
    /// The writes of the functions that run when the graph is entered and left.
    hooks: NodeFlow,
    /// The reads of everything except nodes: routes, `on_entry`, `on_exit` and the output.
    others: NodeFlow,
}

impl<const N: usize> FlowFacts<N> {
    /// Combines the reads and writes of the nodes with the shape of their graph. `names` and `nodes` have one entry per
    /// node, in the same order. `same_step` contains the pairs of nodes that can run in one superstep. `commanded`
    /// contains the indices of the nodes that commands can reach.
    pub const fn new<S: State>(
        names: [&'static str; N],
        nodes: [NodeFlow; N],
        same_step: &'static [u64],
        commanded: &'static [usize],
    ) -> Self {
        let (channels, fields) = (S::CHANNELS, S::FIELDS);
        Self {
            channels,
            fields,
            names,
            nodes,
            same_step,
            commanded,
            given: None,
            hooks: NodeFlow::NOTHING,
            others: NodeFlow::NOTHING,
        }
    }

    /// Sets the channels that the `input:` of the graph writes. By default, the input may write every channel.
    #[must_use]
    pub const fn input(self, input: WriteClaim) -> Self {
        let given = if input.is_known() { Some(input.all().union(self.fields.initial())) } else { None };
        Self { given, ..self }
    }

    /// Adds the inbox of the graph, which is a channel that can have a value before the first node runs. `field` is the
    /// hash of the name of the channel's field.
    #[must_use]
    pub const fn inbox(self, field: u64) -> Self {
        let given = match self.given {
            Some(given) => Some(given.union(self.of_fields([field]))),
            None => None,
        };
        Self { given, ..self }
    }

    /// Adds the writes of an `on_entry` or `on_exit` function. The function may read every channel.
    #[must_use]
    pub const fn hook(self, writes: WriteClaim) -> Self {
        let hook = flow_of(&writes);
        Self { hooks: self.hooks.or(hook), ..self }.reads_all()
    }

    /// Adds the reads of the declared `output:`. `output` contains the channels of the view.
    #[must_use]
    pub const fn output(self, output: WriteClaim) -> Self {
        if !output.is_known() {
            return self.reads_all();
        }
        let reads = self.others.reads.union(output.all());
        Self { others: NodeFlow { reads, ..self.others }, ..self }
    }

    /// Adds routes that read only some fields of the state. `fields` contains the hashes of the names of these fields.
    #[must_use]
    pub const fn routes<const F: usize>(self, fields: [u64; F]) -> Self {
        let reads = self.others.reads.union(self.of_fields(fields));
        Self { others: NodeFlow { reads, ..self.others }, ..self }
    }

    /// Adds a route or another function that may read every channel.
    #[must_use]
    pub const fn reads_all(self) -> Self {
        Self { others: NodeFlow { reads_all: true, ..self.others }, ..self }
    }

    const fn of_fields<const F: usize>(&self, fields: [u64; F]) -> ChannelSet {
        match self.fields.set(Some(0), fields) {
            Some(set) => set,
            // A field is beyond the capacity of a set. The nodes of such a state make no claims.
            None => ChannelSet::ALL,
        }
    }

    /// Returns the channels that the nodes and functions of the graph write. Returns `None` if they are not known. Also
    /// returns `None` if no node has typed writes, because such nodes were not written for the rules of flow.
    const fn written(&self) -> Option<ChannelSet> {
        match flow::written(&self.nodes) {
            Some(written) if self.hooks.is_typed && written.first().is_some() => Some(written.union(self.hooks.writes)),
            _ => None,
        }
    }

    /// Returns the reads and writes of the whole graph, for the checks of an outer graph.
    pub const fn graph(&self) -> GraphFlow {
        let (written, mut node) = (self.written(), NodeFlow::UNTYPED);
        if let Some(writes) = written {
            node = NodeFlow { writes, ..NodeFlow::NOTHING };
            let initial = self.fields.initial();
            let mut at = 0;
            while at < N {
                if !self.is_commanded(at) {
                    node.reads = node.reads.union(self.nodes[at].reads.without(writes).without(initial));
                }
                at += 1;
            }
        } else if self.hooks.is_typed
            && let Some(writes) = flow::written(&self.nodes)
        {
            node = NodeFlow { writes: writes.union(self.hooks.writes), ..NodeFlow::NOTHING };
        }
        GraphFlow { channels: Some(self.channels), node, has_views: written.is_some() }
    }

    /// Returns the names of the channels that a node reads and writes. `node` is the index of the node, or
    /// [`FlowSpec::OTHERS`] for the routes, `on_entry`, `on_exit` and the output together.
    pub fn channels(&self, node: usize) -> NodeChannels {
        let others = (node == FlowSpec::OTHERS).then_some(&self.others);
        let Some(flow) = self.nodes.get(node).or(others) else { return NodeChannels::default() };
        let names = |set: &ChannelSet| {
            let channels = (0..self.channels.len()).filter(|channel| set.contains(*channel));
            Some(channels.map(|channel| Text::Borrowed(name(&self.channels, channel))).collect())
        };
        NodeChannels {
            reads: if flow.reads_all { None } else { names(&flow.reads) },
            writes: if flow.is_typed { names(&flow.writes) } else { None },
        }
    }

    const fn is_commanded(&self, node: usize) -> bool {
        let mut at = 0;
        while at < self.commanded.len() {
            if self.commanded[at] == node {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Makes the compilation fail for two mistakes of the node with this index. First, the node can run in one
    /// superstep with another node, and both write the same channel without a reducer. Second, the node reads a channel
    /// that neither the input nor any node writes. The second check leaves out nodes that commands can reach.
    #[track_caller]
    pub const fn check(&self, node: usize) {
        let plain = plain(&self.channels);
        if let Some(conflict) = flow::conflict(&self.nodes, self.same_step, plain, node) {
            ConstText::new()
                .quoted(self.names[node])
                .text(" and ")
                .quoted(self.names[conflict.other])
                .text(" can run in the same step and both write ")
                .quoted(name(&self.channels, conflict.channel))
                .text(
                    ", which has no reducer: give it one, such as `#[reducer(last)]`, or run one node after the other",
                )
                .refuse();
        }
        if self.is_commanded(node) {
            return;
        }
        if let Some(channel) = flow::unwritten(self.nodes[node].reads, self.written(), self.given) {
            self.refuse_read("", self.names[node], channel);
        }
    }

    /// Makes the compilation fail if a route reads a channel that neither the input nor a node writes. `label` names
    /// the route in the error. `fields` contains the hashes of the names of the fields that the route reads.
    #[track_caller]
    pub const fn check_route<const F: usize>(&self, label: &str, fields: [u64; F]) {
        if let Some(channel) = flow::unwritten(self.of_fields(fields), self.written(), self.given) {
            self.refuse_read("the route ", label, channel);
        }
    }

    #[track_caller]
    const fn refuse_read(&self, what: &str, reader: &str, channel: usize) {
        ConstText::new()
            .text(what)
            .quoted(reader)
            .text(" reads ")
            .quoted(name(&self.channels, channel))
            .text(
                ", which neither the `input:` nor a node of this graph writes: write it in a node, add it to the \
                 `input:`, or mark it `#[channel(initial)]` if nodes are to read its default",
            )
            .refuse();
    }

    /// Makes the compilation fail if the output has a channel that neither the input nor a node writes.
    #[track_caller]
    pub const fn check_output(&self, output: WriteClaim) {
        if !output.is_known() {
            return;
        }
        if let Some(channel) = flow::unfilled(output.all(), self.written(), self.given) {
            ConstText::new()
                .text("the output has ")
                .quoted(name(&self.channels, channel))
                .text(
                    ", which neither the `input:` nor a node of this graph writes: write it in a node, or remove it from \
                     the output",
                )
                .refuse();
        }
    }
}

/// Returns the channels without a reducer.
const fn plain(channels: &Table) -> ChannelSet {
    let (mut plain, mut channel) = (ChannelSet::EMPTY, 0);
    while let Some(spec) = channels.spec(channel) {
        if spec.kind.single_writer() {
            plain = plain.with(channel);
        }
        channel += 1;
    }
    plain
}

/// A helper with which `graph!` finds the channels of the type `V` in `input:` or `output:`. For a view that owns its
/// fields, `CLAIM` is an inherent constant. For other types, it is the constant of [`NoClaim`].
#[derive(Debug)]
pub struct ViewClaim<S, V>(std::marker::PhantomData<fn() -> (S, V)>);

impl<S: State, V: OwnedView + IntoUpdate<S>> ViewClaim<S, V> {
    /// The channels of the view.
    pub const CLAIM: WriteClaim = V::WRITES;
}

/// The fallback of [`ViewClaim`] for types that are not views.
pub trait NoClaim {
    /// Unknown, because the type is not a view.
    const CLAIM: WriteClaim = WriteClaim::UNKNOWN;
}

impl<S, V> NoClaim for ViewClaim<S, V> {}
