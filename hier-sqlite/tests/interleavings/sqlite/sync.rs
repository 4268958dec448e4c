//! Locks at which the scheduler may switch, and threads that it switches.

pub(super) use shuttle::sync::{Condvar, Mutex, MutexGuard};
pub(super) use shuttle::thread::{Builder, JoinHandle};
