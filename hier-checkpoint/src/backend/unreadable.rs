//! Rows of runs that cannot be read. Reads of several rows skip such a row, so that it does not block the others. Each
//! thread or row is logged at most once a minute.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::checkpoint::SaverError;
use crate::sync::{Mutex, MutexGuard, lock};

/// Time for which an unreadable row is skipped without another log message.
const AGAIN: Duration = Duration::from_mins(1);
const MOST: usize = 4_096;

type Since = HashMap<String, Instant>;

/// The threads and rows that a saver could not read during the last minute, each with the time of the failed read. The
/// saver skips these threads.
#[derive(Debug, Default)]
pub struct Unreadable {
    threads: Mutex<Since>,
    rows: Mutex<Since>,
}

impl Unreadable {
    /// Returns the ids of the threads that are currently skipped.
    pub fn threads(&self) -> Vec<String> {
        latest(&self.threads).keys().cloned().collect()
    }

    /// Skips a thread for one minute, and logs the error. If 4,096 threads are already skipped, returns the error
    /// instead, because the store as a whole is probably unreadable.
    pub fn skip_thread(&self, thread: &str, error: SaverError) -> Result<(), SaverError> {
        let mut threads = latest(&self.threads);
        if threads.len() >= MOST {
            return Err(error);
        }
        threads.insert(thread.to_owned(), Instant::now());
        drop(threads);
        tracing::warn!(
            thread,
            %error,
            "skipped a thread whose rows cannot be read, so its runs wait: open the store with the key and the version of hier \
             that wrote the rows, restore them from a backup, or delete the thread with `RunStore::remove_thread`"
        );
        Ok(())
    }

    /// Returns the value that was read from a row. If reading failed, logs the error and returns `None`.
    pub fn ok_or_log<T>(&self, read: Result<T, SaverError>) -> Option<T> {
        read.inspect_err(|error| self.log(error)).ok()
    }

    pub fn log(&self, error: &SaverError) {
        let (mut rows, row) = (latest(&self.rows), error.to_string());
        if rows.contains_key(&row) {
            return;
        }
        if rows.len() >= MOST {
            rows.clear();
        }
        rows.insert(row, Instant::now());
        drop(rows);
        tracing::warn!(
            %error,
            "skipped a row that cannot be read: open the store with the key and the version of hier that wrote the row, restore \
             it from a backup, or delete it"
        );
    }
}

fn latest(since: &Mutex<Since>) -> MutexGuard<'_, Since> {
    let mut since = lock(since);
    since.retain(|_, since| since.elapsed() < AGAIN);
    since
}
