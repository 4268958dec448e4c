use super::{ParentCommand, Sends};
use crate::state::{Values, Writes};

/// The outcome of a task: its writes, and its destinations other than the targets of plain edges.
pub(crate) struct TaskOutcome<S: Values> {
    pub(crate) writes: Writes<S>,
    /// Boxed, because most tasks have no destinations and outcomes are moved often.
    pub(crate) destinations: Option<Box<Destinations>>,
    pub(crate) by: By,
}

/// The destinations that commands and routes have chosen. Nodes are ranks.
#[derive(Default)]
pub(crate) struct Destinations {
    pub(crate) go: Vec<usize>,
    pub(crate) sends: Sends,
    pub(crate) parent: Option<Box<dyn ParentCommand>>,
}

/// The producer of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The node, whose edges are followed.
    Node,
    /// The cache. The edges of the node are followed.
    Cache,
    /// The error handler of the node. The edges of the node are not followed.
    Handler,
}

impl<S: Values> TaskOutcome<S> {
    pub(crate) fn input(writes: Writes<S>) -> Self {
        Self { writes, destinations: None, by: By::Node }
    }

    pub(crate) fn is_for_parent(&self) -> bool {
        self.destinations.as_ref().is_some_and(|destinations| destinations.parent.is_some())
    }
}
