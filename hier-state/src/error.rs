//! Errors of nodes, runs and builders.

mod node;

use std::error::Error;
use std::fmt;

use crate::checkpoint::SaverError;
use crate::question::Question;

pub use node::{IntoNodeError, NodeError, NodeErrorKind, TimeoutKind};

/// A result whose error defaults to [`NodeError`], for nodes and tools.
pub type Result<T, E = NodeError> = std::result::Result<T, E>;

/// The kind of conflict between tasks that write the same channel in one superstep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConflictKind {
    /// Several tasks wrote a channel that allows only one writer per superstep.
    Writes,
    /// Several tasks replaced the value of a channel with an `Overwrite`.
    Overwrites,
}

impl ConflictKind {
    fn help(self) -> &'static str {
        match self {
            Self::Writes => "the channel has no reducer: give it one, or let the nodes run in different supersteps",
            Self::Overwrites => "let only one node overwrite it",
        }
    }
}

impl fmt::Display for ConflictKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Writes => "written more than once in one superstep",
            Self::Overwrites => "overwritten more than once in one superstep",
        })
    }
}

/// An error that ends a run.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A node failed in its last attempt and has no error handler, or its error handler failed, or a hook of the graph
    /// (`on_entry`, `on_exit`) failed.
    #[error("node `{node}` of graph `{graph}` failed: {error}")]
    Node {
        /// The name of the graph.
        graph: String,
        /// The name of the node, or `on_entry` or `on_exit`.
        node: String,
        /// The error of the last attempt, of the error handler or of the hook.
        error: NodeError,
    },
    /// The run reached its recursion limit before it had finished.
    #[error(
        "graph `{graph}` reached its recursion limit of {limit} with {} still to run; raise it with \
         `.recursion_limit(…)`, or let a route lead to END",
        names(next)
    )]
    RecursionLimit {
        /// The name of the graph.
        graph: String,
        /// The maximum number of supersteps.
        limit: usize,
        /// The nodes that would have run next. Applying the input counts as a superstep, so the limit can be reached
        /// after the last node has run. The list is then empty.
        next: Vec<String>,
    },
    /// Several tasks of one superstep wrote a channel that allows only one writer, or several tasks replaced the value
    /// of one channel.
    #[error("channel `{channel}` of graph `{graph}` was {kind}, by {}: {}", names(nodes), kind.help())]
    Conflict {
        /// The name of the graph.
        graph: String,
        /// The name of the channel.
        channel: String,
        /// The nodes that wrote the channel.
        nodes: Vec<String>,
        /// The kind of conflict.
        kind: ConflictKind,
    },
    /// The program called `EventStream::outcome` after the stream had already returned the error of the run.
    #[error("the run failed, and `EventStream::next` has already returned the error: handle it there")]
    OutcomeTaken,
    /// A reducer refused a write or panicked. None of the writes of the superstep is applied.
    #[error("channel `{channel}` of graph `{graph}` rejected a write of node `{node}`: {message}")]
    Reduce {
        /// The name of the graph.
        graph: String,
        /// The name of the channel.
        channel: String,
        /// The node that wrote the value.
        node: String,
        /// The message of the reducer.
        message: String,
    },
    /// Code of the state panicked outside of a node: the `Clone`, `Default` or `Drop` of a type, or a migration. A run or
    /// an update may have stored its work before. Read the thread before you repeat it.
    #[error(
        "{what} of graph `{graph}` panicked: {message}; fix the `Clone`, `Default`, `Drop` or migration that panics"
    )]
    TypePanicked {
        /// The name of the graph.
        graph: String,
        /// The channel whose type panicked, or the state.
        what: String,
        /// The message of the panic.
        message: String,
    },
    /// The input was a complete state, but the thread already has a checkpoint. The thread is unchanged.
    #[error(
        "thread `{thread}` of graph `{graph}` already has a state, and a complete state as input would overwrite all of its \
         channels, also with defaults: pass an update of the channels that change (`State::update()…`), or use another \
         thread id"
    )]
    WholeState {
        /// The name of the graph.
        graph: String,
        /// The id of the thread.
        thread: String,
    },
    /// One superstep would have called a subgraph with `checkpoints: per_thread` more than once. None of the calls has
    /// run.
    #[error(
        "{calls} parallel calls of node `{node}` of graph `{graph}` would share one state, because the node has \
         `checkpoints: per_thread`: use `checkpoints: per_call`, or make the calls in different supersteps"
    )]
    SharedCalls {
        /// The name of the graph.
        graph: String,
        /// The name of the node that runs the subgraph.
        node: String,
        /// The number of calls in the superstep.
        calls: usize,
    },
    /// The run has no input, and nothing is stored that it could continue.
    #[error("graph `{graph}` has no input and no run to resume: pass a state or an update (an empty one is fine)")]
    EmptyInput {
        /// The name of the graph.
        graph: String,
    },
    /// A node returned a command for the parent graph, but the graph has no parent, or the command is for a graph with
    /// another state type.
    #[error("node `{node}` of graph `{graph}` returned a command for its parent graph, {reason}")]
    Parent {
        /// The name of the graph.
        graph: String,
        /// The name of the node.
        node: String,
        /// The reason.
        reason: String,
    },
    /// The run was cancelled through its cancellation token, or the runtime of its stream was shut down.
    #[error("the run of graph `{graph}` was cancelled")]
    Cancelled {
        /// The name of the graph.
        graph: String,
    },
    /// The configuration of the run is invalid. The message names the option.
    #[error("{0}")]
    Config(String),
    /// The graph has a checkpointer, but the run has no thread id.
    #[error("graph `{graph}` has a checkpointer, but the run has no thread id: add `.thread(id)` to the run")]
    NoThread {
        /// The name of the graph.
        graph: String,
    },
    /// The operation needs a checkpointer, but the graph has none.
    #[error("graph `{graph}` has no checkpointer, so it cannot {what}: add `.checkpointer(…)` to the compiled graph")]
    NoCheckpointer {
        /// The name of the graph.
        graph: String,
        /// The operation that needs a checkpointer.
        what: &'static str,
    },
    /// The state has a secret channel, but the saver neither encrypts values nor keeps them in memory. Nothing was
    /// stored.
    #[error(
        "channel `{channel}` of graph `{graph}` is secret, but the saver does not encrypt: open the saver with a key, for \
         example with `Sqlite::options().encrypt(&key)` (feature `encryption`)"
    )]
    Unencrypted {
        /// The name of the graph.
        graph: String,
        /// The name of the channel.
        channel: String,
    },
    /// The saver failed, or another run holds the thread or has taken it over.
    #[error("graph `{graph}`: {error}")]
    Saver {
        /// The name of the graph.
        graph: String,
        /// The saver's error.
        error: SaverError,
    },
    /// A value cannot be stored.
    #[error("{what} of graph `{graph}` cannot be stored: {reason}")]
    Encode {
        /// The name of the graph.
        graph: String,
        /// The value that cannot be stored, such as a channel, an answer or a command.
        what: String,
        /// The reason.
        reason: String,
    },
    /// This program cannot read the stored thread, or the `inbox` channel does not accept a message of the thread. The
    /// message stays in the inbox.
    #[error("thread `{thread}` cannot be read by graph `{graph}`: {reason}")]
    Incompatible {
        /// The name of the graph.
        graph: String,
        /// The id of the thread.
        thread: String,
        /// The part that does not match, and how to fix it.
        reason: String,
    },
    /// The thread does not have the selected checkpoint.
    #[error("thread `{thread}` has no checkpoint `{checkpoint}`: `history` lists those that it has")]
    NoCheckpoint {
        /// The id of the thread.
        thread: String,
        /// The id of the checkpoint.
        checkpoint: String,
    },
    /// An answer does not belong to an open question. The thread is unchanged.
    #[error("{reason}; open: {}", questions(pending))]
    Answer {
        /// The name of the graph.
        graph: String,
        /// The reason.
        reason: String,
        /// The open questions.
        pending: Vec<Question>,
    },
    /// A message or a signal cannot be sent to the thread.
    #[error("cannot send to graph `{graph}`: {reason}")]
    Send {
        /// The name of the graph.
        graph: String,
        /// The reason, and how to fix it.
        reason: String,
    },
    /// An update that does not come from a node is invalid: a state update of a thread, or a command or JSON as the
    /// input of a run.
    #[error("the state of graph `{graph}` cannot be updated: {reason}")]
    Update {
        /// The name of the graph.
        graph: String,
        /// The reason, and how to fix it.
        reason: String,
    },
    /// A sweeper could not resume a due thread, because code of the program panicked.
    #[error(
        "resuming thread `{thread}` of graph `{graph}` panicked: {message}; the sweeper will try again: fix the panic, for \
         example in the closure that creates the contexts of `sweeper`"
    )]
    Panicked {
        /// The name of the graph.
        graph: String,
        /// The id of the thread.
        thread: String,
        /// The message of the panic.
        message: String,
    },
    /// The run was executed in another process and failed there.
    #[error("{message}")]
    Elsewhere {
        /// The [name](RunError::name) of the error in that process, such as `NodeError`.
        kind: String,
        /// The message of the error.
        message: String,
    },
    /// The run needs a tokio runtime, because its tasks wait or run in parallel. The program started the run outside a
    /// runtime, or the runtime was shut down.
    #[error(
        "graph `{graph}` must be run inside a tokio runtime that is not shut down: use `#[tokio::main]` or \
         `Runtime::block_on`"
    )]
    NoRuntime {
        /// The name of the graph.
        graph: String,
    },
    /// The run must renew its lease, but the tokio runtime was built without timers.
    #[error(
        "graph `{graph}` has a checkpointer whose leases must be renewed in time, and the tokio runtime has no timers: \
         enable them with `Builder::enable_time` or `Builder::enable_all`"
    )]
    NoTimers {
        /// The name of the graph.
        graph: String,
    },
}

impl RunError {
    /// Returns the name of the error, for programs that match on it. If LangGraph has this error, returns LangGraph's
    /// name.
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

    /// Returns the error of the innermost subgraph that failed. If no subgraph failed, returns `self`.
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

/// The mistakes in a graph that was built at run time. The messages are the same as the errors of `graph!`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    /// The name of the graph.
    pub graph: String,
    /// The messages, one per mistake.
    pub mistakes: Vec<String>,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "graph `{}` cannot be built:", self.graph)?;
        self.mistakes.iter().try_for_each(|mistake| write!(f, "\n  - {mistake}"))
    }
}

impl Error for BuildError {}
