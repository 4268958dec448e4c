//! For tests with hier: what a program that ships does not need.
//!
//! * [`checkpoint`], [`store`] and [`runs`]: the contracts of savers, stores and stores of runs as suites, for those who write one.
//! * [`ScriptedModel`] and [`RecordedModel`]: models that say what a script or a recording says, without a network.
//! * [`conformance`]: holds the engine to recorded scenarios; the command `hier-conformance` is made of it.

pub mod checkpoint;
#[cfg(feature = "conformance")]
pub mod conformance;
mod contract;
mod model;
pub mod runs;
pub mod store;

pub use contract::{Failure, Report};
pub use model::{RecordedModel, ScriptedModel};
