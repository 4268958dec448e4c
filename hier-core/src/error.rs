//! Errors: what a node may fail with, what a run may fail with, what a builder may refuse.

mod node;

use std::error::Error;
use std::fmt;

use crate::checkpoint::SaverError;
use crate::question::Question;

pub use node::{IntoNodeError, NodeError, NodeErrorKind, TimeoutKind};

/// The result of a node, and a handy one elsewhere: the error is a [`NodeError`] unless named.
pub type Result<T, E = NodeError> = std::result::Result<T, E>;

/// The way in which tasks of one step contradict each other on a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConflictKind {
    /// They wrote a channel without a reducer.
    Writes,
    /// They overwrote one channel.
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

/// Why a run failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A node failed after all its attempts, and no handler took the failure.
    #[error("node `{node}` of graph `{graph}` failed: {error}")]
    Node {
        /// The graph.
        graph: String,
        /// The node.
        node: String,
        /// Its last error.
        error: NodeError,
    },
    /// The run took as many supersteps as it may.
    #[error(
        "graph `{graph}` reached its recursion limit of {limit} with {} still to run; raise it with \
         `Config::recursion_limit`, or let a route lead to END",
        names(next)
    )]
    RecursionLimit {
        /// The graph.
        graph: String,
        /// The limit.
        limit: usize,
        /// The nodes that would have run next. Empty if the run was complete: a run of K supersteps needs a limit of
        /// K + 1.
        next: Vec<String>,
    },
    /// Several tasks of one step wrote a channel that has one writer a step, or overwrote one channel.
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
    /// [`EventStream::outcome`](crate::EventStream::outcome) was asked for after the stream had told the error that ended
    /// the run.
    #[error("the run ended with an error that `EventStream::next` has returned already: keep it where it is returned")]
    OutcomeTaken,
    /// A reducer refused a write, or panicked. Nothing of the step was kept.
    #[error("channel `{channel}` of graph `{graph}` could not take what node `{node}` wrote: {message}")]
    Reduce {
        /// The graph.
        graph: String,
        /// The channel.
        channel: String,
        /// The node whose write it was.
        node: String,
        /// The reducer's message.
        message: String,
    },
    /// A whole state was the input of a thread that has a checkpoint. Nothing was changed.
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
    /// Several calls of a graph that keeps its state for the whole thread came together in one step. None has run.
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
        /// How many calls there were.
        calls: usize,
    },
    /// `()` was given to go on, and there is nothing to go on with.
    #[error(
        "graph `{graph}` was given no input and there is no run to go on with: pass a state or an update (an empty one \
         is fine)"
    )]
    EmptyInput {
        /// The graph.
        graph: String,
    },
    /// A command for the parent was returned in a graph that has none, or has one over another state.
    #[error("node `{node}` of graph `{graph}` returned a command for its parent graph, {reason}")]
    Parent {
        /// The graph.
        graph: String,
        /// The node.
        node: String,
        /// The reason.
        reason: String,
    },
    /// The run's cancellation token was cancelled.
    #[error("the run of graph `{graph}` was cancelled")]
    Cancelled {
        /// The graph.
        graph: String,
    },
    /// The configuration is wrong.
    #[error("{0}")]
    Config(String),
    /// The graph has a checkpointer, and the configuration names no thread.
    #[error("graph `{graph}` has a checkpointer and needs a thread to store: use `Config::new().thread(id)`")]
    NoThread {
        /// The graph.
        graph: String,
    },
    /// Something was asked for that needs a checkpointer, and the graph has none.
    #[error("graph `{graph}` has no checkpointer, so there is nothing to {what}: give it one with `.checkpointer(…)`")]
    NoCheckpointer {
        /// The graph.
        graph: String,
        /// The operation that needs one.
        what: &'static str,
    },
    /// The saver failed, or the thread was taken over by another run.
    #[error("graph `{graph}`: {error}")]
    Saver {
        /// The graph.
        graph: String,
        /// The saver's error.
        error: SaverError,
    },
    /// A value of the state could not be stored.
    #[error("{what} of graph `{graph}` cannot be stored: {reason}")]
    Encode {
        /// The graph.
        graph: String,
        /// The value that could not be stored: of which channel, or sent to which node.
        what: String,
        /// Why.
        reason: String,
    },
    /// This program cannot read the stored thread. Nothing was changed.
    #[error("thread `{thread}` cannot be read by graph `{graph}`: {reason}")]
    Incompatible {
        /// The graph.
        graph: String,
        /// The thread.
        thread: String,
        /// The part that does not fit, and how to mend it.
        reason: String,
    },
    /// The thread has no such checkpoint.
    #[error("thread `{thread}` has no checkpoint `{checkpoint}`: `history` lists those that it has")]
    NoCheckpoint {
        /// The thread.
        thread: String,
        /// The id.
        checkpoint: String,
    },
    /// An answer does not fit the open questions. Nothing was stored.
    #[error("{reason}; open: {}", questions(pending))]
    Answer {
        /// The graph.
        graph: String,
        /// The reason.
        reason: String,
        /// The questions that are open.
        pending: Vec<Question>,
    },
    /// What was sent to a thread cannot be.
    #[error("it cannot be sent to graph `{graph}`: {reason}")]
    Send {
        /// The graph.
        graph: String,
        /// What is wrong, and how to mend it.
        reason: String,
    },
    /// An update from outside the run cannot be made.
    #[error("the state of graph `{graph}` cannot be updated: {reason}")]
    Update {
        /// The graph.
        graph: String,
        /// The reason, and how to mend it.
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
    /// The run was done by another process, and failed there.
    #[error("{message}")]
    Elsewhere {
        /// The name of the error for programs, as `NodeError`.
        kind: String,
        /// What was said there.
        message: String,
    },
    /// Tasks had to wait or to be spread over cores, and no tokio runtime was there, or it had been shut down.
    #[error(
        "graph `{graph}` must be run inside a tokio runtime that is not shut down: use `#[tokio::main]` or \
         `Runtime::block_on`"
    )]
    NoRuntime {
        /// The graph.
        graph: String,
    },
    /// The leases of the saver expire, and the tokio runtime has no timers by which a run could renew its own.
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
    /// The name of the error for programs. Where LangGraph has such an error, it is LangGraph's name.
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

    /// The error at the root: that of the innermost graph, where graphs are nested.
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

/// Why a graph could not be built: everything that is wrong with it, in the words of the macro's errors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The graph.
    pub graph: String,
    /// The messages, one a mistake.
    pub mistakes: Vec<String>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}` cannot be built:", self.graph)?;
        self.mistakes.iter().try_for_each(|mistake| write!(f, "\n  - {mistake}"))
    }
}

impl Error for BuildError {}
