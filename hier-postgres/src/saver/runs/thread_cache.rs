//! The threads whose runs this process executes, as it has last stored them: its next change need not read them again.
//!
//! An entry may be outdated. Then the server refuses the change, and the thread is read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::change::LoadedThread;

/// Largest number of threads. A run that was dropped before its end leaves its thread behind.
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

    /// Removes a thread and returns it, with the time that the server's clock has reached since.
    pub(super) fn remove(&self, thread: &str) -> Option<LoadedThread> {
        let (mut loaded, since) = self.lock().remove(thread)?;
        loaded.now = loaded.now.checked_add(since.elapsed()).unwrap_or(loaded.now);
        Some(loaded)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (LoadedThread, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
