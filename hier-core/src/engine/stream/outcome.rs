//! How a run ended.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::question::Question;

/// How a run ended, with the graph's state or its `output:` view.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use = "a run can end without having finished"]
pub enum Outcome<S> {
    /// Nothing was left to do.
    Finished(S),
    /// Nodes asked something with `run.interrupt(…)`.
    Interrupted(Interrupted<S>),
    /// The run was asked to stop between two steps, or reached a breakpoint.
    Stopped(Stopped<S>),
}

/// A run that waits for answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interrupted<S> {
    /// The state as of the last step that was completed.
    pub state: S,
    /// The open questions, in the order of the tasks.
    pub questions: Vec<Question>,
    /// Whether the run can go on with answers: only if it has a checkpointer. Without one nothing of it is kept.
    pub resumable: bool,
}

/// A run that was stopped between two steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stopped<S> {
    /// The state as of the last step that was completed.
    pub state: S,
    /// Why it was stopped.
    pub reason: StopReason,
    /// The nodes that would have run next.
    pub next: Vec<String>,
}

/// Why a run was stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StopReason {
    /// [`RunControl::request_drain`](crate::RunControl::request_drain) was called, with this reason.
    Drained(String),
    /// A breakpoint: the run stops before these nodes.
    Before(Vec<String>),
    /// A breakpoint: the run stops after these nodes.
    After(Vec<String>),
}

impl<S> Outcome<S> {
    /// The state, however the run ended.
    pub fn state(&self) -> &S {
        match self {
            Self::Finished(state) => state,
            Self::Interrupted(interrupted) => &interrupted.state,
            Self::Stopped(stopped) => &stopped.state,
        }
    }

    /// The state, however the run ended.
    pub fn into_state(self) -> S {
        match self {
            Self::Finished(state) => state,
            Self::Interrupted(interrupted) => interrupted.state,
            Self::Stopped(stopped) => stopped.state,
        }
    }

    /// Whether nothing was left to do.
    pub fn is_finished(&self) -> bool {
        matches!(self, Self::Finished(_))
    }

    pub(crate) fn map<T>(self, f: impl FnOnce(S) -> T) -> Outcome<T> {
        match self {
            Self::Finished(state) => Outcome::Finished(f(state)),
            Self::Interrupted(Interrupted { state, questions, resumable }) => {
                Outcome::Interrupted(Interrupted { state: f(state), questions, resumable })
            }
            Self::Stopped(Stopped { state, reason, next }) => {
                Outcome::Stopped(Stopped { state: f(state), reason, next })
            }
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Drained(reason) => write!(f, "drained: {reason}"),
            Self::Before(nodes) => write!(f, "breakpoint before {}", nodes.join(", ")),
            Self::After(nodes) => write!(f, "breakpoint after {}", nodes.join(", ")),
        }
    }
}
