//! Schedules nodes. Pure: no clock, no I/O, no randomness.
//!
//! The rules are those of LangGraph 1.2:
//!
//! * A plain edge signals a node for one superstep.
//! * A join remembers its sources that have run, even beyond the end of a run.
//! * A deferred node is released when a superstep triggers no other node. Pending Sends do not count.

use fixedbitset::FixedBitSet;

use crate::checkpoint::{JoinRecord, NextTasks};
use crate::engine::program::{Exit, Join, Plan};

/// The triggered nodes, the states of the joins, and the waiting deferred nodes.
#[derive(Clone, Debug)]
pub(crate) struct Frontier {
    /// The nodes that run next, sorted and without duplicates, except while a superstep is being applied.
    ready: Vec<usize>,
    /// Deferred nodes with a signal. The signal stays until the node has run.
    waiting: FixedBitSet,
    /// Deferred nodes whose signal has been released.
    released: FixedBitSet,
    joins: Vec<JoinState>,
    /// The triggers that the last superstep changed. None if the graph has no joins.
    triggers: Option<Box<Triggers>>,
}

/// The triggers of join targets that the last superstep changed. If two triggers of a node change at once, LangGraph
/// does not know which node ran last.
#[derive(Clone, Debug)]
struct Triggers {
    signalled: FixedBitSet,
    /// Nodes whose signal has expired.
    expired: FixedBitSet,
    /// Joins that a source has reached, or that were reset because their target has run.
    joins: FixedBitSet,
    /// Nodes with more than one changed trigger.
    tied: FixedBitSet,
}

impl Triggers {
    /// Begins a superstep. The signals of the last superstep expire.
    fn begin(&mut self) {
        std::mem::swap(&mut self.signalled, &mut self.expired);
        self.signalled.clear();
        self.joins.clear();
        self.tied.clear();
    }
}

#[derive(Clone, Debug)]
struct JoinState {
    seen: FixedBitSet,
    missing: usize,
    released: bool,
}

impl Frontier {
    pub(crate) fn new(plan: &Plan) -> Self {
        let join = |join: &Join| JoinState {
            seen: FixedBitSet::with_capacity(join.from.len()),
            missing: join.from.len(),
            released: false,
        };
        let nodes = || FixedBitSet::with_capacity(plan.len());
        let triggers = || Triggers {
            signalled: nodes(),
            expired: nodes(),
            joins: FixedBitSet::with_capacity(plan.joins.len()),
            tied: nodes(),
        };
        Self {
            ready: Vec::new(),
            waiting: if plan.defers { nodes() } else { FixedBitSet::new() },
            released: if plan.defers { nodes() } else { FixedBitSet::new() },
            joins: plan.joins.iter().map(join).collect(),
            triggers: (!plan.joins.is_empty()).then(|| Box::new(triggers())),
        }
    }

    /// The nodes that run next, in the order of their names.
    #[inline]
    pub(crate) fn ready(&self) -> &[usize] {
        &self.ready
    }

    #[inline]
    pub(crate) fn begin(&mut self) {
        self.ready.clear();
        if let Some(triggers) = &mut self.triggers {
            triggers.begin();
        }
    }

    /// Uses up the triggers of a node that has run.
    #[inline]
    pub(crate) fn consume(&mut self, plan: &Plan, node: usize) {
        if !plan.exits[node].plain {
            self.use_up(plan, node);
        }
    }

    fn use_up(&mut self, plan: &Plan, node: usize) {
        for join in &plan.joins_into[node] {
            let state = &mut self.joins[*join];
            if state.missing == 0 && (!plan.is_deferred(node) || state.released) {
                state.seen.clear();
                state.missing = plan.joins[*join].from.len();
                state.released = false;
                if let Some(triggers) = &mut self.triggers {
                    triggers.joins.insert(*join);
                }
            }
        }
        if plan.is_deferred(node) && self.released.contains(node) {
            self.released.remove(node);
            self.waiting.remove(node);
        }
    }

    /// Follows the plain edges and joins of a node or of START.
    #[inline]
    pub(crate) fn follow(&mut self, plan: &Plan, exit: &Exit) {
        if let ([node], true) = (&*exit.signals, exit.plain) {
            self.ready.push(*node);
        } else {
            self.follow_all(plan, exit);
        }
    }

    /// Applies a superstep of one node whose exit is plain. The caller then follows the routes of the node.
    #[inline]
    pub(crate) fn advance(&mut self, exit: &Exit) {
        if let ([next], [ready]) = (&*exit.signals, &mut *self.ready) {
            *ready = *next;
        } else {
            self.ready.clear();
            self.ready.extend_from_slice(&exit.signals);
        }
        if let Some(triggers) = &mut self.triggers {
            triggers.begin();
        }
    }

    fn follow_all(&mut self, plan: &Plan, exit: &Exit) {
        for node in &exit.signals {
            self.signal(plan, *node);
        }
        for (join, place) in &exit.joins {
            let state = &mut self.joins[*join];
            if !state.seen.put(*place) {
                state.missing -= 1;
                if let Some(triggers) = &mut self.triggers {
                    triggers.joins.insert(*join);
                }
                let target = plan.joins[*join].target;
                if state.missing == 0 && !plan.is_deferred(target) {
                    self.ready.push(target);
                }
            }
        }
    }

    #[inline]
    pub(crate) fn signal(&mut self, plan: &Plan, node: usize) {
        if let Some(triggers) = &mut self.triggers {
            triggers.signalled.insert(node);
        }
        if plan.is_deferred(node) {
            self.waiting.insert(node);
            self.released.remove(node);
        } else {
            self.ready.push(node);
        }
    }

    /// Ends a superstep. If the superstep has triggered no node, releases the deferred nodes.
    #[inline]
    pub(crate) fn end(&mut self, plan: &Plan) {
        if self.ready.len() != 1 {
            self.put_in_order(plan);
        }
        if self.triggers.is_some() {
            self.find_ties(plan);
        }
    }

    fn find_ties(&mut self, plan: &Plan) {
        let Some(triggers) = &mut self.triggers else { return };
        for node in &self.ready {
            let joins = plan.joins_into[*node].iter().filter(|join| triggers.joins.contains(**join)).count();
            let expired = triggers.expired.contains(*node) && !plan.is_deferred(*node);
            if joins + usize::from(triggers.signalled.contains(*node) || expired) > 1 {
                triggers.tied.insert(*node);
            }
        }
    }

    /// Returns true if the last superstep changed more than one trigger of a ready node.
    pub(crate) fn is_tied(&self, node: usize) -> bool {
        self.triggers.as_ref().is_some_and(|triggers| triggers.tied.contains(node))
    }

    fn put_in_order(&mut self, plan: &Plan) {
        if self.ready.is_empty() && plan.defers {
            self.release(plan);
        }
        self.sort();
    }

    pub(crate) fn sort(&mut self) {
        if !self.ready.is_sorted_by(|a, b| a < b) {
            self.ready.sort_unstable();
            self.ready.dedup();
        }
    }

    fn release(&mut self, plan: &Plan) {
        let mut triggers = self.triggers.as_mut();
        for node in self.waiting.ones() {
            if !self.released.put(node) {
                self.ready.push(node);
                if let Some(triggers) = &mut triggers {
                    triggers.signalled.insert(node);
                }
            }
        }
        for (number, (join, state)) in plan.joins.iter().zip(&mut self.joins).enumerate() {
            if state.missing == 0 && !state.released && plan.is_deferred(join.target) {
                state.released = true;
                self.ready.push(join.target);
                if let Some(triggers) = &mut triggers {
                    triggers.joins.insert(number);
                }
            }
        }
    }

    /// Drops the ready nodes for a new input, as if they had run.
    pub(crate) fn discard(&mut self, plan: &Plan) {
        for node in std::mem::take(&mut self.ready) {
            self.use_up(plan, node);
        }
    }

    /// After an update from outside, adds the targets of full joins and the released deferred nodes.
    pub(crate) fn keep_survivors(&mut self, plan: &Plan) {
        let full = plan.joins.iter().zip(&self.joins).filter(|(_, state)| state.missing == 0);
        let full = full.filter(|(join, state)| !plan.is_deferred(join.target) || state.released);
        self.ready.extend(full.map(|(join, _)| join.target).chain(self.released.ones()));
        self.ready.sort_unstable();
        self.ready.dedup();
    }

    /// Adds the frontier to the stored form of a position, by the names of the nodes.
    pub(crate) fn note(&self, plan: &Plan, agenda: &mut NextTasks) {
        let name = |node: usize| plan.shared_name(node).clone();
        agenda.ready.extend(self.ready.iter().map(|node| name(*node)));
        if plan.defers {
            agenda.waiting.extend(self.waiting.ones().map(name));
            agenda.released.extend(self.released.ones().map(name));
        }
        for (join, state) in plan.joins.iter().zip(&self.joins).filter(|(_, state)| !state.seen.is_clear()) {
            let seen = state.seen.ones().map(|place| name(join.from[place])).collect();
            agenda.joins.push(JoinRecord::new(join.name.clone(), seen, state.released));
        }
        agenda.tied.extend(self.ready.iter().filter(|node| self.is_tied(**node)).map(|node| name(*node)));
    }

    /// Reads a stored frontier. `find` returns the rank of a node, and `find_join` the number of a join. A waiting node
    /// that is not deferred in this program runs next.
    pub(crate) fn read<E>(
        plan: &Plan,
        agenda: &NextTasks,
        find: impl Fn(&str) -> Result<usize, E>,
        find_join: impl Fn(&str) -> Result<usize, E>,
    ) -> Result<Self, E> {
        let mut frontier = Self::new(plan);
        for name in &agenda.ready {
            frontier.ready.push(find(name)?);
        }
        for name in &agenda.waiting {
            let node = find(name)?;
            if plan.is_deferred(node) { frontier.waiting.insert(node) } else { frontier.ready.push(node) }
        }
        for name in &agenda.released {
            let node = find(name)?;
            if plan.is_deferred(node) {
                frontier.released.insert(node);
            }
        }
        for record in &agenda.joins {
            frontier.read_join(plan, record, &find, find_join(&record.join)?)?;
        }
        frontier.ready.sort_unstable();
        frontier.ready.dedup();
        for name in &agenda.tied {
            let node = find(name)?;
            frontier.triggers.iter_mut().for_each(|triggers| triggers.tied.insert(node));
        }
        frontier.find_signals(plan);
        Ok(frontier)
    }

    /// Marks ready nodes as signalled if an edge must have triggered them: no full join leads to the node, or the node
    /// had several triggers.
    fn find_signals(&mut self, plan: &Plan) {
        let Some(triggers) = &mut self.triggers else { return };
        for node in &self.ready {
            let is_joined = plan.joins_into[*node].iter().any(|join| self.joins[*join].missing == 0);
            if !is_joined || triggers.tied.contains(*node) {
                triggers.signalled.insert(*node);
            }
        }
    }

    fn read_join<E>(
        &mut self,
        plan: &Plan,
        record: &JoinRecord,
        find: impl Fn(&str) -> Result<usize, E>,
        number: usize,
    ) -> Result<(), E> {
        let (join, state) = (&plan.joins[number], &mut self.joins[number]);
        for name in &record.seen {
            let node = find(name)?;
            if let Some(place) = join.from.iter().position(|source| *source == node)
                && !state.seen.put(place)
            {
                state.missing -= 1;
            }
        }
        if plan.is_deferred(join.target) {
            state.released = record.released;
        } else if state.missing == 0 {
            self.ready.push(join.target);
        }
        Ok(())
    }
}
