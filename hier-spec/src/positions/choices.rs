//! The choices that an exploration follows.
//!
//! The rules of a graph's shape follow all choices that the engine allows: a command may go to all its targets at once.
//! The rules of data flow follow fewer, because a node usually goes to one of its targets: they would otherwise refuse
//! two nodes between which a command chooses. Two targets count as chosen at once if the graph makes no sense otherwise.

use super::explore::Positions;
use super::ways::Budget;
use crate::reach::Reachability;
use crate::{EdgeSpec, Goto, GraphSpec, Target};

/// The choices of the tasks of a graph.
#[derive(Clone)]
pub(crate) struct Choices {
    /// For each node, the groups of the targets of its commands. A command goes to any nodes of one group.
    groups: Vec<Vec<Vec<usize>>>,
    repeats: bool,
}

impl Choices {
    /// Returns all choices. Returns none if a command may go to any node.
    pub(crate) fn all(spec: &GraphSpec) -> Option<Self> {
        Some(Self::any_of(targets(spec)?))
    }

    fn any_of(targets: Vec<Vec<usize>>) -> Self {
        Self { groups: targets.into_iter().map(|targets| vec![targets]).collect(), repeats: true }
    }

    /// Returns the choices that the author of a graph has certainly intended: a command goes to one of its targets, or
    /// to two that are [`needed`] at once, and a task sends at most one item to a node.
    pub(crate) fn intended(spec: &GraphSpec, reach: &Reachability) -> Option<Self> {
        let targets = targets(spec)?;
        let mut groups: Vec<Vec<Vec<usize>>> =
            targets.iter().map(|targets| targets.iter().map(|target| vec![*target]).collect()).collect();
        for (node, pair) in needed(spec, reach, &targets) {
            groups[node].push(pair.to_vec());
        }
        Some(Self { groups, repeats: false })
    }

    pub(super) fn groups(&self, node: usize) -> &[Vec<usize>] {
        &self.groups[node]
    }

    /// Returns true if a task may start several tasks of a node, whose choices may differ.
    pub(super) const fn repeats(&self) -> bool {
        self.repeats
    }

    /// Returns the choices without commands of a node that go to both nodes of a pair.
    fn without(&self, node: usize, pair: [usize; 2]) -> Self {
        let mut less = self.clone();
        let halves = self.groups[node].iter().flat_map(|group| {
            pair.map(|left_out| group.iter().copied().filter(|target| *target != left_out).collect())
        });
        less.groups[node] = halves.collect();
        less
    }
}

/// Returns for each node the nodes to which its commands may go. Returns none if a command may go to any node.
fn targets(spec: &GraphSpec) -> Option<Vec<Vec<usize>>> {
    let of_node = |goto: &Goto| match goto {
        Goto::Any => None,
        Goto::Only(targets) => {
            let nodes = targets.iter().filter_map(|to| match to {
                Target::Node(node) => Some(*node),
                Target::End => None,
            });
            let mut nodes: Vec<usize> = nodes.collect();
            nodes.sort_unstable();
            nodes.dedup();
            Some(nodes)
        }
    };
    spec.nodes.iter().map(|node| of_node(&node.goto)).collect()
}

/// Returns the pairs of targets, each with its node, to both of which a command of the node goes in some run: a join
/// that can fire would otherwise never do so.
///
/// Returns fewer pairs if the exploration that finds them exceeds its bound.
fn needed(spec: &GraphSpec, reach: &Reachability, targets: &[Vec<usize>]) -> Vec<(usize, [usize; 2])> {
    let joined = spec.edges.iter().flat_map(|edge| match edge {
        EdgeSpec::Join { from, to: Target::Node(to) } => from.iter().chain([to]).copied().collect(),
        _ => Vec::new(),
    });
    let joined: Vec<usize> = joined.collect();
    let pairs: Vec<(usize, [usize; 2])> = targets.iter().enumerate().flat_map(|(node, of)| pairs(node, of)).collect();
    if joined.is_empty() || pairs.is_empty() {
        return Vec::new();
    }
    let all = Choices::any_of(targets.to_vec());
    let mut budget = Budget::new();
    let mut fired = |choices: &Choices| {
        Positions::within(spec, reach, &joined, choices, &mut budget).map(|positions| positions.fired())
    };
    let Some(of_all) = fired(&all) else { return Vec::new() };
    let is_needed =
        |(node, pair): &(usize, [usize; 2])| fired(&all.without(*node, *pair)).is_some_and(|without| without != of_all);
    pairs.into_iter().filter(is_needed).collect()
}

/// Returns the pairs of a node's targets.
fn pairs(node: usize, targets: &[usize]) -> impl Iterator<Item = (usize, [usize; 2])> {
    let pairs = targets.iter().enumerate().flat_map(move |(place, a)| targets[..place].iter().map(move |b| [*b, *a]));
    pairs.map(move |pair| (node, pair))
}
