use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::RunError;
use crate::checkpoint::SaverError;
use crate::panics;
use crate::question::Question;

/// An error of a node or a tool.
///
/// `?` converts from all types that implement `std::error::Error`, and from `anyhow::Error`, `Box<dyn Error + Send +
/// Sync>` and strings (`.ok_or("no such ticket")?`). `NodeError` does not implement `std::error::Error` itself, because
/// these conversions would then conflict.
///
/// An error is *transient* if another attempt of the node may succeed. The errors that a node returns are transient,
/// except those from [`NodeError::permanent`]. Timeouts are transient, and panics are not. The error of a subgraph is
/// transient if one of its nodes failed with a transient error. A node with `retry` runs again only after a transient
/// error.
///
/// ```
/// use hier_core::prelude::*;
///
/// fn rate(text: &str) -> hier_core::Result<f64> {
///     let rate: f64 = text.parse()?; // transient: another attempt may succeed
///     if rate < 0.0 {
///         return Err(NodeError::permanent(format!("the rate {rate} is negative")));
///     }
///     Ok(rate)
/// }
/// # assert!(rate("-1").is_err_and(|e| !e.is_transient()));
/// ```
#[derive(Clone)]
pub struct NodeError(Arc<NodeErrorInner>);

struct NodeErrorInner {
    kind: NodeErrorKind,
    transient: bool,
    /// The name of the type from which the error was converted.
    name: Option<&'static str>,
    /// True if the error handler of a node failed.
    of_handler: AtomicBool,
}

/// The reason why a node failed or stopped.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// An error from [`NodeError::new`] or [`NodeError::permanent`], which consists of a message.
    Message(String),
    /// An error of another type that the node returned.
    Source(Box<dyn Error + Send + Sync>),
    /// A panic: its message, and its location if it is known.
    Panic(String),
    /// An attempt exceeded a time limit.
    Timeout {
        /// The kind of limit.
        kind: TimeoutKind,
        /// The limit.
        limit: Duration,
    },
    /// A command of the node has an invalid target, such as one that the node does not declare in `goto`. The message
    /// names the target.
    Goto(String),
    /// The subgraph that the node runs failed.
    Subgraph(Box<RunError>),
    /// A tool failed or panicked.
    Tool {
        /// The name of the tool.
        tool: String,
        /// The error of the tool.
        error: NodeError,
    },
    /// The questions to which the node needs answers. The list is empty if the node runs a subgraph that stopped at a
    /// breakpoint.
    Interrupt(Vec<Question>),
    /// An answer had the wrong type, or failed the check of its question. The question stays open.
    WrongAnswer {
        /// The question.
        question: Box<Question>,
        /// The difference between the answer and the expected type.
        reason: String,
    },
    /// The saver could not read or store data of the task, or another run has taken over the thread.
    Saver(SaverError),
}

/// A kind of time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// `timeout`: the longest duration of an attempt.
    Run,
    /// `idle_timeout`: the longest time without a sign of progress.
    Idle,
    /// `#[tool(timeout = …)]`: the longest duration of an attempt of a tool.
    Tool,
}

impl TimeoutKind {
    fn explain(self, limit: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => write!(f, "took longer than {limit:?}, the limit that the node's option `timeout` sets"),
            Self::Idle => write!(
                f,
                "made no progress for {limit:?}, the limit that the node's option `idle_timeout` sets: call `run.heartbeat()` \
                 during long work, or raise the limit"
            ),
            Self::Tool => write!(f, "took longer than {limit:?}, the limit that `#[tool(timeout = …)]` sets"),
        }
    }
}

impl NodeError {
    /// Creates a transient error from a message.
    pub fn new(message: impl Into<String>) -> Self {
        Self::from_kind(NodeErrorKind::Message(message.into()), true)
    }

    /// Creates an error from a message. The error is not transient, so the engine does not retry the node.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::from_kind(NodeErrorKind::Message(message.into()), false)
    }

    /// Creates a transient error from a boxed error.
    pub fn boxed(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::from_kind(NodeErrorKind::Source(error), true)
    }

    #[doc(hidden)]
    pub fn from_kind(kind: NodeErrorKind, transient: bool) -> Self {
        Self::of(kind, transient, None)
    }

    /// Returns a copy of the error with another kind. The copy keeps the name, and is transient if this error is
    /// transient.
    #[doc(hidden)]
    #[must_use]
    pub fn with_kind(&self, kind: NodeErrorKind) -> Self {
        let error = Self::of(kind, self.0.transient, self.0.name);
        if self.is_of_handler() { error.of_handler() } else { error }
    }

    fn of(kind: NodeErrorKind, transient: bool, name: Option<&'static str>) -> Self {
        Self(Arc::new(NodeErrorInner { kind, transient, name, of_handler: AtomicBool::new(false) }))
    }

    /// Returns the name of the original error's type without its path, such as `ParseFloatError`, for programs that
    /// match on it. An error from a message, a panic or a timeout has the name `NodeError`.
    ///
    /// ```
    /// use hier_core::prelude::*;
    ///
    /// let error: NodeError = "x".parse::<f64>().unwrap_err().into();
    /// assert_eq!(error.name(), "ParseFloatError");
    /// assert_eq!(NodeError::new("no such ticket").name(), "NodeError");
    /// ```
    pub fn name(&self) -> &'static str {
        match self.kind() {
            NodeErrorKind::Tool { error, .. } => error.name(),
            _ => self.0.name.unwrap_or("NodeError"),
        }
    }

    /// Converts the error of a tool to an error of the node that calls the tool. The result is transient if the error
    /// of the tool is transient.
    #[doc(hidden)]
    #[must_use]
    pub fn of_tool(self, tool: &str) -> Self {
        let transient = self.is_transient();
        Self::from_kind(NodeErrorKind::Tool { tool: tool.to_owned(), error: self }, transient)
    }

    #[doc(hidden)]
    #[must_use]
    pub fn of_handler(self) -> Self {
        self.0.of_handler.store(true, Ordering::Relaxed);
        self
    }

    #[doc(hidden)]
    pub fn is_of_handler(&self) -> bool {
        self.0.of_handler.load(Ordering::Relaxed)
    }

    /// Returns the reason why the node failed or stopped.
    pub fn kind(&self) -> &NodeErrorKind {
        &self.0.kind
    }

    /// Returns true if a node with `retry` runs again after this error.
    pub fn is_transient(&self) -> bool {
        self.0.transient
    }

    /// Returns the error that the node, its tool or its subgraph returned. Returns `None` for all other kinds of
    /// errors.
    pub fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.kind {
            NodeErrorKind::Source(error) => Some(&**error),
            NodeErrorKind::Subgraph(error) => Some(&**error),
            NodeErrorKind::Tool { error, .. } => error.source(),
            _ => None,
        }
    }

    /// Returns true if the error controls the run: an interrupt, an answer of the wrong type, or an error of the saver.
    /// Code that catches the errors of nodes must return such an error unchanged.
    pub fn is_signal(&self) -> bool {
        matches!(self.kind(), NodeErrorKind::Interrupt(_) | NodeErrorKind::Saver(_))
            || self.wrongly_answered().is_some()
    }

    pub(super) fn subgraph(&self) -> Option<&RunError> {
        match self.kind() {
            NodeErrorKind::Subgraph(error) => Some(error),
            NodeErrorKind::Tool { error, .. } => error.subgraph(),
            _ => None,
        }
    }

    /// Returns the question whose answer was wrong, in this graph or in a subgraph. Returns `None` for all other
    /// errors.
    #[doc(hidden)]
    pub fn wrongly_answered(&self) -> Option<&Question> {
        match &self.0.kind {
            NodeErrorKind::WrongAnswer { question, .. } => Some(question),
            NodeErrorKind::Subgraph(error) => match &**error {
                RunError::Node { error, .. } => error.wrongly_answered(),
                _ => None,
            },
            _ => None,
        }
    }

    #[doc(hidden)]
    pub fn panic(payload: &(dyn std::any::Any + Send)) -> Self {
        Self::from_kind(NodeErrorKind::Panic(panics::text(payload)), false)
    }
}

/// Returns the last part of a type's name, or `None` for texts and boxes.
fn type_name<E>() -> Option<&'static str> {
    let path = std::any::type_name::<E>().split('<').next()?;
    let name = path.rsplit("::").next()?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_uppercase());
    (is_name && !matches!(name, "String" | "Box" | "Cow")).then_some(name)
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for NodeError {
    fn from(error: E) -> Self {
        Self::of(NodeErrorKind::Source(error.into()), true, type_name::<E>())
    }
}

/// A type that converts into [`NodeError`]. A node or a tool can return it as its error.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be the error of a node or a tool",
    label = "its error is a `{Self}`",
    note = "an error is given to other threads: return hier's `Result<…>` and use `?`, which takes every error that is `Send + Sync`, \
            `anyhow::Error`, `Box<dyn Error + Send + Sync>` and strings; a `Box<dyn Error>` needs `+ Send + Sync`"
)]
pub trait IntoNodeError {
    /// Converts the error.
    fn into_node_error(self) -> NodeError;
}

#[diagnostic::do_not_recommend]
impl<E: Into<NodeError>> IntoNodeError for E {
    fn into_node_error(self) -> NodeError {
        self.into()
    }
}

impl fmt::Display for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.kind {
            NodeErrorKind::Message(text) | NodeErrorKind::Goto(text) => f.write_str(text),
            NodeErrorKind::Source(error) => error.fmt(f),
            NodeErrorKind::Panic(text) => write!(f, "panicked: {text}"),
            NodeErrorKind::Timeout { kind, limit } => kind.explain(*limit, f),
            NodeErrorKind::Subgraph(error) => error.fmt(f),
            NodeErrorKind::Tool { tool, error } => write!(f, "tool `{tool}`: {error}"),
            NodeErrorKind::WrongAnswer { reason, .. } => f.write_str(reason),
            NodeErrorKind::Saver(error) => error.fmt(f),
            NodeErrorKind::Interrupt(questions) => {
                let texts: Vec<String> = questions.iter().map(|question| question.value.to_string()).collect();
                write!(f, "waits for an answer to {}", texts.join(" and "))
            }
        }
    }
}

impl fmt::Debug for NodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // If `main` returns `hier::Result<()>`, Rust prints this form of an error: the message and its causes.
        write!(f, "{self}")?;
        let mut cause = self.source().and_then(Error::source);
        while let Some(error) = cause {
            write!(f, "\n  caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
