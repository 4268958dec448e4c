//! The topology of a graph for the scheduler.

use std::fmt::Display;
use std::io::Write;
use std::sync::Arc;

use fixedbitset::FixedBitSet;
use hier_spec::{EdgeSpec, Goto, GraphSpec, List, Source, Target, Text};
use uuid::Uuid;

/// The prefix of the place of a task that an edge has triggered. The name of the node follows.
pub(crate) const PULLED: &str = "~__pregel_pull, ";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TaskKey {
    /// The rank of the node.
    pub(crate) node: usize,
    pub(crate) step: i64,
    /// The number of the Send that started the task. None if an edge started it.
    pub(crate) send: Option<usize>,
}

/// The triggers of a finished node, or of START.
#[derive(Clone, Debug, Default)]
pub(crate) struct Exit {
    /// The targets of plain edges.
    pub(crate) signals: Vec<usize>,
    /// The joins that wait for the node, and the index of the node among the sources of the join.
    pub(crate) joins: Vec<(usize, usize)>,
    /// The numbers of the node's routes in the spec.
    pub(crate) routes: Vec<usize>,
    /// True if the node is neither a source nor a target of a join, and the graph has no deferred nodes. Most are.
    pub(crate) plain: bool,
}

/// A join. Its target runs when all sources have run.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// LangGraph's name of the join's channel.
    pub(crate) name: Arc<str>,
    pub(crate) from: Vec<usize>,
    pub(crate) target: usize,
}

/// The targets of a node's commands.
#[derive(Clone, Debug)]
pub(crate) enum AllowedTargets {
    Any,
    /// These nodes, and also END if the flag is true.
    Only(FixedBitSet, bool),
}

/// The topology of a graph. A node is identified by its *rank*, which is its place among all names in code-point order.
/// As in LangGraph, the writes of a superstep are applied in the order of ranks.
#[derive(Debug)]
pub(crate) struct Plan {
    graph: String,
    names: Vec<Text>,
    /// The names of the nodes, shared with checkpoints.
    shared: Vec<Arc<str>>,
    rank_of: Vec<usize>,
    triggers: Vec<Vec<String>>,
    start: Exit,
    pub(crate) exits: Vec<Exit>,
    pub(crate) joins: Vec<Join>,
    pub(crate) joins_into: Vec<Vec<usize>>,
    deferred: FixedBitSet,
    /// True if the graph has deferred nodes.
    pub(crate) defers: bool,
    pub(crate) allowed: Vec<AllowedTargets>,
    /// The nodes with a breakpoint before them.
    pub(crate) before: FixedBitSet,
    pub(crate) after: FixedBitSet,
    /// True if several tasks that Sends started may write to a channel without a reducer, so that the last write
    /// counts. This is so in agents, whose models call tools without knowing the writes of the tools.
    pub(crate) last_sent_counts: bool,
}

impl Plan {
    pub(crate) fn of_agent(self, is_agent: bool) -> Self {
        Self { last_sent_counts: is_agent, ..self }
    }

    pub(crate) fn new(spec: &GraphSpec) -> Self {
        let count = spec.nodes.len();
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|a, b| spec.nodes[*a].name.cmp(&spec.nodes[*b].name));
        let mut rank_of = vec![0; count];
        for (rank, node) in order.iter().enumerate() {
            rank_of[*node] = rank;
        }
        let names: Vec<Text> = order.iter().map(|node| spec.nodes[*node].name.clone()).collect();
        let mut plan = Self {
            graph: spec.name.clone().into_owned(),
            shared: names.iter().map(|name| Arc::from(&**name)).collect(),
            before: FixedBitSet::with_capacity(count),
            after: FixedBitSet::with_capacity(count),
            last_sent_counts: false,
            triggers: names.iter().map(|name| vec![format!("branch:to:{name}")]).collect(),
            names,
            rank_of,
            start: Exit::default(),
            exits: vec![Exit::default(); count],
            joins: Vec::new(),
            joins_into: vec![Vec::new(); count],
            deferred: order
                .iter()
                .enumerate()
                .filter(|(_, node)| spec.nodes[**node].defer)
                .map(|(rank, _)| rank)
                .collect(),
            defers: spec.nodes.iter().any(|node| node.defer),
            allowed: Vec::new(),
        };
        plan.deferred.grow(count);
        plan.allowed = order.iter().map(|node| plan.allowed(&spec.nodes[*node].goto)).collect();
        spec.interrupt_before.iter().for_each(|node| plan.before.insert(plan.rank_of[*node]));
        spec.interrupt_after.iter().for_each(|node| plan.after.insert(plan.rank_of[*node]));
        plan.edges(spec);
        plan
    }

    fn edges(&mut self, spec: &GraphSpec) {
        let mut routes = 0;
        for edge in spec.edges.iter() {
            match edge {
                EdgeSpec::Plain { from, to } => {
                    if let Target::Node(to) = to {
                        let to = self.rank_of[*to];
                        self.exit_mut(*from).signals.push(to);
                    }
                }
                EdgeSpec::Join { from, to: Target::Node(to) } => self.join(from, *to),
                EdgeSpec::Join { to: Target::End, .. } => {}
                EdgeSpec::Route { from, .. } => {
                    self.exit_mut(*from).routes.push(routes);
                    routes += 1;
                }
            }
        }
        for triggers in &mut self.triggers {
            triggers.sort();
        }
        for exit in self.exits.iter_mut().chain([&mut self.start]) {
            exit.signals.sort_unstable();
            exit.signals.dedup();
        }
        // With deferred nodes, each superstep may be the superstep that releases them.
        let none_waits = self.deferred.is_clear();
        let plain = |exit: &Exit| exit.joins.is_empty() && none_waits;
        let plains: Vec<bool> =
            (0..self.len()).map(|node| plain(&self.exits[node]) && self.joins_into[node].is_empty()).collect();
        self.start.plain = plain(&self.start);
        self.exits.iter_mut().zip(plains).for_each(|(exit, plain)| exit.plain = plain);
    }

    fn join(&mut self, from: &List<usize>, to: usize) {
        let (number, target) = (self.joins.len(), self.rank_of[to]);
        let sources: Vec<usize> = from.iter().map(|node| self.rank_of[*node]).collect();
        for (place, source) in sources.iter().enumerate() {
            self.exits[*source].joins.push((number, place));
        }
        let names: Vec<&str> = sources.iter().map(|source| &*self.names[*source]).collect();
        let mut name = format!("join:{}:{}", names.join("+"), self.names[target]);
        // Two joins may have the same nodes, or nodes with `+` in their names, but checkpoints need different names.
        let is_taken = |name: &str| self.joins.iter().any(|join| *join.name == *name);
        if is_taken(&name) {
            let numbered = (2..usize::MAX).map(|number| format!("{name}#{number}")).find(|name| !is_taken(name));
            name = numbered.unwrap_or(name);
        }
        self.triggers[target].push(name.clone());
        self.joins.push(Join { name: name.into(), from: sources, target });
        self.joins_into[target].push(number);
    }

    fn exit_mut(&mut self, from: Source) -> &mut Exit {
        match from {
            Source::Start => &mut self.start,
            Source::Node(node) => &mut self.exits[self.rank_of[node]],
        }
    }

    fn allowed(&self, goto: &Goto) -> AllowedTargets {
        match goto {
            Goto::Any => AllowedTargets::Any,
            Goto::Only(targets) => {
                let mut nodes = FixedBitSet::with_capacity(self.names.len());
                for target in targets.iter() {
                    if let Target::Node(node) = target {
                        nodes.insert(self.rank_of[*node]);
                    }
                }
                AllowedTargets::Only(nodes, targets.contains(&Target::End))
            }
        }
    }

    pub(crate) fn graph(&self) -> &str {
        &self.graph
    }

    #[inline]
    pub(crate) fn exit(&self, rank: Option<usize>) -> &Exit {
        rank.map_or(&self.start, |rank| &self.exits[rank])
    }

    /// Returns true if a node waits until no other node is left to run.
    #[inline]
    pub(crate) fn is_deferred(&self, rank: usize) -> bool {
        self.defers && self.deferred.contains(rank)
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn name(&self, rank: usize) -> &str {
        self.names.get(rank).map_or(hier_spec::START, |name| name)
    }

    /// The names of the nodes in the order of their ranks.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.names.iter().map(|name| &**name)
    }

    pub(crate) fn rank(&self, index: usize) -> usize {
        self.rank_of[index]
    }

    pub(crate) fn shared_name(&self, rank: usize) -> &Arc<str> {
        &self.shared[rank]
    }

    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        self.names.binary_search_by(|known| (**known).cmp(name)).ok()
    }

    /// Converts a list in the order of the spec to the order of ranks.
    pub(crate) fn in_order<T>(&self, mut listed: Vec<T>) -> Vec<T> {
        let mut ranks = self.rank_of.clone();
        for place in 0..listed.len() {
            while ranks[place] != place {
                let rank = ranks[place];
                listed.swap(place, rank);
                ranks.swap(place, rank);
            }
        }
        listed
    }

    /// LangGraph's names of the channels that trigger a node, sorted.
    pub(crate) fn triggers(&self, rank: usize) -> &[String] {
        &self.triggers[rank]
    }

    /// LangGraph's notation of the place of a task in its superstep.
    pub(crate) fn path(&self, key: TaskKey) -> String {
        match key.send {
            Some(index) => format!("~__pregel_push, {index:010}, False"),
            None => format!("{PULLED}{}", self.name(key.node)),
        }
    }

    /// Computes the id of a task like LangGraph: XXH3-128 of the checkpoint's id and the coordinates of the task.
    pub(crate) fn task_id(&self, checkpoint: Uuid, namespace: &[String], key: TaskKey) -> Uuid {
        // Fits most texts, because growing the buffer would copy it.
        let mut text = Vec::with_capacity(256);
        text.extend_from_slice(checkpoint.as_bytes());
        let name = self.name(key.node);
        for level in namespace {
            text.extend_from_slice(level.as_bytes());
            text.push(b'|');
        }
        text.extend_from_slice(name.as_bytes());
        push_number(&mut text, key.step);
        text.extend_from_slice(name.as_bytes());
        if let Some(index) = key.send {
            text.extend_from_slice(b"__pregel_push");
            push_number(&mut text, index);
        } else {
            text.extend_from_slice(b"__pregel_pull");
            self.triggers(key.node).iter().for_each(|trigger| text.extend_from_slice(trigger.as_bytes()));
        }
        Uuid::from_u128(xxhash_rust::xxh3::xxh3_128(&text))
    }
}

fn push_number(text: &mut Vec<u8>, number: impl Display) {
    // Writing to memory cannot fail.
    let _ = write!(text, "{number}");
}
