//! Errors of nodes, runs and builders.

mod node;

use std::error::Error;
use std::fmt;

use crate::checkpoint::SaverError;
use crate::question::Question;

pub use node::{IntoNodeError, NodeError, NodeErrorKind, TimeoutKind};

/// A result whose error defaults to [`NodeError`]. Nodes and tools return it.
pub type Result<T, E = NodeError> = std::result::Result<T, E>;

/// The kind of conflict between tasks of one step that write a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConflictKind {
    /// Several tasks wrote a channel without a reducer.
    Writes,
    /// Several tasks overwrote a channel.
    Overwrites,
}

impl ConflictKind {
    fn help(self) -> &'static str {
        match self {
            Self::Writes => "it has no reducer; give it one, or let the nodes run in different steps",
            Self::Overwrites => "let only one node overwrite it",
        }
    }
}

impl fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writes => "written more than once in one step",
            Self::Overwrites => "overwritten more than once in one step",
        })
    }
}

/// An error that ends a run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A node failed after all its attempts, and it has no error handler.
    #[error("node `{node}` of graph `{graph}` failed: {error}")]
    Node {
        /// The graph.
        graph: String,
        /// The node.
        node: String,
        /// The last error of the node.
        error: NodeError,
    },
    /// The run reached its recursion limit.
    #[error(
        "graph `{graph}` reached its recursion limit of {limit} with {} still to run; raise it with \
         `.recursion_limit(…)`, or let a route lead to END",
        names(next)
    )]
    RecursionLimit {
        /// The graph.
        graph: String,
        /// The limit.
        limit: usize,
        /// The nodes that would have run next. Empty if the run was complete: K supersteps need a limit of K + 1.
        next: Vec<String>,
    },
    /// Several tasks of one step wrote a channel that allows one writer per step, or overwrote a channel.
    #[error("channel `{channel}` of graph `{graph}` was {kind}, by {}: {}", names(nodes), kind.help())]
    Conflict {
        /// The graph.
        graph: String,
        /// The channel.
        channel: String,
        /// The nodes that wrote it.
        nodes: Vec<String>,
        /// The kind of conflict.
        kind: ConflictKind,
    },
    /// `EventStream::outcome` was called after the stream had returned the error of the run.
    #[error("the run ended with an error that `EventStream::next` has returned already: keep it where it is returned")]
    OutcomeTaken,
    /// A reducer refused a write, or panicked. The step was discarded.
    #[error("channel `{channel}` of graph `{graph}` could not take what node `{node}` wrote: {message}")]
    Reduce {
        /// The graph.
        graph: String,
        /// The channel.
        channel: String,
        /// The node that wrote the value.
        node: String,
        /// The reducer's message.
        message: String,
    },
    /// The input was a whole state, but the thread has a checkpoint. The thread is unchanged.
    #[error(
        "thread `{thread}` of graph `{graph}` has a state already, and a whole state as its input would reset every channel that \
         you left at its default: give an update of what changes, `State::update()…`, or use another thread id"
    )]
    WholeState {
        /// The graph.
        graph: String,
        /// The thread.
        thread: String,
    },
    /// One step would have called a graph with `checkpoints: per_thread` several times. No call has run.
    #[error(
        "{calls} calls of node `{node}` of graph `{graph}` would run side by side and share the one state that its graph keeps \
         for the whole thread (`checkpoints: per_thread`): let each call have its own (`per_call`), or make them one after the \
         other, in steps of their own"
    )]
    SharedCalls {
        /// The graph.
        graph: String,
        /// The node.
        node: String,
        /// The number of calls.
        calls: usize,
    },
    /// The input was `()`, but the thread has no run to resume.
    #[error("graph `{graph}` has no input and no run to resume: pass a state or an update (an empty one is fine)")]
    EmptyInput {
        /// The graph.
        graph: String,
    },
    /// A node returned a command for the parent graph, but there is none, or its state has another type.
    #[error("node `{node}` of graph `{graph}` returned a command for its parent graph, {reason}")]
    Parent {
        /// The graph.
        graph: String,
        /// The node.
        node: String,
        /// The reason.
        reason: String,
    },
    /// The cancellation token of the run was cancelled.
    #[error("the run of graph `{graph}` was cancelled")]
    Cancelled {
        /// The graph.
        graph: String,
    },
    /// The configuration is invalid.
    #[error("{0}")]
    Config(String),
    /// The graph has a checkpointer, but the run has no thread.
    #[error("graph `{graph}` has a checkpointer and needs a thread to store: add `.thread(id)` to the run")]
    NoThread {
        /// The graph.
        graph: String,
    },
    /// The operation needs a checkpointer, but the graph has none.
    #[error("graph `{graph}` has no checkpointer, so there is nothing to {what}: give it one with `.checkpointer(…)`")]
    NoCheckpointer {
        /// The graph.
        graph: String,
        /// The operation.
        what: &'static str,
    },
    /// The saver would store a secret channel as plain bytes. Nothing is stored.
    #[error(
        "channel `{channel}` of graph `{graph}` is secret, and the saver does not encrypt: open it with a key, as \
         `Sqlite::options().encrypt(&key)` (feature `encryption`)"
    )]
    Unencrypted {
        /// The graph.
        graph: String,
        /// The secret channel.
        channel: String,
    },
    /// The saver failed, or another run took over the thread.
    #[error("graph `{graph}`: {error}")]
    Saver {
        /// The graph.
        graph: String,
        /// The saver's error.
        error: SaverError,
    },
    /// A value cannot be stored.
    #[error("{what} of graph `{graph}` cannot be stored: {reason}")]
    Encode {
        /// The graph.
        graph: String,
        /// The value: a channel, or the payload for a node.
        what: String,
        /// The reason.
        reason: String,
    },
    /// This program cannot read the stored thread. The thread is unchanged.
    #[error("thread `{thread}` cannot be read by graph `{graph}`: {reason}")]
    Incompatible {
        /// The graph.
        graph: String,
        /// The thread.
        thread: String,
        /// The part that does not match, and the fix.
        reason: String,
    },
    /// The thread has no such checkpoint.
    #[error("thread `{thread}` has no checkpoint `{checkpoint}`: `history` lists those that it has")]
    NoCheckpoint {
        /// The thread.
        thread: String,
        /// The id of the checkpoint.
        checkpoint: String,
    },
    /// An answer does not match the open questions. The thread is unchanged.
    #[error("{reason}; open: {}", questions(pending))]
    Answer {
        /// The graph.
        graph: String,
        /// The reason.
        reason: String,
        /// The open questions.
        pending: Vec<Question>,
    },
    /// A message or signal cannot be sent to a thread.
    #[error("it cannot be sent to graph `{graph}`: {reason}")]
    Send {
        /// The graph.
        graph: String,
        /// The reason, and the fix.
        reason: String,
    },
    /// An update from outside the run is not possible.
    #[error("the state of graph `{graph}` cannot be updated: {reason}")]
    Update {
        /// The graph.
        graph: String,
        /// The reason, and the fix.
        reason: String,
    },
    /// The code that drives a due thread panicked.
    #[error(
        "driving thread `{thread}` of graph `{graph}` panicked: {message}; the thread is tried again later: fix the panic, for example in \
         the closure that `sweeper` makes contexts with"
    )]
    Panicked {
        /// The graph.
        graph: String,
        /// The thread.
        thread: String,
        /// The panic's message.
        message: String,
    },
    /// The run failed in another process.
    #[error("{message}")]
    Elsewhere {
        /// The name of the error for programs, such as `NodeError`.
        kind: String,
        /// The message of the error.
        message: String,
    },
    /// Tasks had to wait or run on several cores, but no tokio runtime is running.
    #[error(
        "graph `{graph}` must be run inside a tokio runtime that is not shut down: use `#[tokio::main]` or \
         `Runtime::block_on`"
    )]
    NoRuntime {
        /// The graph.
        graph: String,
    },
    /// The run must renew its lease, but the tokio runtime has no timers.
    #[error(
        "graph `{graph}` has a checkpointer whose leases must be renewed in time, and the tokio runtime has no timers: \
         enable them with `Builder::enable_time` or `Builder::enable_all`"
    )]
    NoTimers {
        /// The graph.
        graph: String,
    },
}

impl RunError {
    /// Returns the name of the error for programs. It is LangGraph's name where LangGraph has such an error.
    pub fn name(&self) -> &'static str {
        match self {
            Self::RecursionLimit { .. } => "GraphRecursionError",
            Self::Conflict { .. } | Self::Reduce { .. } | Self::Update { .. } => "InvalidUpdateError",
            Self::EmptyInput { .. } => "EmptyInputError",
            Self::Cancelled { .. } => "Cancelled",
            Self::Answer { .. } => "AnswerError",
            Self::Saver { .. } => "CheckpointerError",
            Self::Node { .. } => "NodeError",
            _ => "RunError",
        }
    }

    /// Returns the error of the innermost graph that failed.
    pub fn root(&self) -> &RunError {
        match self {
            Self::Node { error, .. } => error.subgraph().map_or(self, RunError::root),
            _ => self,
        }
    }
}

fn names(names: &[String]) -> String {
    if names.is_empty() {
        return "nothing".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn questions(pending: &[Question]) -> String {
    if pending.is_empty() {
        return "none".to_owned();
    }
    let texts =
        pending.iter().map(|question| format!("`{}` ({}: {})", question.id, question.path.join("/"), question.value));
    texts.collect::<Vec<_>>().join(", ")
}

/// The mistakes that prevented the build of a graph, with the messages of the macro.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The graph.
    pub graph: String,
    /// The messages, one for each mistake.
    pub mistakes: Vec<String>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}` cannot be built:", self.graph)?;
        self.mistakes.iter().try_for_each(|mistake| write!(f, "\n  - {mistake}"))
    }
}

impl Error for BuildError {}
