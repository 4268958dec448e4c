//! Finds joins that can no longer fire from a position, because edges have changed.

use std::collections::{BTreeMap, BTreeSet};

use super::model::{LockedExits, LockedGraph, LockedJoin, LockedNode};

/// Returns the joins that can no longer fire from some position of the old graph, each with its sources that are out of
/// reach.
pub(super) fn starving(old: &LockedGraph, new: &LockedGraph) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    // Most changes keep all edges and joins.
    if new.joins.is_empty() || is_equal(old, new) {
        return found;
    }
    for stand in stands(old) {
        let position = Position::new(old, new, &stand.ready.iter().copied());
        for join in new.joins.keys() {
            let stored = stand.seen.iter().filter(|(stored, _)| new.join(stored).is_some_and(|(name, _)| name == join));
            let seen = stored.flat_map(|(_, seen)| seen.iter().copied()).collect();
            // A thread at a removed node cannot be resumed in any case.
            if stand.ready.iter().all(|node| new.node(node).is_some())
                && let Some(missing) = position.starves(join, &seen)
            {
                found.entry(join.clone()).or_default().extend(missing);
            }
        }
    }
    found
}

/// Returns true if two graphs have the same edges and joins.
fn is_equal(old: &LockedGraph, new: &LockedGraph) -> bool {
    let exits =
        |graph: &LockedGraph| -> Vec<LockedExits> { graph.nodes.values().map(|node| node.exits.clone()).collect() };
    old.joins == new.joins && old.nodes.keys().eq(new.nodes.keys()) && exits(old) == exits(new)
}

/// A position that a thread may have between two supersteps.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Stand<'a> {
    ready: BTreeSet<&'a str>,
    /// For each join, the sources that have run.
    seen: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

/// The maximum number of positions to explore. Further positions of a large graph are not compared.
const MOST: usize = 5_000;

/// Explores the positions that threads of a graph may have. A node may choose nothing, one node, or all nodes of its
/// choices.
fn stands(graph: &LockedGraph) -> BTreeSet<Stand<'_>> {
    let mut found = BTreeSet::new();
    let mut open: Vec<Stand<'_>> = follow(graph, &[Stand::default()], None, &graph.entry);
    while let Some(stand) = open.pop() {
        if found.len() >= MOST || !found.insert(stand.clone()) {
            continue;
        }
        let mut next = vec![Stand { ready: BTreeSet::new(), seen: stand.seen.clone() }];
        for node in &stand.ready {
            let exits = graph.nodes.get(*node).map(|node| &node.exits);
            next = exits.map_or_else(Vec::new, |exits| follow(graph, &next, Some(node), exits));
            next.truncate(MOST);
        }
        open.extend(next.into_iter().map(|stand| fired(graph, stand)));
    }
    found
}

/// Returns the positions after a node: for each of the positions `stands`, one for each choice of the node.
fn follow<'a>(
    graph: &'a LockedGraph,
    stands: &[Stand<'a>],
    node: Option<&'a str>,
    exits: &'a LockedExits,
) -> Vec<Stand<'a>> {
    let chosen: Vec<&str> = match &exits.chosen {
        Some(chosen) => chosen.iter().map(String::as_str).collect(),
        None => graph.nodes.keys().map(String::as_str).collect(),
    };
    let mut choices: Vec<Vec<&str>> = vec![Vec::new()];
    choices.extend(chosen.iter().map(|node| vec![*node]));
    if chosen.len() > 1 {
        choices.push(chosen);
    }
    let mut next = Vec::new();
    for stand in stands {
        for choice in &choices {
            let mut stand = stand.clone();
            stand.ready.extend(exits.always.iter().map(String::as_str).chain(choice.iter().copied()));
            for (join, _) in
                graph.joins.iter().filter(|(_, join)| join.from.iter().any(|from| Some(from.as_str()) == node))
            {
                stand.seen.entry(join).or_default().extend(node);
            }
            next.push(stand);
        }
    }
    next
}

/// Fires the joins whose sources have all run.
fn fired<'a>(graph: &'a LockedGraph, mut stand: Stand<'a>) -> Stand<'a> {
    for (name, join) in &graph.joins {
        let is_full =
            stand.seen.get(name.as_str()).is_some_and(|seen| join.from.iter().all(|from| seen.contains(from.as_str())));
        if is_full {
            stand.seen.remove(name.as_str());
            stand.ready.insert(&join.to);
        }
    }
    stand
}

/// The nodes that run next and all nodes that can run after them, in the old graph and in the new one.
pub(super) struct Position<'a> {
    old: &'a LockedGraph,
    new: &'a LockedGraph,
    before: BTreeSet<&'a str>,
    after: BTreeSet<&'a str>,
}

impl<'a> Position<'a> {
    /// Creates a position. `next` contains the stored names of the nodes that run next.
    pub(super) fn new<'b>(
        old: &'a LockedGraph,
        new: &'a LockedGraph,
        next: &(impl Iterator<Item = &'b str> + Clone),
    ) -> Self {
        let within = |graph: &'a LockedGraph| {
            let nodes = next.clone().filter_map(|name| graph.node(name)).map(|(name, _)| name);
            reachable(graph, nodes.collect())
        };
        Self { old, new, before: within(old), after: within(new) }
    }

    /// Returns the sources of a join that threads can no longer reach, if other sources have run or can be reached.
    /// Returns `None` if the join can fire, if it is out of reach, or if it could not fire in the old graph either.
    /// `seen` contains the stored names of the sources that have run.
    pub(super) fn starves(&self, join: &str, seen: &BTreeSet<&str>) -> Option<Vec<String>> {
        let wanted = self.new.joins.get(join)?;
        let missing = stuck(self.new, wanted, seen, &self.after)?;
        let stored =
            self.old.joins.iter().find(|(stored, _)| self.new.join(stored).is_some_and(|(name, _)| name == join));
        let was_stuck = stored.is_some_and(|(_, before)| stuck(self.old, before, seen, &self.before).is_some());
        (!was_stuck).then_some(missing)
    }
}

/// Returns the sources that can no longer run, if another source of the join has run or can still run.
fn stuck(graph: &LockedGraph, join: &LockedJoin, seen: &BTreeSet<&str>, reach: &BTreeSet<&str>) -> Option<Vec<String>> {
    let has_run = |source: &String| seen.iter().any(|name| graph.current(name) == source);
    let runs = |source: &String| reach.contains(source.as_str());
    let is_awaited = join.from.iter().any(|source| has_run(source) || runs(source));
    let missing: Vec<String> = join.from.iter().filter(|source| !has_run(source) && !runs(source)).cloned().collect();
    (is_awaited && !missing.is_empty()).then_some(missing)
}

/// Returns the nodes that may still run: these nodes, and all nodes to which they lead. A join counts as one edge from
/// each source.
fn reachable<'a>(graph: &'a LockedGraph, start: Vec<&'a str>) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::new(), start);
    while let Some(node) = open.pop() {
        if !found.insert(node) {
            continue;
        }
        if let Some(LockedNode { exits, .. }) = graph.nodes.get(node) {
            open.extend(exits.all());
            if exits.chosen.is_none() {
                open.extend(graph.nodes.keys().map(String::as_str));
            }
        }
        let joins = graph.joins.values().filter(|join| join.from.iter().any(|source| source == node));
        open.extend(joins.map(|join| join.to.as_str()));
    }
    found
}
