//! Tool calls as layers see them, and their outcomes.

use std::any::Any;
use std::fmt;

use super::model_call::CallSite;
use super::writes::LayerWrites;
use crate::state::added::added_messages;
use crate::tool::ToolOutput;
use hier_checkpoint::message::{Content, Message, Messages, ToolCall};
use hier_core::NodeError;
use hier_core::graph::Command;
use hier_core::state::{Update, Values, Writes};

/// A checked and approved tool call that passes through layers. A layer that passes the call on several times must
/// clone it.
pub struct ToolUse<'a, S, C> {
    /// The call as the model made it, or as a layer or the operator changed it.
    pub call: ToolCall,
    pub(super) site: CallSite<'a, S, C>,
}

impl<S, C> Clone for ToolUse<'_, S, C> {
    fn clone(&self) -> Self {
        Self { call: self.call.clone(), site: self.site }
    }
}

impl<S, C> fmt::Debug for ToolUse<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolUse").field("call", &self.call).field("site", &self.site).finish()
    }
}

impl<'a, S, C> ToolUse<'a, S, C> {
    /// Returns the agent, the run and the state of the call.
    pub fn site(&self) -> CallSite<'a, S, C> {
        self.site
    }

    pub(super) fn at_site<T, D>(self, site: CallSite<'_, T, D>) -> ToolUse<'_, T, D> {
        ToolUse { call: self.call, site }
    }
}

/// The result of a tool call, for the model.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ToolResult {
    /// The content of the result.
    Content(Content),
    /// Messages, which are added to the conversation. If none of these messages is a result of the call, the agent adds
    /// a result with the text "Done."
    Messages(Vec<Message>),
    /// A description of invalid arguments, which the model receives.
    Invalid(String),
}

/// The result of a tool call, with the writes that the tool and layers have added.
pub struct ToolReply<S: Values> {
    /// The result for the model.
    pub result: ToolResult,
    pub(super) writes: LayerWrites<S>,
    pub(super) rest: Option<Command<S>>,
    /// Effects on a state of another type, which pass through layers over this state.
    pub(super) carried: Option<Box<dyn Any + Send>>,
}

impl<S: Values> fmt::Debug for ToolReply<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolReply").field("result", &self.result).field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl<S: Values> ToolReply<S> {
    /// Creates the result of a tool call, with `content` as the result for the model.
    pub fn content(content: impl Into<Content>) -> Self {
        Self::new(ToolResult::Content(content.into()))
    }

    /// Creates the result of a tool call whose arguments are invalid. The model receives `reason`.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::new(ToolResult::Invalid(reason.into()))
    }

    fn new(result: ToolResult) -> Self {
        Self { result, writes: Vec::new(), rest: None, carried: None }
    }

    /// Adds the writes in `update` to this result. hier stores them in the agent's state together with the result.
    ///
    /// A channel without a reducer accepts only one write in a superstep. If another layer or the tool itself also
    /// writes the channel, the run fails.
    #[must_use]
    pub fn write(mut self, update: impl Update<State = S>) -> Self {
        self.writes.extend(update.into_writes().into_iter().map(|write| (None, write)));
        self
    }

    /// Calls `change` for each string that the model receives as part of this result.
    pub fn map_texts(&mut self, mut change: impl FnMut(&mut String)) {
        match &mut self.result {
            ToolResult::Content(content) => content.change_texts(&mut change),
            ToolResult::Messages(messages) => {
                messages
                    .iter_mut()
                    .filter_map(Message::content_mut)
                    .for_each(|content| content.change_texts(&mut change));
            }
            ToolResult::Invalid(reason) => change(reason),
        }
    }

    /// Converts the output of a tool. Moves the messages that a command adds to `channel` into the result.
    pub(crate) fn from_output(output: ToolOutput<S>, channel: &str) -> Result<Self, NodeError> {
        Ok(match output {
            ToolOutput::Content(content) => Self::new(ToolResult::Content(content)),
            ToolOutput::Messages(messages) => Self::new(ToolResult::Messages(messages)),
            ToolOutput::Invalid(reason) => Self::new(ToolResult::Invalid(reason)),
            ToolOutput::Command(mut command) => {
                let (mut messages, mut writes) = (Vec::new(), Writes::new());
                for write in std::mem::take(&mut command.writes) {
                    match added_messages(&write, channel)? {
                        Some(more) => messages.extend(more.iter().cloned()),
                        None => writes.push(write),
                    }
                }
                let rest = Some(command.with_writes(writes));
                Self { rest, ..Self::new(ToolResult::Messages(messages)) }
            }
        })
    }

    /// Returns the output of the tool as changed by the layers, and the writes of the layers.
    pub(crate) fn into_output(
        self,
        add: fn(Messages) -> S::Write,
        answer: impl FnOnce(Content) -> Message,
    ) -> (ToolOutput<S>, LayerWrites<S>) {
        let output = match (self.result, self.rest) {
            (ToolResult::Invalid(reason), _) => ToolOutput::Invalid(reason),
            (ToolResult::Content(content), None) => ToolOutput::Content(content),
            (ToolResult::Messages(messages), None) => ToolOutput::Messages(messages),
            (result, Some(mut command)) => {
                let messages = match result {
                    ToolResult::Content(content) => vec![answer(content)],
                    ToolResult::Messages(messages) => messages,
                    ToolResult::Invalid(_) => Vec::new(),
                };
                if !messages.is_empty() {
                    command.writes.push(add(messages.into()));
                }
                ToolOutput::Command(command)
            }
        };
        (output, self.writes)
    }
}
