//! Results of tasks.

use super::{ParentCommand, Sends};
use crate::state::{Values, Writes};

/// The result of a task: its writes, and its destinations beside the plain edges.
pub(crate) struct TaskOutcome<S: Values> {
    pub(crate) writes: Writes<S>,
    /// Boxed, since most tasks have none and results are moved often.
    pub(crate) destinations: Option<Box<Destinations>>,
    /// The producer of the result.
    pub(crate) by: By,
}

/// Where commands and routes lead. Nodes are ranks.
#[derive(Default)]
pub(crate) struct Destinations {
    pub(crate) go: Vec<usize>,
    pub(crate) sends: Sends,
    pub(crate) parent: Option<Box<dyn ParentCommand>>,
}

/// The producer of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The node: its own edges are followed.
    Node,
    /// The node, at an earlier time: its own edges are followed.
    Cache,
    /// The node's error handler: its own edges are not followed.
    Handler,
}

impl<S: Values> TaskOutcome<S> {
    /// The result of applying an input.
    pub(crate) fn input(writes: Writes<S>) -> Self {
        Self { writes, destinations: None, by: By::Node }
    }

    /// Whether it is a command for the parent graph.
    pub(crate) fn is_for_parent(&self) -> bool {
        self.destinations.as_ref().is_some_and(|destinations| destinations.parent.is_some())
    }
}
