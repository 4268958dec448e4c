//! The contents of a lock file.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use hier_core::channel::Kind;
pub use hier_core::graph::Exits as LockedExits;
use hier_core::graph::{AskedFacts, Checkpoints, GraphFacts, InnerFacts, NodeFacts, StoredGraph};
use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use super::schema;

/// A description of a program's graphs: the properties on which stored threads depend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lock {
    /// The graphs and their subgraphs, by path.
    pub graphs: BTreeMap<GraphPath, LockedGraph>,
    /// The JSON Schemas of named types, by name.
    pub types: Map<String, Value>,
}

/// The path of a graph in a lock. The first entry is the name of a root graph. The other entries are the nodes that
/// lead from there to a subgraph.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GraphPath(pub Vec<String>);

impl GraphPath {
    /// Returns the path of a root graph.
    pub fn root(name: impl Into<String>) -> Self {
        Self(vec![name.into()])
    }

    /// Returns the path of the subgraph at this node.
    #[must_use]
    pub fn inside(&self, node: impl Into<String>) -> Self {
        Self(self.0.iter().cloned().chain([node.into()]).collect())
    }

    /// Returns true for a root graph.
    pub fn is_root(&self) -> bool {
        self.0.len() == 1
    }
}

impl fmt::Display for GraphPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

/// The properties of a graph on which the stored threads of the graph depend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockedGraph {
    /// The graph name under which savers store the threads.
    pub name: String,
    /// The version of the state.
    pub version: u32,
    /// The oldest state version that the migrations accept.
    pub migrates_from: u32,
    /// The earlier names of the graph and its nodes, each with the current name.
    pub renamed: BTreeMap<String, String>,
    /// The channels.
    pub channels: BTreeMap<String, LockedChannel>,
    /// The nodes to which `START` leads.
    pub entry: LockedExits,
    /// The nodes.
    pub nodes: BTreeMap<String, LockedNode>,
    /// The joins. Each key is the name under which checkpoints store the progress of the join.
    pub joins: BTreeMap<String, LockedJoin>,
    /// The declared questions, by type name.
    pub questions: BTreeMap<String, LockedQuestion>,
}

impl LockedGraph {
    /// Returns the current name of a node or graph. The argument `stored` is a current or an earlier name.
    pub fn current<'a>(&'a self, stored: &'a str) -> &'a str {
        self.renamed.get(stored).map_or(stored, String::as_str)
    }

    /// Returns the node with this current or earlier name, together with its current name. Returns `None` if the graph
    /// has no such node.
    pub fn node(&self, stored: &str) -> Option<(&str, &LockedNode)> {
        self.nodes.get_key_value(self.current(stored)).map(|(name, node)| (name.as_str(), node))
    }

    /// Guesses the name that this graph gives to a node of an older version. The argument `gone` is a current or earlier
    /// name of that node, which this graph does not know. Returns `None` if no name is likely.
    pub(super) fn likely_name<'a>(&'a self, older: &'a Self, gone: &'a str) -> Option<&'a str> {
        let current = older.current(gone);
        if self.nodes.contains_key(current) {
            return Some(current);
        }
        let names = |graph: &'a Self, other: &Self| -> Vec<&'a str> {
            let is_unknown = |name: &&str| graph.names(name).iter().all(|name| other.node(name).is_none());
            graph.nodes.keys().map(String::as_str).filter(is_unknown).collect()
        };
        let (added, removed) = (names(self, older), names(older, self));
        let only = if let ([new], [_]) = (&*added, &*removed) { Some(*new) } else { None };
        only.or_else(|| hier_spec::nearest(gone, added))
    }

    /// Returns all names of a node: its earlier names, and then its current name. The argument `node` is the current
    /// name.
    pub fn names<'a>(&'a self, node: &'a str) -> Vec<&'a str> {
        let earlier = self.renamed.iter().filter(|(_, new)| *new == node).map(|(old, _)| old.as_str());
        earlier.chain([node]).collect()
    }

    /// Returns a join together with its current name. The argument `stored` is the name under which checkpoints store
    /// the progress of the join. It may contain earlier names of nodes. Returns `None` if the graph has no such join.
    pub fn join(&self, stored: &str) -> Option<(&str, &LockedJoin)> {
        let is_stored_as = |(name, join): &(&String, &LockedJoin)| {
            let from: Vec<Vec<&str>> = join.from.iter().map(|node| self.names(node)).collect();
            *name == stored || hier_spec::names::is_join(stored, name, &from, &self.names(&join.to))
        };
        self.joins.iter().find(is_stored_as).map(|(name, join)| (name.as_str(), join))
    }
}

/// A channel of a graph.
#[derive(Clone, Debug, PartialEq)]
pub struct LockedChannel {
    /// The kind of the channel.
    pub kind: Kind,
    /// The name of the channel's reducer. `None` for a channel without a reducer.
    pub reducer: Option<String>,
    /// True if checkpoints store only what a superstep added to the value, and not the whole value.
    pub delta: bool,
    /// True if the value is secret.
    pub secret: bool,
    /// The JSON Schema of the channel's type. `None` if the type has no schema.
    pub schema: Option<Value>,
    /// True if nodes write the channel but no part of the program reads it. Such a channel does not break threads.
    pub is_unread: bool,
}

/// A node of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockedNode {
    /// True if the node runs only when no other task is left.
    pub defer: bool,
    /// The nodes to which this node leads.
    pub exits: LockedExits,
    /// The subgraph that the node runs. `None` if the node is a function.
    pub inner: Option<LockedInner>,
}

/// The subgraph of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockedInner {
    /// The option `checkpoints` of the node: `per_call`, `per_thread` or `none`.
    pub checkpoints: String,
    /// True if the subgraph takes the payload of a Send as its initial state.
    pub takes_state: bool,
    /// True if a route of the outer graph sends a payload to the node.
    pub is_sent: bool,
    /// The options of the subagent's policy. Empty if the subgraph is not a subagent with a policy, or if it shares one
    /// state with the outer graph.
    pub policy: BTreeMap<String, String>,
}

/// A join of a graph.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockedJoin {
    /// The nodes that must all have run before the join starts its target.
    pub from: Vec<String>,
    /// The target node of the join.
    pub to: String,
}

/// A question that a graph declares.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LockedQuestion {
    /// The JSON Schema of the question.
    pub question: Value,
    /// The JSON Schema of the answer.
    pub answer: Value,
}

/// A builder that collects the graphs of a program in a [`Lock`].
///
/// ```
/// # use hier_core::prelude::*;
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Case { done: bool }
/// # async fn assess() {}
/// # graph! { Review<Case> = Graph { nodes: [assess], edges: [START >> assess >> END] } }
/// use hier_testkit::lock::{Lock, LockBuilder};
///
/// let lock = LockBuilder::new().graph(&Review).build();
/// assert_eq!(Lock::parse(&lock.to_string()), Ok(lock));
/// ```
#[derive(Debug)]
pub struct LockBuilder {
    lock: Lock,
    generator: SchemaGenerator,
}

impl Default for LockBuilder {
    fn default() -> Self {
        let generator = SchemaSettings::draft2020_12().into_generator();
        Self { lock: Lock::default(), generator }
    }
}

impl LockBuilder {
    /// Creates an empty builder.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a graph. Pass the type of the graph. If the graph or its nodes were renamed, pass the compiled graph with
    /// the earlier names instead. Replaces a graph with the same name.
    #[must_use]
    pub fn graph(mut self, graph: &impl StoredGraph) -> Self {
        let facts = graph.facts(&mut self.generator);
        let path = GraphPath::root(facts.name.clone());
        self.add(path, facts, &BTreeSet::new());
        self
    }

    /// Returns the lock with all added graphs.
    pub fn build(mut self) -> Lock {
        let types = self.generator.take_definitions(true);
        self.lock.types.extend(types.into_iter().map(|(name, schema)| (name, schema::plain(schema))));
        let Lock { types, graphs, .. } = &mut self.lock;
        for asked in graphs.values_mut().flat_map(|graph| graph.questions.values_mut()) {
            schema::move_definitions(types, &mut asked.question);
            schema::move_definitions(types, &mut asked.answer);
        }
        self.lock
    }

    /// Adds a graph and the graphs in it. `outer` contains the channels of the outer graphs.
    fn add(&mut self, path: GraphPath, facts: GraphFacts, outer: &BTreeSet<String>) {
        let mut graph = LockedGraph {
            name: facts.name,
            version: facts.version,
            migrates_from: facts.migrates_from,
            renamed: facts.renamed.into_iter().rev().collect(),
            entry: facts.entry,
            ..LockedGraph::default()
        };
        let names = facts.channels.iter().map(|channel| channel.spec.name.to_string());
        let shared: BTreeSet<String> = outer.iter().cloned().chain(names).collect();
        for channel in facts.channels {
            let name = channel.spec.name.to_string();
            let locked = LockedChannel {
                is_unread: facts.unread.contains(&name) && !outer.contains(&name),
                kind: channel.spec.kind,
                reducer: channel.spec.reducer.map(Into::into),
                delta: channel.spec.delta,
                secret: channel.spec.secret,
                schema: channel.schema.map(schema::plain),
            };
            graph.channels.insert(name, locked);
        }
        for join in facts.joins {
            graph.joins.insert(join.name, LockedJoin { from: join.from, to: join.to });
        }
        for AskedFacts { name, question, answer } in facts.questions {
            // The schemas still contain their definitions. `build` moves them when it knows all types of the states.
            let locked = LockedQuestion { question: schema::plain(question), answer: schema::plain(answer) };
            // The questions of the graph itself come before those of its subgraphs.
            graph.questions.entry(name).or_insert(locked);
        }
        for NodeFacts { name, defer, exits, inner } in facts.nodes {
            let inner = inner.map(|InnerFacts { graph, checkpoints, takes_state, is_sent, policy }| {
                self.add(path.inside(&name), graph, &shared);
                let policy = policy.into_iter().map(|(option, value)| (option.to_owned(), value)).collect();
                LockedInner { checkpoints: checkpoints_name(checkpoints).to_owned(), takes_state, is_sent, policy }
            });
            graph.nodes.insert(name, LockedNode { defer, exits, inner });
        }
        self.lock.graphs.insert(path, graph);
    }
}

fn checkpoints_name(checkpoints: Checkpoints) -> &'static str {
    match checkpoints {
        Checkpoints::PerCall => "per_call",
        Checkpoints::PerThread => "per_thread",
        Checkpoints::None => "none",
    }
}
