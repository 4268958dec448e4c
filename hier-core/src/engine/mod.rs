//! The engine: runs graphs, and keeps their threads.
//!
//! Each folder imports only the folders before it. `tests/layers` checks this.
//!
//! | folder | contents |
//! |---|---|
//! | [`log`] | records on their way to the saver, in order, under the lease |
//! | [`stream`] | events on their way to the consumer |
//! | [`program`] | the compiled graph: plan, nodes, a task and its view of the run |
//! | [`attempt`] | one task: node, options, routes |
//! | [`step`] | the position of a thread between two supersteps, without I/O |
//! | [`pool`] | the concurrent tasks of a superstep |
//! | [`durable`] | the stored form of threads, and how it is read |
//! | [`run`] | the loop, from the input to the outcome |
//! | [`thread`] | reading and updating a thread that does not run |

mod attempt;
mod durable;
mod log;
mod pool;
pub(crate) mod program;
mod run;
mod step;
mod stream;
mod thread;

pub use log::saver::Saver;
pub use run::background::BackgroundStart;
pub use stream::emitter::EventStream;
pub use stream::event::{CheckpointEvent, DebugEvent, Event, MessageChunk, Nested, NodeUpdate, StreamMode};
pub use stream::outcome::{Interrupted, Outcome, StopReason, Stopped};
pub use thread::branch::branch_off;
pub use thread::update::StateUpdate;

pub(crate) use durable::due::{postpone, settle, waiting};
pub(crate) use program::StateSnapshot;
pub(crate) use run::lease::claim;
pub(crate) use run::start::{PreparedRun, run, stream};
pub(crate) use stream::emitter::Emitter;
pub(crate) use stream::event::state_json;
pub(crate) use stream::ring::Ring;
pub(crate) use thread::detached::{Detached, detached_threads};
pub(crate) use thread::erased::{addressed, update_at};
pub(crate) use thread::revise::{check_updates, revise};
pub(crate) use thread::snapshot::{history, snapshot};
