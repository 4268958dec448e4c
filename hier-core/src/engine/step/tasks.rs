//! The tasks of a superstep, for their driver.

use std::sync::Arc;

use crate::engine::program::{SendArg, Sends, TaskKey};

/// The tasks of a superstep in order: those of Sends, then the triggered nodes. Each task is made when it starts: a hundred thousand Sends
/// are a list of nodes and a row of payloads.
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

    /// The task at this place of the superstep.
    pub(crate) fn key(&self, place: usize) -> TaskKey {
        match self.sends.node(place) {
            Some(node) => TaskKey { node, step: self.step, send: Some(self.first_send + place) },
            None => TaskKey { node: self.pulled[place - self.sends.len()], step: self.step, send: None },
        }
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = TaskKey> {
        (0..self.len()).map(|place| self.key(place))
    }

    /// The payload of the task at this place, if a Send started it.
    pub(crate) fn arg(&self, place: usize) -> Option<SendArg> {
        self.sends.arg(place)
    }

    /// Like [`Self::arg`], in place of the payload of another task.
    pub(crate) fn set_arg(&self, place: usize, arg: &mut Option<SendArg>) {
        self.sends.set_arg(place, arg);
    }
}
