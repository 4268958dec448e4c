//! Locks and counters.

use std::sync::PoisonError;
pub use std::sync::atomic::{AtomicUsize, Ordering};
pub use std::sync::{Mutex, MutexGuard};

/// Locks a mutex, even if another thread panicked while it held the lock. Use this function only for values that a
/// panic cannot leave half changed.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
