//! What a node may fail with.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::RunError;
use crate::checkpoint::SaverError;
use crate::panics;
use crate::question::Question;

/// Why a node failed. Every error converts into it with `?`: whatever implements `std::error::Error`, `anyhow::Error` and its
/// like, `Box<dyn Error + Send + Sync>`, and a text, which is a message (`.ok_or("no such ticket")?`).
///
/// An error says itself whether another attempt may help: unknown errors do (a node with `retry` is run again), those
/// made with [`NodeError::permanent`] and panics do not. It is no `std::error::Error` itself, so that it can be made of
/// every one; [`NodeError::source`] gives the error inside.
///
/// ```
/// use hier_core::prelude::*;
///
/// fn rate(text: &str) -> Result<f64> {
///     let rate: f64 = text.parse()?; // another attempt may help
///     if rate < 0.0 {
///         return Err(NodeError::permanent(format!("the rate {rate} is negative")));
///     }
///     Ok(rate)
/// }
/// # assert!(rate("-1").is_err_and(|e| !e.is_transient()));
/// ```
#[derive(Clone)]
pub struct NodeError(Arc<Inner>);

struct Inner {
    kind: NodeErrorKind,
    transient: bool,
    /// The type that it was made of, if that has a name of its own.
    name: Option<&'static str>,
    /// Whether a handler failed that had taken over.
    of_handler: AtomicBool,
}

/// The reason why a node failed, or stopped on purpose.
#[derive(Debug)]
#[non_exhaustive]
pub enum NodeErrorKind {
    /// It said so itself, in words.
    Message(String),
    /// It returned an error.
    Source(Box<dyn Error + Send + Sync>),
    /// It panicked: what the panic said, and where it was if that is known.
    Panic(String),
    /// It, or a function that routes it, took too long.
    Timeout {
        /// Which of the bounds it exceeded.
        kind: TimeoutKind,
        /// The bound.
        limit: Duration,
    },
    /// Its command chose a target that it may not choose.
    Goto(String),
    /// The graph that it runs failed.
    Subgraph(Box<RunError>),
    /// A tool that an agent called failed, or panicked.
    Tool {
        /// The tool.
        tool: String,
        /// The error of the tool.
        error: NodeError,
    },
    /// It asks something and cannot go on without the answer. Empty if the graph that it runs stopped at a breakpoint.
    Interrupt(Vec<Question>),
    /// It was given an answer of the wrong type. The question is still open.
    WrongAnswer {
        /// The question.
        question: Box<Question>,
        /// The reason why the answer does not fit.
        reason: String,
    },
    /// The writes of the task could not be stored.
    Saver(SaverError),
}

/// The bounds on the time of a node, and of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeoutKind {
    /// `timeout`: the attempt as a whole.
    Run,
    /// `idle_timeout`: the time without a sign of life.
    Idle,
    /// `#[tool(timeout = …)]`: an attempt of a tool.
    Tool,
}

impl TimeoutKind {
    /// Which limit was hit, and where it is set.
    fn explain(self, limit: Duration, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Run => write!(f, "took longer than {limit:?}, the limit that the node's option `timeout` sets"),
            Self::Idle => write!(
                f,
                "gave no sign of life for {limit:?}, the limit that the node's option `idle_timeout` sets (`run.heartbeat()` is \
                 a sign)"
            ),
            Self::Tool => write!(f, "took longer than {limit:?}, the limit that `#[tool(timeout = …)]` sets"),
        }
    }
}

impl NodeError {
    /// An error in words. Another attempt may help.
    pub fn new(message: impl Into<String>) -> Self {
        Self::from_kind(NodeErrorKind::Message(message.into()), true)
    }

    /// An error in words that another attempt would meet again: the node is not retried.
    pub fn permanent(message: impl Into<String>) -> Self {
        Self::from_kind(NodeErrorKind::Message(message.into()), false)
    }

    /// An error that is boxed already; `?` and `into` do the same.
    pub fn boxed(error: Box<dyn Error + Send + Sync>) -> Self {
        Self::from_kind(NodeErrorKind::Source(error), true)
    }

    #[doc(hidden)]
    pub fn from_kind(kind: NodeErrorKind, transient: bool) -> Self {
        Self::of(kind, transient, None)
    }

    /// Returns a copy of the error with another kind and the same name.
    #[doc(hidden)]
    #[must_use]
    pub fn with_kind(&self, kind: NodeErrorKind) -> Self {
        let error = Self::of(kind, self.0.transient, self.0.name);
        if self.is_of_handler() { error.of_handler() } else { error }
    }

    fn of(kind: NodeErrorKind, transient: bool, name: Option<&'static str>) -> Self {
        Self(Arc::new(Inner { kind, transient, name, of_handler: AtomicBool::new(false) }))
    }

    /// The name of the error's type, without its path, where it is an error of a type: `ParseFloatError`. `NodeError` for one in words,
    /// a panic, a timeout. What programs outside match, as they do the class of an exception.
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

    /// The failure of a tool. Another attempt may help if it may help the tool.
    #[doc(hidden)]
    #[must_use]
    pub fn of_tool(self, tool: &str) -> Self {
        let transient = self.is_transient();
        Self::from_kind(NodeErrorKind::Tool { tool: tool.to_owned(), error: self }, transient)
    }

    /// The failure of a handler that had taken over.
    pub(crate) fn of_handler(self) -> Self {
        self.0.of_handler.store(true, Ordering::Relaxed);
        self
    }

    pub(crate) fn is_of_handler(&self) -> bool {
        self.0.of_handler.load(Ordering::Relaxed)
    }

    /// The reason.
    pub fn kind(&self) -> &NodeErrorKind {
        &self.0.kind
    }

    /// Whether another attempt may help.
    pub fn is_transient(&self) -> bool {
        self.0.transient
    }

    /// The error that the node returned, or its tool, if it returned one.
    pub fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.0.kind {
            NodeErrorKind::Source(error) => Some(&**error),
            NodeErrorKind::Subgraph(error) => Some(&**error),
            NodeErrorKind::Tool { error, .. } => error.source(),
            _ => None,
        }
    }

    /// Whether it is no failure: the task asks something, was given an answer of the wrong type, or can no longer be stored. Who catches
    /// errors passes it on.
    pub fn is_signal(&self) -> bool {
        matches!(self.kind(), NodeErrorKind::Interrupt(_) | NodeErrorKind::Saver(_))
            || self.wrongly_answered().is_some()
    }

    /// The error of the graph that failed inside.
    pub(super) fn subgraph(&self) -> Option<&RunError> {
        match self.kind() {
            NodeErrorKind::Subgraph(error) => Some(error),
            NodeErrorKind::Tool { error, .. } => error.subgraph(),
            _ => None,
        }
    }

    /// The question that was given an answer of the wrong type, here or in a graph inside.
    pub(crate) fn wrongly_answered(&self) -> Option<&Question> {
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

/// The last part of a type's name; none of a text or a box, which say nothing of the error.
fn type_name<E>() -> Option<&'static str> {
    let path = std::any::type_name::<E>().split('<').next()?;
    let name = path.rsplit("::").next()?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_uppercase());
    (is_name && !matches!(name, "String" | "Box" | "Cow")).then_some(name)
}

/// What every error converts into that can go to another thread: errors, `anyhow::Error`, boxed errors, texts.
impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for NodeError {
    fn from(error: E) -> Self {
        Self::of(NodeErrorKind::Source(error.into()), true, type_name::<E>())
    }
}

/// An error that a node or a tool may return: whatever converts into [`NodeError`].
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be the error of a node or a tool",
    label = "its error is a `{Self}`",
    note = "an error is given to other threads: return hier's `Result<…>` and use `?`, which takes every error that is `Send + Sync`, \
            `anyhow::Error`, `Box<dyn Error + Send + Sync>` and texts; a `Box<dyn Error>` needs `+ Send + Sync`"
)]
pub trait IntoNodeError {
    /// The error.
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
        // What `fn main() -> Result<()>` prints: the message, and what caused it.
        write!(f, "{self}")?;
        let mut cause = self.source().and_then(Error::source);
        while let Some(error) = cause {
            write!(f, "\n  caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}
