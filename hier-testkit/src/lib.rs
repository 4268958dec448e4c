//! Tools for tests, for use as a dev-dependency.
//!
//! * [`ScriptedModel`] and [`RecordedModel`]: models that reply from a script or a recording, without a network.
//! * [`Session`]: runs a graph in a test and returns a [`Trace`] of each run. A [`FakeOperator`] answers the graph's
//!   questions, and a [`Clock`] lets time pass.
//! * [`Replay`]: runs stored threads again with the current code and reports the differences.
//! * [`lock!`]: makes a test that fails if a change of the program's graphs breaks stored threads.
//! * [`checkpoint`], [`store`] and [`runs`]: test suites for authors of savers, stores and run stores.
//! * [`SaverLayer`] and [`RunsLayer`]: override single methods of a saver or a run store.

#[cfg(feature = "suites")]
pub mod checkpoint;
#[cfg(feature = "suites")]
mod contract;
#[cfg(feature = "suites")]
mod layered;
pub mod lock;
mod model;
mod replay;
#[cfg(feature = "suites")]
pub mod runs;
mod session;
#[cfg(feature = "suites")]
pub mod store;

#[cfg(feature = "suites")]
pub use contract::{ContractViolation, Report};
#[cfg(feature = "suites")]
pub use hier_core::checkpoint::SaverLayer;
#[cfg(feature = "suites")]
pub use layered::{Layered, RunsLayer};
pub use model::{RecordedModel, ScriptedModel};
pub use replay::{Replay, ReplayChange, ReplayReport, ReplayedTurn, StoredTurn};
pub use session::{Clock, FakeOperator, Session, Trace, TracedAnswer, TracedCall, TracedTask};
