//! Where many write: the first in the queue writes for all.
//!
//! It lets the others go first as long as more of them come, each time to the end of what can be done now, and waits for the connection if
//! somebody has it. The others wait for their answers only. Whether many write is told by the last transactions.

use std::sync::atomic::{AtomicU8, Ordering};

use tokio::sync::{Notify, oneshot};

use super::writing::{MOST_FOR_OTHERS, Shared};

/// After how many transactions of one call contention has ended.
const LASTS: u8 = 8;
/// How often others are let go first.
const ROUNDS: usize = 8;

/// Whether many write, and who waits for the connection.
#[derive(Default)]
pub(super) struct Contention {
    /// For how many more transactions of one call it is taken to be there.
    level: AtomicU8,
    /// The connection was given back.
    free: Notify,
}

impl Contention {
    pub(super) fn is_present(&self) -> bool {
        self.level.load(Ordering::Relaxed) > 0
    }

    /// Nobody has written for a while.
    pub(super) fn clear(&self) {
        self.level.store(0, Ordering::Relaxed);
    }
}

impl Shared {
    /// Completes what is queued. That of others is for whoever queued the first of it.
    pub(super) async fn complete<T>(&self, is_first: bool, answered: &oneshot::Receiver<T>) {
        if self.contention.is_present() {
            if !is_first {
                return;
            }
            self.let_others_queue(answered).await;
        }
        while answered.is_empty() {
            if self.write_now() {
                if answered.is_empty() {
                    // What waits before it is not short, or another process is writing.
                    self.wake();
                }
                return;
            }
            self.note_contention();
            if !is_first {
                return;
            }
            self.contention.free.notified().await;
        }
        // It may have been told in the place of the next one.
        self.notify_free();
    }

    /// Lets others queue what they have.
    async fn let_others_queue<T>(&self, answered: &oneshot::Receiver<T>) {
        let mut seen = 0;
        for _ in 0..ROUNDS {
            let queued = self.queue().len();
            if queued <= seen || queued >= MOST_FOR_OTHERS || !answered.is_empty() {
                return;
            }
            seen = queued;
            tokio::task::yield_now().await;
        }
    }

    /// The connection was given back: whoever waits for it goes on. If nobody does, whoever is next to wait looks once more in vain.
    pub(super) fn notify_free(&self) {
        self.contention.free.notify_one();
    }

    /// A transaction has done so many calls.
    pub(super) fn counts(&self, calls: usize) {
        let level = self.contention.level.load(Ordering::Relaxed);
        if calls > 1 {
            self.note_contention();
        } else if level > 0 {
            self.contention.level.store(level - 1, Ordering::Relaxed);
        }
    }

    /// Many write: the thread looks after those who write for them.
    fn note_contention(&self) {
        if self.contention.level.swap(LASTS, Ordering::Relaxed) == 0 {
            // Not between its look at the level and its sleep.
            drop(self.queue());
            self.awake.notify_one();
        }
    }
}
