//! Runs the tasks of one superstep on all cores.
//!
//! A batch has one lock, `state`, and a counter, `next`, from which threads take tasks without the lock. The lock is
//! held while a thread starts or stops driving, while a task starts to wait, and while results are added. It is never
//! held while a task is created, polled, dropped or passed to the runtime, which may drop the task at once. It is never
//! held while a waker is woken, either. The watch unlocks its own list before it locks a batch.
//!
//! [`batch`] uses a runtime and locks only through `super::runtime` and `crate::sync`, so that `tests/interleavings`
//! can run it under a scheduler that explores interleavings.

mod batch;
mod runtime;
mod watch;

pub(crate) use batch::{BatchWork, TaskBatch, in_order};
