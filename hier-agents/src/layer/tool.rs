//! A call of a tool as layers see it, and what comes of it.

use std::any::Any;
use std::fmt;

use async_trait::async_trait;

use super::call::{CallSite, Signed, sign};
use super::listed::Listed;
use crate::tool::ToolOutput;
use hier_checkpoint::message::{Content, Message, Messages, ToolCall};
use hier_core::NodeError;
use hier_core::checkpoint::codec;
use hier_core::graph::Command;
use hier_core::internals::Repeat;
use hier_core::state::{ChannelWrite, Update, Values, Writes};

/// A call of a tool that nothing is in the way of, on its way to the tool. A clone is the same call once more.
pub struct ToolUse<'a, S, C> {
    /// The call.
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
    /// Where the call is made.
    pub fn site(&self) -> CallSite<'a, S, C> {
        self.site
    }

    pub(super) fn at<T, D>(self, site: CallSite<'_, T, D>) -> ToolUse<'_, T, D> {
        ToolUse { call: self.call, site }
    }
}

/// What the model is told of a call.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Said {
    /// The result.
    Content(Content),
    /// Messages, one of which answers the call, or none: then it is answered for the tool.
    Messages(Vec<Message>),
    /// The arguments do not fit: what is wrong.
    Invalid(String),
}

/// What comes of a call of a tool: what the model is told, and what else the tool and layers do.
pub struct ToolReply<S: Values> {
    /// What the model is told.
    pub said: Said,
    pub(super) writes: Signed<S>,
    /// What else the tool does.
    pub(super) rest: Option<Command<S>>,
    /// What is of a state of another type, on its way through layers of this one.
    pub(super) carried: Option<Box<dyn Any + Send>>,
}

impl<S: Values> fmt::Debug for ToolReply<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolReply").field("said", &self.said).field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl<S: Values> ToolReply<S> {
    /// The model is told this result.
    pub fn content(content: impl Into<Content>) -> Self {
        Self::of(Said::Content(content.into()))
    }

    /// The model is told what is wrong with the call.
    pub fn invalid(reason: impl Into<String>) -> Self {
        Self::of(Said::Invalid(reason.into()))
    }

    fn of(said: Said) -> Self {
        Self { said, writes: Vec::new(), rest: None, carried: None }
    }

    /// The same, and what the layer writes: stored together with the result. In a channel without a reducer there may be one
    /// write, of one layer: another one, or the tool's own, is an error.
    #[must_use]
    pub fn write(mut self, update: impl Update<State = S>) -> Self {
        self.writes.extend(update.into_writes().into_iter().map(|write| (None, write)));
        self
    }

    /// Changes each text that the model is told.
    pub fn map_texts(&mut self, mut change: impl FnMut(&mut String)) {
        match &mut self.said {
            Said::Content(content) => content.change_texts(&mut change),
            Said::Messages(messages) => {
                messages
                    .iter_mut()
                    .filter_map(Message::content_mut)
                    .for_each(|content| content.change_texts(&mut change));
            }
            Said::Invalid(reason) => change(reason),
        }
    }

    /// What a tool returned. Of a command, what it says in this channel is taken out.
    pub(crate) fn returned(output: ToolOutput<S>, channel: &str) -> Result<Self, NodeError> {
        Ok(match output {
            ToolOutput::Content(content) => Self::of(Said::Content(content)),
            ToolOutput::Messages(messages) => Self::of(Said::Messages(messages)),
            ToolOutput::Invalid(reason) => Self::of(Said::Invalid(reason)),
            ToolOutput::Command(mut command) => {
                let (mut messages, mut writes) = (Vec::new(), Writes::new());
                for write in std::mem::take(&mut command.writes) {
                    match said(&write, channel)? {
                        Some(more) => messages.extend(more.iter().cloned()),
                        None => writes.push(write),
                    }
                }
                let rest = Some(command.with_writes(writes));
                Self { rest, ..Self::of(Said::Messages(messages)) }
            }
        })
    }

    /// What the tool returned, as the layers leave it, and their writes.
    pub(crate) fn into_output(
        self,
        add: fn(Messages) -> S::Write,
        answer: impl FnOnce(Content) -> Message,
    ) -> (ToolOutput<S>, Signed<S>) {
        let output = match (self.said, self.rest) {
            (Said::Invalid(reason), _) => ToolOutput::Invalid(reason),
            (Said::Content(content), None) => ToolOutput::Content(content),
            (Said::Messages(messages), None) => ToolOutput::Messages(messages),
            (said, Some(mut command)) => {
                let messages = match said {
                    Said::Content(content) => vec![answer(content)],
                    Said::Messages(messages) => messages,
                    Said::Invalid(_) => Vec::new(),
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

/// The messages that a write adds to this channel.
fn said(write: &impl ChannelWrite, channel: &str) -> Result<Option<Messages>, NodeError> {
    if write.name() != channel || write.is_overwrite() {
        return Ok(None);
    }
    let Some(written) = write.stored() else { return Ok(None) };
    let mut bytes = Vec::new();
    written.encode(&mut bytes)?;
    Ok(Some(codec::decode(&bytes)?))
}

/// What stands at the end of layers.
#[async_trait]
pub(crate) trait ToolEnd<S: Values, C>: Send + Sync {
    async fn call(&self, call: ToolUse<'_, S, C>) -> Result<ToolReply<S>, NodeError>
    where
        C: Send + Sync + 'static;
}

/// What comes after a layer: the layers inside of it, then the tool. A copy is the same.
pub struct NextTool<'a, S: Values, C> {
    pub(super) layers: &'a [Listed<S, C>],
    pub(super) end: &'a dyn ToolEnd<S, C>,
    pub(super) repeat: &'a Repeat,
}

impl<S: Values, C> Clone for NextTool<'_, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Values, C> Copy for NextTool<'_, S, C> {}

impl<S: Values, C> fmt::Debug for NextTool<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextTool").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl<S: Values, C: Send + Sync + 'static> NextTool<'_, S, C> {
    /// Passes the call on. If the call failed or was dropped and is passed on again, the tool keeps its steps and questions, and recorded
    /// steps are not repeated. After a successful call, the next one gets new steps and questions. If a tool asks a question, this
    /// returns a signal ([`NodeError::is_signal`]), which the layer must return unchanged.
    ///
    /// Cancel safety: dropping this future drops the call.
    pub async fn call(&self, call: ToolUse<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        let run = call.site.run;
        let passed = async {
            let Some((first, layers)) = self.layers.split_first() else { return self.end.call(call).await };
            let (mut site, repeat) = (call.site, Repeat::default());
            site.key = &first.key;
            let next = NextTool { layers, end: self.end, repeat: &repeat };
            let mut reply = first.layer.tool_call(call.at(site), next).await?;
            sign::<S>(&mut reply.writes, &first.key);
            Ok(reply)
        };
        self.repeat.call(run, passed).await
    }
}
