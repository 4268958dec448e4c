//! Runs as rows: requests, claims and events.
//!
//! A *run* is one input to one thread. A caller adds a row (`create_run`). A *worker* claims it with the lease of its thread
//! (`claim_run`) and executes it. One database keeps rows, events, the index of threads and checkpoints, so that they
//! change in one transaction (`commit_run`):
//!
//! * A thread has one running run, first in, first out. Between threads, the longest waiting run is next.
//! * The proof of a claim is the fencing token of the [`Lease`](hier_checkpoint::checkpoint::Lease). A worker that has lost it can no
//!   longer write.
//! * If a worker dies, its run is claimed again as soon as the lease expires, until its attempts are used up.
//! * The status of a run and of its thread change in the transaction of the run's last checkpoint.
//! * Events have rising numbers, a sequence for each thread. They are appended with the commits that they describe, and can
//!   be read again from any number on until they are pruned.
//!
//! A store has three layers. [`Queue`] has the rules of one thread and its runs, without a database. The methods of `dyn`
//! [`RunStore`] are the driver that callers use: each decides with the queue ([`ThreadChange`]), lets the database store the decision, and
//! notifies ([`ChangeNotifier`]). The traits [`RunBackend`], [`ThreadBackend`] and [`DocumentBackend`] are the database: they load, store and find,
//! and decide nothing. The author of a store implements these three, and runs the suite of `hier-testkit`.

mod assistants;
mod backend;
#[doc(hidden)]
mod change;
mod crons;
mod delivery;
mod document;
mod documents;
mod driver;
mod error;
mod event;
mod log;
mod log_event;
mod memory;
mod metadata;
mod notifier;
mod one_thread;
mod options;
#[doc(hidden)]
pub mod overlay;
mod pending;
mod query;
mod queue;
#[doc(hidden)]
pub mod rows;
mod run;
mod secrets;
mod status;
mod store;
mod thread;
mod threads;
mod webhooks;

pub use assistants::{Assistant, AssistantPatch, AssistantQuery, Assistants, NewAssistant};
pub use backend::{DocumentBackend, PrunedRuns, RunBackend, ThreadBackend};
pub use change::{Changed, ThreadAction, ThreadChange, ThreadDecision, ThreadSnapshot};
pub use crons::{Cron, CronQuery, Crons, NewCron};
pub use delivery::Delivery;
pub use document::Document;
pub use error::{Failure, RunsError};
pub use event::{EventPage, EventQuery, EventRow, LOG_BYTES, NewEvent};
pub use log::{EventBuffering, RunLog};
pub use log_event::{LogEvent, LoggedCheckpoint, LoggedMessage, LoggedQuestion, LoggedUpdate, TaskEvent, TaskPhase};
pub use memory::MemoryRuns;
pub use metadata::contains;
pub use notifier::{ChangeNotifier, Listener, Notice, RunEnds};
pub use one_thread::OneThread;
pub use options::{ClientMode, Durability, OnDisconnect, RunOptions, StreamMode};
pub use query::{Order, RunQuery, SortBy, ThreadQuery};
pub use queue::{Change, Queue};
pub use run::{
    AddedRun, CANCELLED, Cancel, Claimed, MultitaskStrategy, NewRun, Request, Run, RunClaim, RunCommit, RunEnd,
};
pub use secrets::{hide_channels, hide_command};
pub use status::{RunStatus, ThreadStatus};
pub use store::RunStore;
pub use thread::{IfExists, NewThread, ThreadIndex, ThreadIs, ThreadPatch, ThreadRow};
pub use webhooks::Webhooks;
