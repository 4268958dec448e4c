//! The synchronization types that the [writer](super::writer) uses.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread::{Builder, JoinHandle};
