//! A run's view of the signals that wait for its thread.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use uuid::Uuid;

use crate::checkpoint::{Delivered, InboxMessage};

/// The signals that wait for a thread, and those that tasks of the run have found and may not have stored yet: no other task takes
/// these. What is known stays true while the run has the thread.
#[derive(Default)]
pub(crate) struct Mailbox {
    waiting: HashMap<Arc<str>, VecDeque<InboxMessage>>,
    /// The log of the task that found each signal. Once the log is dropped, it is unknown whether the signal was stored.
    found: HashMap<Uuid, Weak<dyn Any + Send + Sync>>,
}

impl Mailbox {
    /// The first known signal of this name.
    pub(crate) fn first(&mut self, name: &str) -> Option<&InboxMessage> {
        let before = self.found.len();
        self.found.retain(|_, task| task.strong_count() > 0);
        if self.found.len() < before {
            self.waiting.clear();
        }
        self.waiting.get(name)?.front()
    }

    /// These wait.
    pub(crate) fn read(&mut self, waiting: Vec<Delivered>) {
        self.waiting.clear();
        for Delivered { message: letter, .. } in waiting {
            if let Some(name) = letter.signal.clone().filter(|_| !self.found.contains_key(&letter.id)) {
                self.waiting.entry(name).or_default().push_back(letter);
            }
        }
    }

    /// A task has found the first signal of this name.
    pub(crate) fn take(&mut self, name: &str, task: Weak<dyn Any + Send + Sync>) {
        let letter = self.waiting.get_mut(name).and_then(VecDeque::pop_front);
        self.found.extend(letter.map(|letter| (letter.id, task)));
    }
}
