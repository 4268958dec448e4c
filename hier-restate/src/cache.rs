//! A cache of threads in the memory of a worker. If the same worker executes two slices of a thread in succession, the
//! second one does not load the thread.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hier_core::checkpoint::MemorySaver;

use crate::wire::ThreadVersion;

#[derive(Debug)]
pub(crate) struct ThreadCache {
    held: Mutex<CacheState>,
    room: usize,
}

#[derive(Debug, Default)]
struct CacheState {
    threads: HashMap<(String, String), CachedThread>,
    /// The keys of the threads, in the order of their last use.
    order: BTreeMap<u64, (String, String)>,
    clock: u64,
}

#[derive(Debug)]
struct CachedThread {
    at: ThreadVersion,
    saver: MemorySaver,
    whole: bool,
    used: u64,
}

impl ThreadCache {
    pub(crate) fn new(room: usize) -> Self {
        Self { held: Mutex::default(), room }
    }

    fn held(&self) -> MutexGuard<'_, CacheState> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the thread and returns it, so that the caller can change it. Returns `None` if the cache has another
    /// version, or if the caller needs the whole history and the cache does not have it.
    pub(crate) fn take(&self, graph: &str, at: &ThreadVersion, whole: bool) -> Option<(MemorySaver, bool)> {
        let mut held = self.held();
        let key = (graph.to_owned(), at.thread.clone());
        let kept = held.threads.remove(&key)?;
        held.order.remove(&kept.used);
        (kept.at == *at && (kept.whole || !whole)).then_some((kept.saver, kept.whole))
    }

    /// Returns the thread, for reading only. Returns `None` if the cache does not have this version.
    pub(crate) fn look(&self, graph: &str, at: &ThreadVersion) -> Option<MemorySaver> {
        let mut held = self.held();
        held.clock += 1;
        let now = held.clock;
        let CacheState { threads, order, .. } = &mut *held;
        let key = (graph.to_owned(), at.thread.clone());
        let kept = threads.get_mut(&key).filter(|kept| kept.at == *at)?;
        order.remove(&kept.used);
        order.insert(now, key);
        kept.used = now;
        Some(kept.saver.clone())
    }

    pub(crate) fn keep(&self, graph: &str, at: ThreadVersion, saver: MemorySaver, whole: bool) {
        let mut held = self.held();
        held.clock += 1;
        let used = held.clock;
        let key = (graph.to_owned(), at.thread.clone());
        if let Some(old) = held.threads.insert(key.clone(), CachedThread { at, saver, whole, used }) {
            held.order.remove(&old.used);
        }
        held.order.insert(used, key);
        if held.threads.len() > self.room
            && let Some((_, oldest)) = held.order.pop_first()
        {
            held.threads.remove(&oldest);
        }
    }

    pub(crate) fn forget(&self, graph: &str, thread: &str) {
        let mut held = self.held();
        if let Some(kept) = held.threads.remove(&(graph.to_owned(), thread.to_owned())) {
            held.order.remove(&kept.used);
        }
    }
}
