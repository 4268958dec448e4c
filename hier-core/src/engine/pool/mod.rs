//! The tasks of one superstep, on as many cores as there are.
//!
//! [`batch`] names what it takes of a runtime and of locks by `super::runtime` and `crate::sync`, so that
//! `tests/interleavings` can run it under a scheduler that tries many interleavings.

mod batch;
mod runtime;
mod watch;

pub(crate) use batch::{Batch, Work};
