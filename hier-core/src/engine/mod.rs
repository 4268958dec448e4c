//! The engine: a pure scheduler ([`plan`] and [`frontier`]), the application of writes, and the tokio runner around
//! them.

mod apply;
mod batch;
mod child;
mod durable;
mod event;
mod exec;
mod frontier;
mod hooks;
mod outcome;
pub(crate) mod program;
mod report;
mod ring;
mod run;
mod runner;
mod step;
mod stream;
mod watch;
mod weight;

pub use durable::{StateSnapshot, StateUpdate, TaskSnapshot};
pub use event::{
    CheckpointEvent, DebugEvent, Event, Nested, NodeUpdate, Spoken, StreamMode, TaskFinished, TaskStarted,
};
pub use outcome::{Interrupted, Outcome, StopReason, Stopped};
pub use stream::EventStream;

pub(crate) use durable::check_updates;
pub(crate) use durable::{history, revise, snapshot};
pub(crate) use run::{claim, open_child, run, stream};
pub(crate) use stream::Outlet;
