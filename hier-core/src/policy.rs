//! A policy that decides where a run pauses and which tasks run elsewhere. A cluster implements it; the engine asks it at each step.
//! Without a policy a run pauses only at questions, breakpoints and drains.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The part of an open step that a run does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PartialStep {
    /// One task. The step is not applied.
    Task {
        /// The namespace of its graph.
        namespace: String,
        /// Its place in the step.
        task: String,
    },
    /// All tasks without a stored result; then the step is applied. Tasks with an open question do not ask again.
    Rest {
        /// The namespace of their graph.
        namespace: String,
        /// The places of tasks that stopped at a breakpoint inside.
        stopped: Vec<String>,
    },
}

/// The time of a clock that stands still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoppedClock {
    /// Time since 1970.
    pub since_1970: Duration,
    /// Distinguishes the ids of one namespace from all others.
    pub node: [u8; 6],
}

/// Decides where a run pauses, and which tasks of a step run elsewhere.
///
/// A namespace is a list of the parts that lead from the root graph to a subgraph; it is empty for the root. Each method defaults to what
/// happens without a policy.
pub trait StepPolicy: fmt::Debug + Send + Sync {
    /// Returns the clock for the ids of a namespace. Defaults to the system's clock.
    fn clock(&self, namespace: &str) -> Option<StoppedClock> {
        let _ = namespace;
        None
    }

    /// Returns true if the run continues one that another policy paused.
    fn resumes(&self) -> bool {
        false
    }

    /// Returns true if that run paused between two steps of the root graph, with no subgraph running.
    fn resumes_between_steps(&self) -> bool {
        false
    }

    /// Records that a graph is entered and must not pass this step.
    fn start_at(&self, namespace: &[String], last_step: i64) {
        let _ = (namespace, last_step);
    }

    /// Returns the last step of a graph that is resumed: this one, unless the graph was entered before the run paused.
    fn resume_at(&self, namespace: &[String], last_step: i64) -> i64 {
        let _ = namespace;
        last_step
    }

    /// Records that the current step only applies results of tasks that ran elsewhere: it does not count as a step of this run.
    fn only_applies(&self) {}

    /// Records that a step is stored.
    fn stored(&self, namespace: &[String]) {
        let _ = namespace;
    }

    /// Returns true if the run pauses before the next step of a graph.
    fn pauses(&self, is_subgraph: bool) -> bool {
        let _ = is_subgraph;
        false
    }

    /// Records that the run pauses.
    fn paused(&self) {}

    /// Returns the part of this graph's open step that the run does. Defaults to all of it.
    fn partial_step(&self, namespace: &[String]) -> Option<PartialStep> {
        let _ = namespace;
        None
    }

    /// Records that the partial step is done; later steps run as a whole.
    fn partial_step_done(&self) {}

    /// Returns true if tasks of this node may run elsewhere.
    fn may_run_elsewhere(&self, node: &str) -> bool {
        let _ = node;
        false
    }

    /// Decides whether these tasks run elsewhere. If so, the run pauses.
    fn runs_elsewhere(&self, namespace: &[String], tasks: Vec<String>) -> bool {
        let _ = (namespace, tasks);
        false
    }

    /// Records that a step of several tasks begins: the run does not pause inside it.
    fn wide_step_begins(&self) {}

    /// Records that it has ended.
    fn wide_step_ends(&self) {}
}

/// A step of several tasks that is running. Ends when it is dropped.
pub(crate) struct WideStep<'a>(&'a dyn StepPolicy);

impl<'a> WideStep<'a> {
    pub(crate) fn begin(policy: &'a dyn StepPolicy) -> Self {
        policy.wide_step_begins();
        Self(policy)
    }
}

impl Drop for WideStep<'_> {
    fn drop(&mut self) {
        self.0.wide_step_ends();
    }
}
