#![doc = include_str!("lib.md")]

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
