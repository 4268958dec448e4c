use std::fmt;

use serde::{Deserialize, Serialize};

use crate::question::Question;

/// The result of a run that did not fail. It contains the state, or the view that the graph declares as `output:`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[must_use = "a run can end without having finished"]
pub enum Outcome<S> {
    /// The graph has finished.
    Finished(S),
    /// The run stopped because nodes wait for answers to their questions, for a timer or for a signal.
    Interrupted(Interrupted<S>),
    /// The run reached a breakpoint, or [`RunControl`](crate::RunControl) stopped it between two supersteps.
    Stopped(Stopped<S>),
}

/// A run that stopped because nodes wait for answers, a timer or a signal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Interrupted<S> {
    /// The state, with the writes of the tasks that have ended in the open superstep.
    pub state: S,
    /// The open questions, in the order of the tasks.
    pub questions: Vec<Question>,
    /// True if a later run can answer the questions and continue. This needs a checkpointer.
    pub resumable: bool,
}

/// A run that stopped at a breakpoint, or that [`RunControl`](crate::RunControl) stopped between two supersteps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Stopped<S> {
    /// The state. If a subgraph stopped, with the writes of the tasks that have ended in the open superstep.
    pub state: S,
    /// The reason why the run stopped.
    pub reason: StopReason,
    /// The nodes that would have run next.
    pub next: Vec<String>,
}

/// The reason why a run stopped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum StopReason {
    /// [`RunControl::request_drain`](crate::RunControl::request_drain) was called, with this reason.
    Drained(String),
    /// The run reached a breakpoint before one of these nodes, or in the subgraph that one of them runs.
    Before(Vec<String>),
    /// The run reached a breakpoint after these nodes.
    After(Vec<String>),
}

impl<S> Outcome<S> {
    /// Returns the state, for every kind of outcome.
    pub fn state(&self) -> &S {
        match self {
            Self::Finished(state) => state,
            Self::Interrupted(interrupted) => &interrupted.state,
            Self::Stopped(stopped) => &stopped.state,
        }
    }

    /// Converts any kind of outcome into its state.
    pub fn into_state(self) -> S {
        match self {
            Self::Finished(state) => state,
            Self::Interrupted(interrupted) => interrupted.state,
            Self::Stopped(stopped) => stopped.state,
        }
    }

    /// Returns true if the graph has finished.
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
