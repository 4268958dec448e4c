//! Threads that this worker has in memory, so that a piece of a run need not load what the piece before it has left.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hier_core::checkpoint::MemorySaver;

use crate::wire::At;

/// Threads in memory: the last that were used.
#[derive(Debug)]
pub(crate) struct Cache {
    held: Mutex<Held>,
    room: usize,
}

#[derive(Debug, Default)]
struct Held {
    threads: HashMap<(String, String), Kept>,
    /// By when they were used.
    order: BTreeMap<u64, (String, String)>,
    clock: u64,
}

#[derive(Debug)]
struct Kept {
    at: At,
    saver: MemorySaver,
    whole: bool,
    used: u64,
}

impl Cache {
    pub(crate) fn new(room: usize) -> Self {
        Self { held: Mutex::default(), room }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The thread, if it is there as it was at this version, with its whole history if that is wanted. It is there no longer: whoever
    /// has it changes it.
    pub(crate) fn take(&self, graph: &str, at: &At, whole: bool) -> Option<(MemorySaver, bool)> {
        let mut held = self.held();
        let key = (graph.to_owned(), at.thread.clone());
        let kept = held.threads.remove(&key)?;
        held.order.remove(&kept.used);
        (kept.at == *at && (kept.whole || !whole)).then_some((kept.saver, kept.whole))
    }

    /// The thread as it is at this version, for those that do not change it.
    pub(crate) fn look(&self, graph: &str, at: &At) -> Option<MemorySaver> {
        let mut held = self.held();
        held.clock += 1;
        let now = held.clock;
        let Held { threads, order, .. } = &mut *held;
        let key = (graph.to_owned(), at.thread.clone());
        let kept = threads.get_mut(&key).filter(|kept| kept.at == *at)?;
        order.remove(&kept.used);
        order.insert(now, key);
        kept.used = now;
        Some(kept.saver.clone())
    }

    /// Keeps a thread as it is at this version.
    pub(crate) fn keep(&self, graph: &str, at: At, saver: MemorySaver, whole: bool) {
        let mut held = self.held();
        held.clock += 1;
        let used = held.clock;
        let key = (graph.to_owned(), at.thread.clone());
        if let Some(old) = held.threads.insert(key.clone(), Kept { at, saver, whole, used }) {
            held.order.remove(&old.used);
        }
        held.order.insert(used, key);
        if held.threads.len() > self.room
            && let Some((_, oldest)) = held.order.pop_first()
        {
            held.threads.remove(&oldest);
        }
    }

    /// Forgets a thread.
    pub(crate) fn forget(&self, graph: &str, thread: &str) {
        let mut held = self.held();
        if let Some(kept) = held.threads.remove(&(graph.to_owned(), thread.to_owned())) {
            held.order.remove(&kept.used);
        }
    }
}
