//! The engine: what is run, where a thread stands, and who drives it.
//!
//! Each folder imports only those before it (`tests/layers` holds it to that):
//!
//! | folder | what it has |
//! |---|---|
//! | [`log`] | what is given to the saver, in order, under the lease |
//! | [`stream`] | what is told to those who listen |
//! | [`program`] | what is run: the plan, the nodes, a task and its view of the run |
//! | [`attempt`] | one task: node, options, routes |
//! | [`step`] | where a thread stands between two supersteps: pure |
//! | [`pool`] | the tasks of a step, side by side |
//! | [`durable`] | what is stored of a step, and how it is read |
//! | [`run`] | the loop, from the input to the outcome |
//! | [`thread`] | reading and changing a thread that does not run |

mod attempt;
mod durable;
mod log;
mod pool;
pub(crate) mod program;
mod run;
mod step;
mod stream;
mod thread;

pub use stream::emitter::EventStream;
pub use stream::event::{CheckpointEvent, DebugEvent, Event, MessageChunk, Nested, NodeUpdate, StreamMode};
pub use stream::outcome::{Interrupted, Outcome, StopReason, Stopped};
pub use thread::branch::branch_off;
pub use thread::snapshot::{StateSnapshot, TaskSnapshot};
pub use thread::update::StateUpdate;

pub(crate) use durable::due::{postpone, settle, waiting};
pub(crate) use log::saver::Saver;
pub(crate) use run::lease::claim;
pub(crate) use run::start::{run, stream};
pub(crate) use stream::emitter::Emitter;
pub(crate) use stream::event::state_json;
pub(crate) use stream::ring::Ring;
pub(crate) use thread::erased::{addressed, update_at};
pub(crate) use thread::revise::{check_updates, revise};
pub(crate) use thread::snapshot::{history, snapshot};
