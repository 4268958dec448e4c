//! The choices that the rules of data flow follow.
//!
//! The rules of a graph's shape follow all choices that the engine allows: a command may go to all its targets at once.
//! The rules of data flow follow fewer, because a node usually goes to one of its targets: they would otherwise refuse
//! two nodes between which a command chooses. Two targets count as chosen at once if the graph makes no sense otherwise.

use super::choices::{Choices, targets};
use super::explore::Positions;
use super::ways::Budget;
use crate::reach::Reachability;
use crate::{EdgeSpec, GraphSpec, Target};

impl Choices {
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

/// Returns the pairs of targets, each with its node, that a command of the node needs at once: without such a command,
/// a join that can fire would never do so.
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

fn pairs(node: usize, targets: &[usize]) -> impl Iterator<Item = (usize, [usize; 2])> {
    let pairs = targets.iter().enumerate().flat_map(move |(place, a)| targets[..place].iter().map(move |b| [*b, *a]));
    pairs.map(move |pair| (node, pair))
}
