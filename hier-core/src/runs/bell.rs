//! Wakes who waits for a change.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::run::MultitaskStrategy;
use crate::sync::{Mutex, lock};

/// Wakes who waits for runs to claim, or for a thread to change. A store rings it after each transaction.
#[derive(Debug)]
pub struct Bell {
    runs: watch::Sender<u64>,
    threads: Mutex<HashMap<Arc<str>, Thread>>,
}

/// Who listens to a thread.
#[derive(Debug)]
struct Thread {
    all: watch::Sender<u64>,
    ends: watch::Sender<u64>,
}

impl Thread {
    fn new() -> Self {
        Self { all: watch::Sender::new(0), ends: watch::Sender::new(0) }
    }

    fn is_heard(&self) -> bool {
        self.all.receiver_count() + self.ends.receiver_count() > 0
    }
}

fn ring(sender: &watch::Sender<u64>) {
    sender.send_modify(|rung| *rung = rung.wrapping_add(1));
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
        self.listen(id, |thread| thread.all.subscribe())
    }

    /// Listens for the ends of the runs of a thread and for those that are to be cancelled, and hears little else.
    pub fn ends(&self, id: &str) -> Listener {
        self.listen(id, |thread| thread.ends.subscribe())
    }

    fn listen(&self, id: &str, to: impl FnOnce(&Thread) -> watch::Receiver<u64>) -> Listener {
        let mut threads = lock(&self.threads);
        match threads.get(id) {
            Some(thread) => Listener(to(thread)),
            None => Listener(to(threads.entry(Arc::from(id)).or_insert_with(Thread::new))),
        }
    }

    /// There may be a run to claim.
    pub fn ring_runs(&self) {
        ring(&self.runs);
    }

    /// Something of this thread has changed.
    pub fn ring_thread(&self, id: &str) {
        self.ring_those(id, |thread| {
            ring(&thread.all);
            ring(&thread.ends);
        });
    }

    /// Something of this thread has changed, and no run of it has ended or is to be cancelled.
    pub fn ring_events(&self, id: &str) {
        self.ring_those(id, |thread| ring(&thread.all));
    }

    /// A run was added to this thread, with what that does to those before it.
    pub fn ring_added(&self, id: &str, strategy: MultitaskStrategy) {
        if strategy.spares_others() {
            self.ring_events(id);
        } else {
            self.ring_thread(id);
        }
    }

    fn ring_those(&self, id: &str, with: impl FnOnce(&Thread)) {
        let mut threads = lock(&self.threads);
        if let Some(thread) = threads.get(id) {
            if thread.is_heard() {
                with(thread);
            } else {
                threads.remove(id);
            }
        }
    }

    /// Anything may have changed: what other processes tell was lost for a while.
    pub fn ring_all(&self) {
        self.ring_runs();
        lock(&self.threads).retain(|_, thread| {
            ring(&thread.all);
            ring(&thread.ends);
            thread.is_heard()
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
