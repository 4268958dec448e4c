//! The engine: a pure scheduler ([`plan`] and [`frontier`]), the application of writes, and the tokio runner around
//! them.

mod apart;
mod apply;
mod batch;
mod cache;
mod child;
mod crew;
mod durable;
mod event;
mod exec;
mod frontier;
mod heartbeat;
mod hooks;
mod outcome;
mod plan;
mod report;
mod run;
mod runner;
mod step;
mod stream;
mod watch;

pub use durable::{StateSnapshot, StateUpdate, TaskSnapshot};
pub use event::{
    CheckpointEvent, DebugEvent, Event, Nested, NodeUpdate, Spoken, StreamMode, TaskFinished, TaskStarted,
};
pub use outcome::{Interrupted, Outcome, StopReason, Stopped};
pub use stream::EventStream;

pub(crate) use apart::{LEVELS, apart};
pub(crate) use cache::NodeCache;
pub(crate) use child::{Shares, Subgraph};
pub(crate) use crew::Crew;
pub(crate) use durable::{Book, history, revise, snapshot};
pub(crate) use heartbeat::Heartbeat;
pub(crate) use plan::{Plan, TaskKey};
pub(crate) use run::{claim, open_child, run, stream};
pub(crate) use stream::Outlet;
