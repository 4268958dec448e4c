//! Detects contention: several callers that write at the same time.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::Notify;

/// The number of transactions with a single job after which contention has ended.
const DURATION: u8 = 8;

#[derive(Default)]
pub(super) struct Contention {
    /// The number of further single-job transactions for which contention is assumed.
    level: AtomicU8,
    /// Signals that the connection is available.
    free: Notify,
}

impl Contention {
    pub(super) fn is_present(&self) -> bool {
        self.level.load(Ordering::Relaxed) > 0
    }

    /// Ends contention after a period without writes.
    pub(super) fn clear(&self) {
        self.level.store(0, Ordering::Relaxed);
    }

    /// Records the number of jobs of a transaction. Returns true if contention begins.
    pub(super) fn record(&self, jobs: usize) -> bool {
        if jobs > 1 {
            return self.begin();
        }
        let level = self.level.load(Ordering::Relaxed);
        if level > 0 {
            self.level.store(level - 1, Ordering::Relaxed);
        }
        false
    }

    /// Raises the level. Returns true if the level was zero.
    pub(super) fn begin(&self) -> bool {
        self.level.swap(DURATION, Ordering::Relaxed) == 0
    }

    /// Wakes a caller that waits for the connection. If no caller waits, the next caller wakes once in vain.
    pub(super) fn notify_free(&self) {
        self.free.notify_one();
    }

    pub(super) async fn wait_until_free(&self) {
        self.free.notified().await;
    }
}
