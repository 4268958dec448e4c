use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Weak};

use uuid::Uuid;

use crate::checkpoint::{Delivered, InboxMessage};

/// The waiting signals of a thread, and the signals that tasks of the run have found. A found signal may not be stored
/// yet, and no other task takes it. This view is valid while the run holds the lease.
#[derive(Default)]
pub(crate) struct SignalInbox {
    waiting: HashMap<Arc<str>, VecDeque<InboxMessage>>,
    /// The log of the task that found each signal. If the log was dropped, the task may have stored the signal or not.
    found: HashMap<Uuid, Weak<dyn Any + Send + Sync>>,
}

impl SignalInbox {
    pub(crate) fn first(&mut self, name: &str) -> Option<&InboxMessage> {
        let before = self.found.len();
        self.found.retain(|_, task| task.strong_count() > 0);
        if self.found.len() < before {
            self.waiting.clear();
        }
        self.waiting.get(name)?.front()
    }

    pub(crate) fn read(&mut self, waiting: Vec<Delivered>) {
        self.waiting.clear();
        for Delivered { message: letter, .. } in waiting {
            if let Some(name) = letter.signal.clone().filter(|_| !self.found.contains_key(&letter.id)) {
                self.waiting.entry(name).or_default().push_back(letter);
            }
        }
    }

    /// Marks the first signal with this name as found by a task.
    pub(crate) fn take(&mut self, name: &str, task: Weak<dyn Any + Send + Sync>) {
        let letter = self.waiting.get_mut(name).and_then(VecDeque::pop_front);
        self.found.extend(letter.map(|letter| (letter.id, task)));
    }
}
