//! The threads whose runs this process executes, in the state that the process has last stored. The next change of such
//! a thread need not read the thread.
//!
//! An entry may be outdated. The server then refuses the change, and this process reads the thread.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::change::LoadedThread;

/// The maximum number of threads. A run that was dropped before its end leaves an entry.
const MAX_THREADS: usize = 1_024;

#[derive(Default)]
pub(in super::super) struct ThreadCache(Mutex<HashMap<String, (LoadedThread, Instant)>>);

impl ThreadCache {
    pub(super) fn insert(&self, thread: &str, loaded: LoadedThread) {
        let mut threads = self.lock();
        if threads.len() >= MAX_THREADS && !threads.contains_key(thread) {
            threads.clear();
        }
        threads.insert(thread.to_owned(), (loaded, Instant::now()));
    }

    /// Removes a thread and returns it. Advances its `now` by the time since its insertion.
    pub(super) fn remove(&self, thread: &str) -> Option<LoadedThread> {
        let (mut loaded, since) = self.lock().remove(thread)?;
        loaded.now = loaded.now.checked_add(since.elapsed()).unwrap_or(loaded.now);
        Some(loaded)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (LoadedThread, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
