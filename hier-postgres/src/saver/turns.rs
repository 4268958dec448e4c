//! One claim or release of a thread at a time, in the order of the calls: statements on different connections have no order.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Threads = HashMap<Arc<str>, Arc<AsyncMutex<()>>>;

/// The claims and releases in progress. A thread is in here as long as one runs, or waits.
#[derive(Default)]
pub(super) struct Turns(Mutex<Threads>);

/// A turn at a thread, until it is dropped.
pub(super) struct Turn {
    turns: Arc<Turns>,
    thread: Arc<str>,
    lock: Arc<AsyncMutex<()>>,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for those who came before.
    pub(super) async fn take(self: &Arc<Self>, thread: &str) -> Turn {
        let thread: Arc<str> = thread.into();
        let lock = self.threads().entry(thread.clone()).or_default().clone();
        // Made first: it cleans up also if this call is dropped while it waits.
        let mut turn = Turn { turns: self.clone(), thread, lock: lock.clone(), held: None };
        turn.held = Some(lock.lock_owned().await);
        turn
    }

    /// A turn, if nobody has it.
    pub(super) fn try_take(self: &Arc<Self>, thread: &str) -> Option<Turn> {
        let thread: Arc<str> = thread.into();
        let mut threads = self.threads();
        if threads.contains_key(&thread) {
            return None;
        }
        let lock = threads.entry(thread.clone()).or_default().clone();
        let held = lock.clone().try_lock_owned().ok();
        Some(Turn { turns: self.clone(), thread, lock, held })
    }

    fn threads(&self) -> MutexGuard<'_, Threads> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.held = None;
        let mut threads = self.turns.threads();
        // This one's and the map's: nobody else waits.
        if Arc::strong_count(&self.lock) == 2 {
            threads.remove(&self.thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Turns;

    #[tokio::test]
    async fn turns_are_taken_in_order_and_forgotten() {
        let turns = Arc::new(Turns::default());
        let first = turns.take("t").await;
        let mut second = Box::pin(turns.take("t"));
        assert!(futures_now(&mut second).is_none(), "the first has it");
        let mut dropped = Box::pin(turns.take("t"));
        assert!(futures_now(&mut dropped).is_none());
        assert!(futures_now(&mut Box::pin(turns.take("other"))).is_some(), "threads do not wait for each other");
        drop(dropped);
        drop(first);
        let turn = futures_now(&mut second).expect("its turn");
        assert!(turns.try_take("t").is_none(), "the second has it");
        drop(turn);
        assert!(turns.threads().is_empty(), "nobody is left");
        let third = turns.try_take("t").expect("nobody has it");
        assert!(turns.try_take("t").is_none());
        assert!(futures_now(&mut Box::pin(turns.take("t"))).is_none(), "the third has it");
        drop(third);
        assert!(turns.threads().is_empty(), "nobody is left");
    }

    /// The output of a future that is ready now.
    fn futures_now<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::Pin::new(future).poll(&mut context) {
            std::task::Poll::Ready(value) => Some(value),
            std::task::Poll::Pending => None,
        }
    }
}
