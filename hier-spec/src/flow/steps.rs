//! The nodes that can run in the same superstep.
//!
//! [`same_step`] explores the [`positions`](crate::positions) that a run can reach: every arm of every route, every
//! target of a command, zero or one items of a `for`. Two targets of a command count as chosen at once only if a join
//! of the graph never fires otherwise: most commands choose between their targets. If the exploration exceeds its
//! bound, only nodes that always run together count.

use crate::GraphSpec;
use crate::positions::{Budget, Choices, Positions};
use crate::reach::Reachability;
use crate::together;

/// A table of the pairs of nodes that can run in the same superstep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SameStep {
    words: usize,
    rows: Vec<u64>,
    /// True if the table has all pairs. False if the graph has too many positions to explore, or if a command may go to
    /// any node. The table then has only the pairs of nodes that always run together.
    pub is_exact: bool,
}

impl SameStep {
    fn new(nodes: usize) -> Self {
        let words = nodes.div_ceil(64);
        Self { words, rows: vec![0; nodes * words], is_exact: true }
    }

    /// Returns true if the table has the pair of nodes with these indices.
    pub fn contains(&self, a: usize, b: usize) -> bool {
        self.rows[a * self.words + b / 64] & (1 << (b % 64)) != 0
    }

    /// Returns a row of bits for each node, in words of 64 bits. Returns an empty list if no two nodes ever run in the
    /// same superstep.
    pub fn rows(&self) -> &[u64] {
        if self.rows.iter().all(|word| *word == 0) { &[] } else { &self.rows }
    }

    fn insert(&mut self, a: usize, b: usize) {
        self.rows[a * self.words + b / 64] |= 1 << (b % 64);
        self.rows[b * self.words + a / 64] |= 1 << (a % 64);
    }

    fn insert_all(&mut self, nodes: &[usize]) {
        for (place, a) in nodes.iter().enumerate() {
            nodes[..place].iter().for_each(|b| self.insert(*a, *b));
        }
    }
}

/// Computes which nodes can run in the same superstep.
pub fn same_step(spec: &GraphSpec) -> SameStep {
    let reach = Reachability::new(spec);
    explored(spec, &reach).unwrap_or_else(|| always(spec, &reach))
}

/// Finds only nodes that always run in the same superstep.
fn always(spec: &GraphSpec, reach: &Reachability) -> SameStep {
    let class = together::classes(spec, reach);
    let mut table = SameStep::new(spec.nodes.len());
    table.is_exact = false;
    for node in 0..class.len() {
        (0..node).filter(|other| class[*other] == class[node]).for_each(|other| table.insert(node, other));
    }
    table
}

/// Explores all positions. Returns `None` if there are too many.
fn explored(spec: &GraphSpec, reach: &Reachability) -> Option<SameStep> {
    let choices = Choices::intended(spec, reach)?;
    let all: Vec<usize> = (0..spec.nodes.len()).collect();
    let positions = Positions::within(spec, reach, &all, &choices, &mut Budget::new())?;
    let mut table = SameStep::new(spec.nodes.len());
    (0..positions.count()).for_each(|at| table.insert_all(&positions.running(at)));
    Some(table)
}
