//! Locks and counters.

use std::sync::PoisonError;
pub use std::sync::atomic::{AtomicUsize, Ordering};
pub use std::sync::{Mutex, MutexGuard};

/// Locks, also after a panic elsewhere: what is behind these locks is whole at any time.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
