//! The engine: runs graphs, and keeps their threads.
//!
//! Each folder imports only the folders before it. `tests/layers` checks this.
//!
//! | folder | contents |
//! |---|---|
//! | [`log`] | Records on their way to the saver, in order, under the lease. |
//! | [`stream`] | Events on their way to the consumer. |
//! | [`program`] | The compiled graph: plan, nodes, a task and its view of the run. |
//! | [`attempt`] | One task: node, options, routes. |
//! | [`step`] | The position of a thread between two supersteps, without I/O. |
//! | [`pool`] | The concurrent tasks of a superstep. |
//! | [`durable`] | The stored form of threads, and the code that reads it. |
//! | [`run`] | The loop, from the input to the outcome. |
//! | [`thread`] | The code that reads and updates a thread without running it. |

mod attempt;
mod durable;
mod log;
mod pool;
pub(crate) mod program;
mod run;
mod step;
mod stream;
mod thread;

pub use durable::commands::has_command;
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
pub(crate) use thread::revise::update_thread;
pub(crate) use thread::snapshot::{history, snapshot};
