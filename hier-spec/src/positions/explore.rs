//! All positions that can be reached.

use super::choices::Choices;
use super::model::StepModel;
use super::sets::{self, Rows};
use super::ways::Budget;
use crate::GraphSpec;
use crate::reach::Reachability;

/// The positions that a run can reach, in the order of their distance from START. A position consists of the triggers
/// of nodes between two supersteps. The methods identify a position by its index.
pub struct Positions {
    model: StepModel,
    rows: Rows,
    /// The position before each position on a shortest path. `None` for the first positions.
    before: Vec<Option<usize>>,
    /// The positions that can follow, all in one list.
    next: Vec<usize>,
    /// The end of each position's part of `next`.
    ends: Vec<usize>,
}

impl Positions {
    /// Explores the positions that a run can reach. A position contains only the nodes in `goals` and the nodes that
    /// can lead to them.
    ///
    /// Other nodes do not influence the goals. An exception is a deferred node, which waits for all other nodes. If a
    /// goal or a node that leads to a goal is deferred, the positions contain all nodes.
    ///
    /// Returns `None` if a command may go to any node, or if there are too many positions.
    pub fn explore(spec: &GraphSpec, goals: &[usize]) -> Option<Self> {
        Self::with(spec, &Reachability::new(spec), goals)
    }

    pub(crate) fn with(spec: &GraphSpec, reach: &Reachability, goals: &[usize]) -> Option<Self> {
        Self::within(spec, reach, goals, &Choices::all(spec)?, &mut Budget::new())
    }

    pub(crate) fn within(
        spec: &GraphSpec,
        reach: &Reachability,
        goals: &[usize],
        choices: &Choices,
        budget: &mut Budget,
    ) -> Option<Self> {
        let leads = reach.leading_to(goals);
        let is_whole = spec.nodes.iter().zip(&leads).any(|(node, leads)| *leads && node.defer);
        let model = StepModel::within(spec, |node| is_whole || leads[node], choices, budget)?;
        Self::of(model, budget)
    }

    fn of(model: StepModel, budget: &mut Budget) -> Option<Self> {
        let rows = Rows::new(model.width());
        let mut positions = Self { model, rows, before: Vec::new(), next: Vec::new(), ends: Vec::new() };
        for at in positions.model.first(budget)? {
            positions.number(&at, None);
        }
        while positions.ends.len() < positions.rows.len() {
            let at = positions.ends.len();
            let row = positions.rows.row(at).to_vec();
            let next = if positions.model.is_over(&row) { Vec::new() } else { positions.model.next(&row, budget)? };
            for row in next {
                let next = positions.number(&row, Some(at));
                positions.next.push(next);
            }
            positions.ends.push(positions.next.len());
        }
        Some(positions)
    }

    fn number(&mut self, row: &[u64], before: Option<usize>) -> usize {
        let number = self.rows.number(row);
        if number == self.before.len() {
            self.before.push(before);
        }
        number
    }

    /// Returns the number of positions.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Returns the nodes that run at a position. If no node runs at a position, a run ends there.
    pub fn running(&self, at: usize) -> Vec<usize> {
        self.model.running(self.rows.row(at))
    }

    /// Returns the indices of the positions that can follow a position.
    pub fn next(&self, at: usize) -> &[usize] {
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.next[begin..self.ends[at]]
    }

    /// Returns a shortest path from START to a position. The last index on the path is `at`.
    pub fn path(&self, at: usize) -> Vec<usize> {
        let mut path: Vec<usize> = std::iter::successors(Some(at), |at| self.before[*at]).collect();
        path.reverse();
        path
    }

    /// Returns a list with an entry for each position. The entry is true if a run that has reached the position can
    /// still end.
    pub fn ending(&self) -> Vec<bool> {
        let over = (0..self.count()).filter(|at| self.model.is_over(self.rows.row(*at)));
        self.leading_to(over.collect())
    }

    /// Returns for each position whether a run can get from it to one of the positions in `open`. These count
    /// themselves.
    pub(crate) fn leading_to(&self, mut open: Vec<usize>) -> Vec<bool> {
        let mut before: Vec<Vec<usize>> = vec![Vec::new(); self.count()];
        for at in 0..self.count() {
            self.next(at).iter().for_each(|next| before[*next].push(at));
        }
        let mut leads = vec![false; self.count()];
        for at in &open {
            leads[*at] = true;
        }
        while let Some(at) = open.pop() {
            for before in &before[at] {
                if !std::mem::replace(&mut leads[*before], true) {
                    open.push(*before);
                }
            }
        }
        leads
    }

    /// Returns for each position whether it can follow this one, in one or more supersteps.
    pub(crate) fn after(&self, at: usize) -> Vec<bool> {
        let mut after = vec![false; self.count()];
        let mut open = vec![at];
        while let Some(at) = open.pop() {
            for next in self.next(at) {
                if !std::mem::replace(&mut after[*next], true) {
                    open.push(*next);
                }
            }
        }
        after
    }

    /// Returns a shortest path of one or more supersteps between two positions, without the first.
    pub(crate) fn path_between(&self, from: usize, to: usize) -> Option<Vec<usize>> {
        let mut before: Vec<Option<usize>> = vec![None; self.count()];
        let mut open = std::collections::VecDeque::from([from]);
        while let Some(at) = open.pop_front() {
            for next in self.next(at) {
                if before[*next].is_none() {
                    before[*next] = Some(at);
                    open.push_back(*next);
                }
            }
            if before[to].is_some() {
                let mut path = vec![to];
                let mut at = before[to];
                while let Some(earlier) = at.filter(|at| *at != from) {
                    path.push(earlier);
                    at = before[earlier];
                }
                path.reverse();
                return Some(path);
            }
        }
        None
    }

    /// Returns the edges of the joins that are in the model.
    pub(crate) fn joins(&self) -> impl Iterator<Item = usize> {
        self.model.joins.iter().map(|join| join.edge)
    }

    /// Returns for each join of [`Self::joins`] whether all its sources have run at some position.
    pub(crate) fn fired(&self) -> Vec<bool> {
        let mut fired = vec![false; self.model.joins.len()];
        for at in 0..self.count() {
            self.full(at).zip(&mut fired).for_each(|(is_full, fired)| *fired |= is_full);
        }
        fired
    }

    /// Returns for each join of [`Self::joins`] whether all its sources have run at a position.
    pub(crate) fn full(&self, at: usize) -> impl Iterator<Item = bool> {
        let row = self.rows.row(at);
        self.model.joins.iter().map(move |join| self.model.is_full(row, join))
    }

    /// Returns the sources for which the join of an edge waits at a position.
    pub(crate) fn missing(&self, at: usize, edge: usize) -> Vec<usize> {
        let join = self.model.joins.iter().find(|join| join.edge == edge);
        join.map(|join| self.model.missing(self.rows.row(at), join)).unwrap_or_default()
    }

    /// Returns the companions of each node, or `None` for a node that never runs or that is not in the model.
    pub(crate) fn companions(&self, spec: &GraphSpec) -> Vec<Option<Companions>> {
        let mut found: Vec<Option<Companions>> = Vec::new();
        found.resize_with(spec.nodes.len(), || None);
        for at in 0..self.count() {
            let running = self.model.running_set(self.rows.row(at));
            for node in self.model.nodes_of(&running) {
                match &mut found[node] {
                    Some(companions) => sets::keep_all(&mut companions.always, &running),
                    none => *none = Some(Companions { always: running.clone(), first: at }),
                }
            }
        }
        found
    }

    /// Returns true if `other` runs whenever the node of these companions runs.
    pub(crate) fn always_runs(&self, companions: &Companions, other: usize) -> bool {
        self.model.place(other).is_some_and(|place| sets::contains(&companions.always, place))
    }
}

/// The nodes that run whenever a node runs.
pub(crate) struct Companions {
    always: Vec<u64>,
    /// The first position at which the node runs.
    pub(crate) first: usize,
}
