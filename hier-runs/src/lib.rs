//! Queued runs: requests, claims and events.
//!
//! A *run* processes one input on one thread. A caller adds a run (`create_run`). A *worker* claims the run together
//! with the lease of its thread (`claim_run`), and executes it. Runs, events, checkpoints and the index of threads,
//! which contains the status and the values of each thread, are stored in the same database. One transaction can change
//! all of them (`commit_run`):
//!
//! * On a thread, one run at a time is executed, in the order in which the runs were added. If several threads have a
//!   run to execute, workers first claim the run that has waited longest.
//! * The fencing token of a [`Lease`](hier_checkpoint::checkpoint::Lease) proves the claim of a worker. A worker that
//!   has lost the lease cannot write.
//! * If a worker is killed, another worker claims the run when the lease has expired. [`Run::attempts`] counts the
//!   claims, so a worker can limit them.
//! * The status of a run and the status of its thread change in the transaction that stores the run's last checkpoint.
//! * Events can be stored in the transaction of the checkpoint that they describe ([`EventBuffering`]). The numbers of
//!   events increase within a thread. A reader can begin at any number, as long as the events have not been pruned.
//!
//! A run store has three layers:
//!
//! * Callers use the methods of `dyn` [`RunStore`], which also send notifications ([`ChangeNotifier`]).
//! * The rules are in [`Queue`], which does no I/O.
//! * The traits [`RunBackend`], [`ThreadBackend`] and [`DocumentBackend`] load and store rows, and decide nothing.
//!
//! To write a run store, implement these three traits for a saver, and then [`RunStore`]. Test it with the test suite
//! of `hier-testkit`.

mod assistants;
mod backend;
#[doc(hidden)]
mod change;
mod counted;
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
mod request;
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
pub use metadata::{contains, nested_values};
pub use notifier::{ChangeNotifier, Listener, Notice, RunEnds};
pub use one_thread::OneThread;
pub use options::{ClientMode, Durability, OnDisconnect, RunOptions, StreamMode};
pub use query::{Order, RunQuery, SortBy, ThreadQuery};
pub use queue::{Change, QUEUE_BYTES, Queue};
pub use request::Request;
pub use run::{AddedRun, CANCELLED, Cancel, Claimed, MultitaskStrategy, NewRun, Run, RunClaim, RunCommit, RunEnd};
pub use secrets::{hide_channels, hide_command};
pub use status::{RunStatus, ThreadStatus};
pub use store::RunStore;
pub use thread::{IfExists, NewThread, ThreadIndex, ThreadIs, ThreadPatch, ThreadRow};
pub use webhooks::Webhooks;
