//! State graphs and hierarchies of agents that the compiler checks.
#![doc = ""]

#[doc(hidden)]
#[path = "private.rs"]
pub mod __private;
pub mod agent;
pub mod channel;
mod config;
mod engine;
mod error;
pub mod graph;
pub mod prelude;
pub mod reducer;
mod run;
pub mod state;

// The macros name this crate by its absolute path, also in our own tests and examples.
#[allow(unused_extern_crates)]
extern crate self as hier_core;

pub use config::{Config, DEFAULT_RECURSION_LIMIT, DEFAULT_STREAM_CAPACITY, RunControl};
pub use engine::{
    DebugEvent, Event, EventStream, Interrupted, Nested, NodeUpdate, Outcome, Question, StopReason, Stopped,
    StreamMode, TaskFinished, TaskStarted,
};
pub use error::{BuildError, NodeError, NodeErrorKind, Result, RunError, TimeoutKind};
pub use run::Run;
pub use tokio_util::sync::CancellationToken;
