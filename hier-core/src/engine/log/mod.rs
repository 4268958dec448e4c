//! The log of a run: records in order, committed at once or in the background, under the lease of the thread.

pub(in crate::engine) mod committer;
pub(in crate::engine) mod deferred;
pub(in crate::engine) mod renewal;
pub(in crate::engine) mod saver;
pub(in crate::engine) mod task_log;
