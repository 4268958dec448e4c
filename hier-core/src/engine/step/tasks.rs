use std::sync::Arc;

use crate::engine::program::{SendArg, Sends, TaskKey};

/// The tasks of a superstep in order: first the tasks of Sends, then the triggered nodes. A task is made only when it
/// starts, so a hundred thousand Sends only need a list of nodes and a row of payloads.
pub(crate) struct StepTasks {
    pub(super) step: i64,
    pub(super) first_send: usize,
    pub(super) sends: Arc<Sends>,
    pub(super) pulled: Vec<usize>,
}

impl StepTasks {
    pub(crate) fn len(&self) -> usize {
        self.sends.len() + self.pulled.len()
    }

    pub(crate) fn key(&self, place: usize) -> TaskKey {
        match self.sends.node(place) {
            Some(node) => TaskKey { node, step: self.step, send: Some(self.first_send + place) },
            None => TaskKey { node: self.pulled[place - self.sends.len()], step: self.step, send: None },
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = TaskKey> {
        (0..self.len()).map(|place| self.key(place))
    }

    /// Returns the payload of the task at this place. Returns `None` if an edge started the task.
    pub(crate) fn arg(&self, place: usize) -> Option<SendArg> {
        self.sends.arg(place)
    }

    /// Like [`Self::arg`], but replaces the payload of another task in `arg`.
    pub(crate) fn set_arg(&self, place: usize, arg: &mut Option<SendArg>) {
        self.sends.set_arg(place, arg);
    }
}
