//! For tests with hier: what a program that ships does not need.
//!
//! * [`checkpoint`], [`store`] and [`runs`]: the contracts of savers, stores and stores of runs as suites, for those who write one.
//! * [`ScriptedModel`] and [`RecordedModel`]: models that say what a script or a recording says, without a network.
//! * [`Session`] drives a graph in a test, with a [`FakeOperator`] and a [`Clock`], and returns a [`Trace`] of what it did.
//! * [`Replay`] runs what a saver has stored again, with the code of today, and says what has changed.
//! * [`SaverLayer`] and [`RunsLayer`]: savers and stores around others, of which only what a test wants to see is written.

#[cfg(feature = "suites")]
pub mod checkpoint;
#[cfg(feature = "suites")]
mod contract;
#[cfg(feature = "suites")]
mod layered;
mod model;
mod replay;
#[cfg(feature = "suites")]
pub mod runs;
mod session;
#[cfg(feature = "suites")]
pub mod store;

#[cfg(feature = "suites")]
pub use contract::{Failure, Report};
#[cfg(feature = "suites")]
pub use hier_core::checkpoint::SaverLayer;
pub use layered::{Layered, RunsLayer};
pub use model::{RecordedModel, ScriptedModel};
pub use replay::{Change, Replay, ReplayReport, ReplayedTurn, StoredTurn};
pub use session::{Clock, FakeOperator, Session, Trace, TracedAnswer, TracedCall, TracedTask};
