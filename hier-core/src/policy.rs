//! Decides where a run pauses and which tasks run elsewhere. A cluster implements [`StepPolicy`], and the engine
//! consults it at each superstep. Without a policy, a run pauses only at questions, breakpoints and drains.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A part of an open superstep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartialStep {
    /// One task. The superstep is not applied.
    Task {
        /// The namespace of its graph.
        namespace: String,
        /// Its place in the superstep.
        task: String,
    },
    /// All tasks without a stored result, after which the superstep is applied. Tasks with an open question do not ask again.
    Rest {
        /// The namespace of their graph.
        namespace: String,
        /// The places of tasks that stopped at a breakpoint inside.
        stopped: Vec<String>,
    },
}

/// The end of a [`PartialStep`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialStepEnd {
    /// The task has ended and is stored.
    TaskStored,
    /// The rest of the superstep has run. Later supersteps run as a whole.
    StepRan,
    /// All results of the superstep came from elsewhere. The run only applies them, so this superstep does not count.
    StepOnlyApplied,
}

/// The time of a stopped clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoppedClock {
    /// The time since 1970.
    pub since_1970: Duration,
    /// Distinguishes the ids of one namespace from all others.
    pub node: [u8; 6],
}

/// The paused run that a run continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedRun {
    /// The run does not continue a paused run.
    None,
    /// The run paused between two supersteps of the root graph, with no subgraph running.
    BetweenSteps,
    /// The run paused inside a superstep.
    InsideStep,
}

/// The way in which a run comes to a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphEntry {
    /// The graph is entered with an input.
    Start,
    /// The graph continues from a checkpoint.
    Resume,
}

/// A task of a superstep that has not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// The name of its node.
    pub node: String,
    /// Its place in the superstep.
    pub place: String,
}

/// Decides where a run pauses, and which tasks of a superstep run elsewhere.
///
/// A namespace is the list of segments on the path from the root graph to a subgraph. It is empty for the root. Each method defaults to
/// the behavior of a run without a policy.
pub trait StepPolicy: fmt::Debug + Send + Sync {
    /// Returns the clock for the ids of a namespace. Defaults to the system clock.
    fn clock(&self, namespace: &str) -> Option<StoppedClock> {
        let _ = namespace;
        None
    }

    /// Returns the paused run that this run continues.
    fn continues(&self) -> PausedRun {
        PausedRun::None
    }

    /// Returns the last superstep that a graph may run. `last_step` is the last superstep that the recursion limit of
    /// this run allows.
    fn last_step(&self, namespace: &[String], entry: GraphEntry, last_step: i64) -> i64 {
        let _ = (namespace, entry);
        last_step
    }

    /// Records that a superstep is stored.
    fn step_stored(&self, namespace: &[String]) {
        let _ = namespace;
    }

    /// Returns true if the run pauses before the next superstep of a graph. Records the pause.
    fn pause(&self, is_subgraph: bool) -> bool {
        let _ = is_subgraph;
        false
    }

    /// Returns true if the next tasks of a graph run elsewhere, and records them. The run then pauses.
    fn run_elsewhere(&self, namespace: &[String], tasks: Vec<PlannedTask>) -> bool {
        let _ = (namespace, tasks);
        false
    }

    /// Returns the part of this graph's open superstep that the run must execute. Defaults to the whole superstep.
    fn partial_step(&self, namespace: &[String]) -> Option<PartialStep> {
        let _ = namespace;
        None
    }

    /// Records the end of the partial superstep.
    fn end_partial_step(&self, end: PartialStepEnd) {
        let _ = end;
    }

    /// Records that a parallel superstep begins. The run does not pause inside it.
    fn parallel_step_begins(&self) {}

    /// Records that a parallel superstep ends.
    fn parallel_step_ends(&self) {}
}

pub(crate) struct ParallelStep<'a>(&'a dyn StepPolicy);

impl<'a> ParallelStep<'a> {
    pub(crate) fn begin(policy: &'a dyn StepPolicy) -> Self {
        policy.parallel_step_begins();
        Self(policy)
    }
}

impl Drop for ParallelStep<'_> {
    fn drop(&mut self) {
        self.0.parallel_step_ends();
    }
}
