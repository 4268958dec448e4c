//! The scheduler: which nodes run next. Pure: no clock, no I/O, no randomness.
//!
//! The rules are the reference's (LangGraph 1.2, superstep algorithm): plain edges signal a node for one step; a join
//! remembers which of its sources have run, also beyond the end of a run; a deferred node is released when a step
//! leaves nothing else to trigger, pending Sends not counted.

use fixedbitset::FixedBitSet;

use super::plan::{Exit, Plan};

/// Which nodes are signalled, which joins are how full, and which nodes were set off by the last step.
#[derive(Clone, Debug)]
pub(crate) struct Frontier {
    /// Nodes with a signal. That of a deferred node stays until the node has run; others last one step.
    signals: FixedBitSet,
    /// Deferred nodes whose signal has been released.
    released: FixedBitSet,
    joins: Vec<JoinState>,
    /// Nodes to run next.
    ready: FixedBitSet,
    /// Scratch: signals of the step that is being applied.
    fresh: FixedBitSet,
}

#[derive(Clone, Debug)]
struct JoinState {
    seen: FixedBitSet,
    missing: usize,
    released: bool,
}

impl Frontier {
    /// Nothing has run yet.
    pub(crate) fn new(plan: &Plan) -> Self {
        let none = FixedBitSet::with_capacity(plan.len());
        let join = |join: &super::plan::Join| JoinState {
            seen: FixedBitSet::with_capacity(join.sources),
            missing: join.sources,
            released: false,
        };
        Self {
            signals: none.clone(),
            released: none.clone(),
            joins: plan.joins.iter().map(join).collect(),
            ready: none.clone(),
            fresh: none,
        }
    }

    /// The nodes to run next, in the order of their names.
    pub(crate) fn ready(&self) -> impl Iterator<Item = usize> {
        self.ready.ones()
    }

    /// The only node to run next; none if there are none or several.
    pub(crate) fn only(&self) -> Option<usize> {
        let mut ready = self.ready.ones();
        let first = ready.next()?;
        ready.next().is_none().then_some(first)
    }

    /// Begins to apply a step: nothing is set off yet.
    pub(crate) fn begin(&mut self) {
        self.ready.clear();
        self.fresh.clear();
    }

    /// A node has run because an edge led to it: what triggered it is used up.
    pub(crate) fn consume(&mut self, plan: &Plan, node: usize) {
        let deferred = plan.deferred.contains(node);
        for join in &plan.joins_into[node] {
            let state = &mut self.joins[*join];
            if state.missing == 0 && (!deferred || state.released) {
                state.seen.clear();
                state.missing = plan.joins[*join].sources;
                state.released = false;
            }
        }
        if deferred && self.released.contains(node) {
            self.released.remove(node);
            self.signals.remove(node);
        }
    }

    /// Follows the plain edges and joins of a node or of START.
    pub(crate) fn follow(&mut self, plan: &Plan, exit: &Exit) {
        for node in &exit.signals {
            self.signal(plan, *node);
        }
        for (join, place) in &exit.joins {
            let state = &mut self.joins[*join];
            if !state.seen.put(*place) {
                state.missing -= 1;
                let target = plan.joins[*join].target;
                if state.missing == 0 && !plan.deferred.contains(target) {
                    self.ready.insert(target);
                }
            }
        }
    }

    /// Signals a node.
    pub(crate) fn signal(&mut self, plan: &Plan, node: usize) {
        if plan.deferred.contains(node) {
            self.signals.insert(node);
            self.released.remove(node);
        } else {
            self.fresh.insert(node);
        }
    }

    /// Ends applying a step: old signals expire, and if nothing was set off, deferred nodes are released.
    pub(crate) fn end(&mut self, plan: &Plan) {
        self.ready.union_with(&self.fresh);
        let quiet = self.ready.is_clear();
        if plan.deferred.is_clear() {
            std::mem::swap(&mut self.signals, &mut self.fresh);
            return;
        }
        self.signals.intersect_with(&plan.deferred);
        self.signals.union_with(&self.fresh);
        if quiet {
            self.release(plan);
        }
    }

    fn release(&mut self, plan: &Plan) {
        for node in plan.deferred.ones() {
            if self.signals.contains(node) && !self.released.put(node) {
                self.ready.insert(node);
            }
        }
        for (join, state) in plan.joins.iter().zip(&mut self.joins) {
            if state.missing == 0 && !state.released && plan.deferred.contains(join.target) {
                state.released = true;
                self.ready.insert(join.target);
            }
        }
    }
}
