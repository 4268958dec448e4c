//! State graphs that the compiler checks.
//!
//! A *state* is a struct whose fields are channels ([`state::State`]). A *graph* is declared with
//! [`graph!`](macro@prelude::graph). Its *nodes* are async functions that borrow the state and return updates. The
//! compiler rejects unknown nodes and channels, joins whose sources never all run, routes that miss a case, and Sends
//! with a payload that the target does not take.
//!
//! ```
//! use hier_core::prelude::*;
//!
//! #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
//! struct Countdown {
//!     seconds: u32,
//!     #[reducer(append)]
//!     log: Vec<String>,
//! }
//!
//! graph! {
//!     Launch<Countdown> = Graph {
//!         nodes: [tick, ignite],
//!         edges: [START >> tick >> if is_over { ignite } else { tick }, ignite >> END],
//!     }
//! }
//!
//! async fn tick(state: &Countdown) -> CountdownUpdate {
//!     Countdown::update().seconds(state.seconds.saturating_sub(1)).log([format!("{} …", state.seconds)])
//! }
//!
//! async fn ignite() -> CountdownUpdate {
//!     Countdown::update().log(["Lift-off!".to_owned()])
//! }
//!
//! fn is_over(state: &Countdown) -> bool {
//!     state.seconds == 0
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> hier_core::Result<()> {
//! let out = Launch::compile().invoke(Countdown::update().seconds(2)).await?;
//! assert_eq!(out.state().log, ["2 …", "1 …", "Lift-off!"]);
//! # Ok(())
//! # }
//! ```
//!
//! The terms and the semantics are those of LangGraph 1.2. `docs/semantics.md` in the repository lists the differences.

mod config;
#[doc(hidden)]
pub mod drive;
mod engine;
pub mod graph;
#[doc(hidden)]
pub mod internals;
#[doc(hidden)]
pub mod plumbing;
mod policy;
pub mod prelude;

pub use config::{Config, DEFAULT_RECURSION_LIMIT, DEFAULT_STREAM_CAPACITY, Durability, Identity, RunControl};
pub use engine::program::{
    Ask, Interrupt, NeedsAwait, Run, SignalWait, SnapshotOf, SnapshotTask, StateSnapshot, TaskSnapshot, TypedInterrupt,
};
pub use engine::{
    CheckpointEvent, DebugEvent, Event, EventStream, Interrupted, MessageChunk, Nested, NodeUpdate, Outcome,
    StateUpdate, StopReason, Stopped, StreamMode, branch_off,
};
pub use hier_checkpoint::{async_trait, channel, checkpoint, message, reducer, store};
use hier_checkpoint::{panics, sync};
/// Queued runs and their events.
pub use hier_runs as runs;
/// Graphs as data: [`CompiledGraph::spec`](graph::CompiledGraph::spec) returns such a description.
pub use hier_spec as spec;
pub use hier_state::error::{
    BuildError, ConflictKind, IntoNodeError, NodeError, NodeErrorKind, Result, RunError, TimeoutKind,
};
#[doc(hidden)]
pub use hier_state::question::client_call;
pub use hier_state::question::{
    DeclaredQuestion, OpenQuestion, Question, QuestionAnswer, QuestionError, QuestionFacts, QuestionKind, QuestionSet,
    QuestionType,
};
pub use hier_state::state;
use hier_state::{command, error, question};

pub use tokio_util::sync::CancellationToken;
