//! What the [writer](super::writer) takes of the standard library's threads.

pub(super) use std::sync::{Condvar, Mutex, MutexGuard};
pub(super) use std::thread::{Builder, JoinHandle};
