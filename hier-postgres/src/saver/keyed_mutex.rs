//! A fair mutex for each thread: callers acquire it in the order of their calls.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

type Locks = HashMap<Arc<str>, Arc<AsyncMutex<()>>>;

/// The locks of threads. A thread has an entry while a call holds its lock or waits for it.
#[derive(Default)]
pub(super) struct KeyedMutex(Mutex<Locks>);

/// The lock of a thread. Dropping it releases the lock.
pub(super) struct KeyedGuard {
    mutex: Arc<KeyedMutex>,
    thread: Arc<str>,
    lock: Arc<AsyncMutex<()>>,
    held: Option<OwnedMutexGuard<()>>,
}

impl KeyedMutex {
    pub(super) async fn lock(self: &Arc<Self>, thread: &str) -> KeyedGuard {
        let thread: Arc<str> = thread.into();
        let lock = self.locks().entry(thread.clone()).or_default().clone();
        // The guard is created first, because it also removes the entry if this call is dropped while it waits.
        let mut guard = KeyedGuard { mutex: self.clone(), thread, lock: lock.clone(), held: None };
        guard.held = Some(lock.lock_owned().await);
        guard
    }

    /// Returns `None` if the lock is held or awaited.
    pub(super) fn try_lock(self: &Arc<Self>, thread: &str) -> Option<KeyedGuard> {
        let thread: Arc<str> = thread.into();
        let mut locks = self.locks();
        if locks.contains_key(&thread) {
            return None;
        }
        let lock = locks.entry(thread.clone()).or_default().clone();
        let held = lock.clone().try_lock_owned().ok();
        Some(KeyedGuard { mutex: self.clone(), thread, lock, held })
    }

    fn locks(&self) -> MutexGuard<'_, Locks> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for KeyedGuard {
    fn drop(&mut self) {
        self.held = None;
        let mut locks = self.mutex.locks();
        // Only the map and this guard refer to the lock, so no other call waits for it.
        if Arc::strong_count(&self.lock) == 2 {
            locks.remove(&self.thread);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll, Waker};

    use super::KeyedMutex;

    #[tokio::test]
    async fn locks_are_granted_in_order_and_removed() {
        let mutex = Arc::new(KeyedMutex::default());
        let first = mutex.lock("t").await;
        let mut second = Box::pin(mutex.lock("t"));
        assert!(poll_once(&mut second).is_none(), "the first holds it");
        let mut dropped = Box::pin(mutex.lock("t"));
        assert!(poll_once(&mut dropped).is_none());
        assert!(poll_once(&mut Box::pin(mutex.lock("other"))).is_some(), "threads do not wait for each other");
        drop(dropped);
        drop(first);
        let guard = poll_once(&mut second).expect("the second is next");
        assert!(mutex.try_lock("t").is_none(), "the second holds it");
        drop(guard);
        assert!(mutex.locks().is_empty(), "no entry is left");
        let third = mutex.try_lock("t").expect("it is free");
        assert!(mutex.try_lock("t").is_none());
        assert!(poll_once(&mut Box::pin(mutex.lock("t"))).is_none(), "the third holds it");
        drop(third);
        assert!(mutex.locks().is_empty(), "no entry is left");
    }

    fn poll_once<T>(future: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        let mut context = Context::from_waker(Waker::noop());
        match Pin::new(future).poll(&mut context) {
            Poll::Ready(value) => Some(value),
            Poll::Pending => None,
        }
    }
}
