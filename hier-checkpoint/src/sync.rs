//! Locks and counters.

use std::sync::PoisonError;
pub use std::sync::atomic::{AtomicUsize, Ordering};
pub use std::sync::{Mutex, MutexGuard};

/// Locks a mutex, even after a panic in another thread. The values behind these mutexes are consistent at any time.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
