//! The engine: where a thread stands and how it goes on ([`step`], pure), and the tokio runner around it.

mod child;
mod durable;
mod event;
mod exec;
mod hooks;
mod outcome;
mod pool;
pub(crate) mod program;
mod report;
mod resolve;
mod ring;
mod route;
mod run;
mod runner;
mod several;
mod step;
mod stream;
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
