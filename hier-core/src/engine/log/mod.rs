//! The log of a run. Commits records in order, at once or in the background, under the lease of the thread.
//!
//! Each queue has one lock, which is never held over an `await`. The next commit or flush returns an error of the
//! background task.
//!
//! [`committer`] uses a runtime and locks only through `super::runtime` and `crate::sync`, so that
//! `tests/interleavings` can run it under a scheduler that explores interleavings.

pub(in crate::engine) mod committer;
pub(in crate::engine) mod deferred;
pub(in crate::engine) mod renewal;
mod runtime;
pub(in crate::engine) mod saver;
pub(in crate::engine) mod signal_inbox;
pub(in crate::engine) mod task_log;
