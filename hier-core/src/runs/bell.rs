//! Wakes who waits for a change.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use crate::sync::{Mutex, lock};

/// Wakes who waits for runs to claim, or for a thread to change. A store rings it after each transaction.
#[derive(Debug)]
pub struct Bell {
    runs: watch::Sender<u64>,
    threads: Mutex<HashMap<Arc<str>, watch::Sender<u64>>>,
}

impl Default for Bell {
    fn default() -> Self {
        Self { runs: watch::Sender::new(0), threads: Mutex::default() }
    }
}

impl Bell {
    /// Listens for runs that may be claimed.
    pub fn runs(&self) -> Listener {
        Listener(self.runs.subscribe())
    }

    /// Listens for a change of a thread: its status, its runs, its events.
    pub fn thread(&self, id: &str) -> Listener {
        let mut threads = lock(&self.threads);
        match threads.get(id) {
            Some(sender) => Listener(sender.subscribe()),
            None => Listener(threads.entry(Arc::from(id)).or_insert_with(|| watch::Sender::new(0)).subscribe()),
        }
    }

    /// There may be a run to claim.
    pub fn ring_runs(&self) {
        self.runs.send_modify(|rung| *rung = rung.wrapping_add(1));
    }

    /// Something of this thread has changed.
    pub fn ring_thread(&self, id: &str) {
        let mut threads = lock(&self.threads);
        if let Some(sender) = threads.get(id) {
            if sender.receiver_count() == 0 {
                threads.remove(id);
            } else {
                sender.send_modify(|rung| *rung = rung.wrapping_add(1));
            }
        }
    }

    /// Anything may have changed: what other processes tell was lost for a while.
    pub fn ring_all(&self) {
        self.ring_runs();
        lock(&self.threads).retain(|_, sender| {
            sender.send_modify(|rung| *rung = rung.wrapping_add(1));
            sender.receiver_count() > 0
        });
    }
}

/// Waits for a bell. What rings between two waits is not missed.
#[derive(Debug)]
pub struct Listener(watch::Receiver<u64>);

impl Listener {
    /// Resolves once it has rung since it was last heard, or the listener was made. Cancel safe.
    pub async fn rung(&mut self) {
        if self.0.changed().await.is_err() {
            // The bell is gone, and with it the store: nobody rings any more.
            std::future::pending::<()>().await;
        }
    }
}
