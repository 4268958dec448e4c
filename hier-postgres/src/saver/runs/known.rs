//! The threads that runs are being done of here, as they were last stored: what is stored next need not read them again. What is
//! kept may be old: then the server refuses, and it is read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use super::change::Seen;

/// As many threads are kept. A run that is dropped in its midst forgets nothing.
const MOST: usize = 1_024;

/// What is known of threads.
#[derive(Default)]
pub(in super::super) struct Known(Mutex<HashMap<String, (Seen, Instant)>>);

impl Known {
    pub(super) fn keep(&self, thread: &str, seen: Seen) {
        let mut threads = self.threads();
        if threads.len() >= MOST && !threads.contains_key(thread) {
            threads.clear();
        }
        threads.insert(thread.to_owned(), (seen, Instant::now()));
    }

    /// What is known of a thread, as of now. It is forgotten.
    pub(super) fn take(&self, thread: &str) -> Option<Seen> {
        let (mut seen, since) = self.threads().remove(thread)?;
        // The server's clock, as far as this one goes on with it.
        seen.now = seen.now.checked_add(since.elapsed()).unwrap_or(seen.now);
        Some(seen)
    }

    fn threads(&self) -> MutexGuard<'_, HashMap<String, (Seen, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
