//! Decides where a run pauses and which tasks run elsewhere. A cluster implements [`StepPolicy`], and the engine
//! consults it at each superstep. Without a policy, a run pauses only at questions, breakpoints and drains.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The part of an open superstep that a run executes. Other runs execute, or have already executed, the other tasks of
/// the superstep.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartialStep {
    /// The run executes only this task and stores its result. It does not apply the writes of the superstep.
    Task {
        /// The namespace of the graph that the task belongs to.
        namespace: String,
        /// The place of the task in the superstep: [`PlannedTask::place`].
        task: String,
    },
    /// The run executes all tasks that have no stored result, and then applies the writes of the superstep. Tasks with
    /// an open question do not run again. Their questions stay open.
    Rest {
        /// The namespace of the graph that the tasks belong to.
        namespace: String,
        /// The places of the tasks whose subgraphs stopped at a breakpoint. These tasks do not run again.
        stopped: Vec<String>,
    },
}

/// The way in which a [`PartialStep`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartialStepEnd {
    /// The run has executed the single task, and its result is stored.
    TaskStored,
    /// The single task asked a question, or its subgraph stopped at a breakpoint. The run of the rest reports this.
    TaskWaits,
    /// The run has executed the tasks of the superstep that had no stored result.
    StepRan,
    /// Other runs had stored the results of all tasks, so this run executed no task and only applied their writes.
    StepOnlyApplied,
}

/// A fixed time from which the engine makes ids, so that a repeated part of a run makes the same ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoppedClock {
    /// The time since 1970-01-01 UTC.
    pub since_1970: Duration,
    /// The node field of the UUIDs. All parts of a run must have the same value in a namespace, and no other run may have
    /// it: the engine recognizes the checkpoints and the command of an earlier attempt by this value. Use a different
    /// value for each namespace, so that ids differ between namespaces.
    pub node: [u8; 6],
}

/// The point at which the earlier run paused, if this run continues an earlier run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedRun {
    /// The run does not continue a paused run.
    None,
    /// The earlier run paused between two supersteps of the graph, when none of its subgraphs was running.
    BetweenSteps,
    /// The earlier run paused inside a superstep of the graph, and has sent the events of this superstep.
    InsideStep,
}

/// The way in which a run enters a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GraphEntry {
    /// The run starts the graph with an input.
    Start,
    /// The run continues the graph from a checkpoint.
    Resume,
}

/// A task that has not run. The task belongs to the next superstep, or to one in which other tasks have already run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTask {
    /// The name of the node that the task runs.
    pub node: String,
    /// The place of the task in its superstep, in LangGraph's notation: for example, `~__pregel_pull, NODE`. The place
    /// identifies the task within the superstep.
    pub place: String,
}

/// Decides where a run pauses, and which tasks of a superstep run elsewhere.
///
/// A `namespace: &[String]` is the path from the root graph to a subgraph, and is empty for the root graph. With the
/// default methods, a run behaves as if it had no policy.
pub trait StepPolicy: fmt::Debug + Send + Sync {
    /// Returns the fixed time from which the engine makes the ids of checkpoints in this namespace. Returns `None` to
    /// use the system clock, which is the default.
    fn clock(&self, namespace: &str) -> Option<StoppedClock> {
        let _ = namespace;
        None
    }

    /// Returns the point of the graph in this namespace at which the earlier run paused, if this run continues an
    /// earlier run. Defaults to [`PausedRun::None`].
    fn continues(&self, namespace: &[String]) -> PausedRun {
        let _ = namespace;
        PausedRun::None
    }

    /// Returns the number of the last superstep that a graph may run. The argument `last_step` is the number that
    /// follows from the recursion limit of this run alone. If this run continues a paused run, the policy can return
    /// the number of the earlier run, so that both runs together share one limit.
    fn last_step(&self, namespace: &[String], entry: GraphEntry, last_step: i64) -> i64 {
        let _ = (namespace, entry);
        last_step
    }

    /// Records that the graph in this namespace has stored a superstep.
    fn step_stored(&self, namespace: &[String]) {
        let _ = namespace;
    }

    /// Decides if the run pauses before the next superstep of a graph. Returns true to pause. `is_subgraph` is false
    /// for the root graph. The engine calls this method before each superstep of the root graph and of subgraphs.
    fn pause(&self, is_subgraph: bool) -> bool {
        let _ = is_subgraph;
        false
    }

    /// Returns true if another run will continue the open tasks of this run. Then this run does not send events about
    /// their ends. Defaults to false.
    fn is_paused(&self) -> bool {
        false
    }

    /// Decides if other runs execute the tasks of a superstep. The argument `tasks` contains the tasks that have not
    /// run. If the method returns true, this run pauses and does not execute them. The policy must then remember the
    /// tasks.
    fn run_elsewhere(&self, namespace: &[String], tasks: Vec<PlannedTask>) -> bool {
        let _ = (namespace, tasks);
        false
    }

    /// Returns the part of an open superstep that the run executes. The superstep is that of the graph in `namespace`.
    /// Returns `None`, the default, for the whole superstep.
    fn partial_step(&self, namespace: &[String]) -> Option<PartialStep> {
        let _ = namespace;
        None
    }

    /// Records that the run has executed the part that [`partial_step`](Self::partial_step) returned.
    fn end_partial_step(&self, end: PartialStepEnd) {
        let _ = end;
    }

    /// Records that the run begins to execute several tasks of one superstep. Until
    /// [`parallel_step_ends`](Self::parallel_step_ends), [`pause`](Self::pause) must return false.
    fn parallel_step_begins(&self) {}

    /// Records that all tasks of a parallel superstep have ended.
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
