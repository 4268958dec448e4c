//! Locks at which the scheduler may switch.

use std::sync::PoisonError;

pub(crate) use shuttle::sync::atomic::{AtomicUsize, Ordering};
pub(crate) use shuttle::sync::{Mutex, MutexGuard};

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
