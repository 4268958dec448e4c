//! The nodes that a task can trigger.

use std::ops::Range;

use super::choices::Choices;
use super::sets::{self, Rows};
use crate::{ArmSpec, ArmTarget, EdgeSpec, Goto, GraphSpec, Target};

/// The remaining work of an exploration. Each written row costs its number of words plus [`ROW`].
pub(crate) struct Budget {
    left: usize,
}

/// Maximum work of an exploration, as [`Budget`] counts it: about 50 ms in a build without optimization.
const WORK: usize = 600_000;

/// The cost of a row in addition to its words.
const ROW: usize = 5;

impl Budget {
    pub(crate) const fn new() -> Self {
        Self { left: WORK }
    }

    /// Returns `None` if the budget is exhausted.
    pub(super) fn spend(&mut self, rows: usize, words: usize) -> Option<()> {
        self.left = self.left.checked_sub(rows * (words + ROW))?;
        Some(())
    }
}

/// The places of the sets in the words of a position.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) nodes: usize,
    pub(super) marks: usize,
    pub(super) joins: usize,
}

impl Layout {
    /// Returns the words of the sets `ready`, `sent` and `several`, which each superstep replaces.
    pub(super) const fn triggers(self) -> Range<usize> {
        0..3 * self.nodes
    }

    pub(super) const fn ready(self) -> Range<usize> {
        0..self.nodes
    }

    pub(super) const fn sent(self) -> Range<usize> {
        self.nodes..2 * self.nodes
    }

    pub(super) const fn several(self) -> Range<usize> {
        2 * self.nodes..3 * self.nodes
    }

    pub(super) const fn waiting(self) -> Range<usize> {
        3 * self.nodes..4 * self.nodes
    }

    pub(super) const fn released(self) -> Range<usize> {
        4 * self.nodes..5 * self.nodes
    }

    pub(super) const fn marks(self) -> Range<usize> {
        let start = 5 * self.nodes;
        start..start + self.marks
    }

    pub(super) const fn released_joins(self) -> Range<usize> {
        let start = 5 * self.nodes + self.marks;
        start..start + self.joins
    }

    pub(super) const fn width(self) -> usize {
        5 * self.nodes + self.marks + self.joins
    }
}

/// The nodes that a task triggers, in the layout of [`Layout::triggers`].
pub(super) type Way = Vec<u64>;

/// Returns for each node whether a Send can start it.
pub(super) fn sent(spec: &GraphSpec) -> Vec<bool> {
    let mut sent = vec![false; spec.nodes.len()];
    let arms = spec.edges.iter().filter_map(|edge| match edge {
        EdgeSpec::Route { arms, .. } => Some(arms),
        _ => None,
    });
    for to in arms.flat_map(|arms| arms.iter()).flat_map(|arm| arm.to.iter()) {
        if let ArmTarget::Send(node) = to {
            sent[*node] = true;
        }
    }
    for node in spec.nodes.iter() {
        if let Goto::Only(targets) = &node.goto {
            for to in targets.iter() {
                if let Target::Node(node) = to {
                    sent[*node] = true;
                }
            }
        }
    }
    sent
}

impl Layout {
    /// Returns the ways of two groups of tasks together, each once.
    pub(super) fn combined(self, ways: &[Way], others: &[Way], budget: &mut Budget) -> Option<Vec<Way>> {
        budget.spend(ways.len() * others.len(), self.triggers().len())?;
        let mut all = Rows::new(self.triggers().len());
        let mut both = vec![0; self.triggers().len()];
        for way in ways {
            for other in others {
                self.combine(way, other, &mut both);
                all.number(&both);
            }
        }
        Some(all.into_vecs())
    }

    /// Combines two ways. A node to which both send runs several times.
    fn combine(self, way: &[u64], other: &[u64], both: &mut [u64]) {
        both.copy_from_slice(way);
        sets::add_all(both, other);
        for word in 0..self.nodes {
            let sent = self.nodes + word;
            both[sent + self.nodes] |= way[sent] & other[sent];
        }
    }
}

pub(super) struct Ways<'a> {
    pub(super) layout: Layout,
    pub(super) local: &'a [Option<usize>],
    pub(super) choices: &'a Choices,
}

impl Ways<'_> {
    /// Returns the ways of one task: the plain edges, an arm of each route, and the targets of a command of this node.
    pub(super) fn of_task(&self, edges: &[&EdgeSpec], node: Option<usize>, budget: &mut Budget) -> Option<Vec<Way>> {
        let mut ways = vec![self.nowhere()];
        for edge in edges {
            let choices = match edge {
                EdgeSpec::Plain { to, .. } => vec![self.way(&[ArmTarget::Go(*to)], 0)],
                EdgeSpec::Route { arms, .. } => arms.iter().flat_map(|arm| self.of_arm(arm)).collect(),
                EdgeSpec::Join { .. } => continue,
            };
            ways = self.layout.combined(&ways, &choices, budget)?;
        }
        let groups = node.map_or(&[][..], |node| self.choices.groups(node));
        if groups.iter().flatten().any(|node| self.local[*node].is_some()) {
            ways = self.layout.combined(&ways, &self.of_command(groups, budget)?, budget)?;
        }
        Some(ways)
    }

    /// Returns the ways of a command, which goes to any nodes of one group.
    fn of_command(&self, groups: &[Vec<usize>], budget: &mut Budget) -> Option<Vec<Way>> {
        let mut all = Rows::new(self.layout.triggers().len());
        for group in groups {
            let mut ways = vec![self.nowhere()];
            for node in group.iter().filter(|node| self.local[**node].is_some()) {
                ways = self.layout.combined(&ways, &self.of_target(*node), budget)?;
            }
            for way in &ways {
                all.number(way);
            }
        }
        Some(all.into_vecs())
    }

    /// Returns the ways from a command to one of its targets.
    fn of_target(&self, node: usize) -> Vec<Way> {
        let (go, send) = (ArmTarget::Go(Target::Node(node)), ArmTarget::Send(node));
        let mut ways = vec![self.nowhere(), self.way(&[go], 0), self.way(&[send], 1)];
        if self.choices.repeats() {
            ways.extend([self.way(&[send], 2), self.way(&[go, send], 1), self.way(&[go, send], 2)]);
        }
        ways
    }

    /// Returns the ways of an arm. All nodes of the arm to which it sends receive the same number of items.
    fn of_arm(&self, arm: &ArmSpec) -> Vec<Way> {
        let sends = arm.to.iter().any(|to| matches!(to, ArmTarget::Send(_)));
        let most = if self.choices.repeats() { 2 } else { 1 };
        (0..=if sends { most } else { 0 }).map(|items| self.way(&arm.to, items)).collect()
    }

    /// Returns the ways of two or more tasks of one node.
    pub(super) fn of_several(&self, one: &[Way], budget: &mut Budget) -> Option<Vec<Way>> {
        let mut all = self.layout.combined(one, one, budget)?;
        loop {
            let mut more = Rows::new(self.layout.triggers().len());
            for way in all.iter().chain(&self.layout.combined(&all, one, budget)?) {
                more.number(way);
            }
            if more.len() == all.len() {
                return Some(all);
            }
            all = more.into_vecs();
        }
    }

    fn nowhere(&self) -> Way {
        vec![0; self.layout.triggers().len()]
    }

    fn way(&self, targets: &[ArmTarget], items: usize) -> Way {
        let mut way = self.nowhere();
        for to in targets {
            let Target::Node(node) = to.target() else { continue };
            let Some(node) = self.local[node] else { continue };
            match to {
                ArmTarget::Go(_) => sets::insert(&mut way[self.layout.ready()], node),
                ArmTarget::Send(_) if items == 0 => {}
                ArmTarget::Send(_) => {
                    sets::insert(&mut way[self.layout.sent()], node);
                    if items > 1 {
                        sets::insert(&mut way[self.layout.several()], node);
                    }
                }
            }
        }
        way
    }
}
