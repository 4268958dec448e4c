//! Durable threads: the contract of savers, and a saver in memory.
//!
//! A *thread* is a series of runs on one stored state, such as a conversation. After each superstep, the engine passes
//! a [`Checkpoint`] to the saver, with the next tasks and the values of the changed channels. In a superstep of several
//! tasks, the engine also stores the writes of each task when the task ends ([`TaskWrites`]). If the process is killed,
//! the tasks that have ended do not run again.
//!
//! The engine encodes all values, and a saver stores bytes (see [`codec`]). To write a saver, implement
//! [`Checkpointer`] and run the test suite of `hier-testkit`.

pub mod background;
mod capability;
pub mod codec;
mod conversations;
#[doc(hidden)]
pub mod delta;
mod discard;
mod error;
#[doc(hidden)]
pub mod guard;
mod inbox;
mod layer;
mod lease;
mod limits;
mod memory;
mod names;
mod next_tasks;
mod query;
mod record;
mod retention;
mod saver;
#[doc(hidden)]
pub mod scratch;
mod secrets;
mod shown;

pub use futures_core::future::BoxFuture;

pub use capability::{Capabilities, CheckpointCache, Inbox, PostOutcome, ThreadAdmin};
pub use conversations::Conversations;
#[doc(hidden)]
pub use conversations::{Conversation, Since};
pub use delta::chain_json;
pub use discard::discard;
pub use error::{CodecError, SaverError, SupersededBy};
pub use inbox::{Delivered, DueChange, DueQuery, DueThread, InboxMessage, SideEffects};
pub use layer::SaverLayer;
pub use lease::{Claim, Lease, WhenRunning, check_new_thread, check_thread};
pub use limits::{INBOX_BYTES, LONGEST_NAME, MESSAGE_OVERHEAD, name_bytes};
pub use memory::MemorySaver;
pub use names::Names;
pub use next_tasks::{JoinRecord, Kept, LastRan, NextTasks, SendRecord};
pub use query::{ListQuery, Listed, Prune, Strategy, ThreadInfo};
pub use record::{
    AnswerRecord, ChannelBlob, Checkpoint, DeltaChain, PendingWrite, Saved, Schema, Source, TaskWrites, WriteRecord,
    builds_on, builds_only_on, check, slot,
};
pub use retention::{Deletion, PrunePlan, Sweeper, is_per_call, sweep_every};
pub use saver::{Checkpointer, Commit, LeaseState};
pub use secrets::hide_newer_secrets;
