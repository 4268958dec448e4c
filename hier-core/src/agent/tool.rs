//! Tools: what a model can call, and what comes of it.

use super::message::{Content, Message, ToolCall};
use super::model::ToolSpec;
use crate::error::NodeError;
use crate::graph::{BoxFuture, Command, Task};
use crate::state::Values;

/// Something that a model can call, in graphs over `S` with the context `C`. `#[tool]` implements it.
pub trait Tool<S: Values, C>: Send + Sync + 'static {
    /// What the model is told about it.
    fn spec(&self) -> ToolSpec;

    /// Whether a person must approve each call before it is made.
    fn needs_approval(&self) -> bool {
        false
    }

    /// Calls it. An error is the tool's own failure; arguments that do not fit are [`ToolOutput::Invalid`].
    fn call<'a>(&'a self, call: &'a ToolCall, task: &'a Task<S, C>) -> BoxFuture<'a, Result<ToolOutput<S>, NodeError>>;
}

/// What a tool returns.
#[derive(Debug)]
#[non_exhaustive]
pub enum ToolOutput<S: Values> {
    /// The result, which becomes a message.
    Content(Content),
    /// Messages, taken as they are: one of them must answer the call.
    Messages(Vec<Message>),
    /// An update of the state and where to go on: its messages must answer the call.
    Command(Command<S>),
    /// The arguments do not fit: what is wrong with which field. The model is told, whatever the error policy.
    Invalid(String),
}
