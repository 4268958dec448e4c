//! Secrets that nobody is told, and that are stored nowhere.

mod find;
mod said;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::{Layer, ModelCall, ModelReply, NextModel, NextTool, ToolReply, ToolUse};
use crate::agent::state::base::BaseState;
use crate::error::NodeError;
use crate::message::{Body, Message, Messages};
use crate::state::{Contains, State, Update, Values, Writes};

pub use find::{CardNumbers, Emails, Find, IpAddresses, Texts};
use said::Held;

/// Puts a mark in place of secrets: `Redact(Emails)`, `Redact(keys)` with a function that finds them, see [`Find`].
///
/// * What a model is sent has none: its instructions, the conversation, results of tools.
/// * What it answers has none: texts, reasoning, arguments of calls (a tool is called with the mark), whole or in pieces. Of a text that
///   is being said so much is held back as may be the beginning of a secret ([`Find::open`]); arguments go out when they are whole.
/// * What is stored has none: what was answered, what tools returned, and the messages of the conversation: one that had a secret, as
///   the user's, is replaced with the model's next answer. The checkpoints before have it as it came in: encryption is for
///   those, or redacting before it is handed in ([`Redact::text`]). Values that tools write into channels of their own are theirs.
/// * The errors of models and tools that pass it have none, nor what is logged of an answer.
///
/// Reasoning that had one loses what its maker signed, and is not sent back.
///
/// ```
/// use hier_core::agent::AgentBuilder;
/// use hier_core::agent::layer::{Emails, Redact};
/// use hier_core::prelude::*;
/// use hier_testkit::ScriptedModel;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<()> {
/// let desk = AgentBuilder::<BaseState>::new("desk").layer(Redact::new(Emails).mark("[address]")).compile()?;
/// let model = ScriptedModel::new([Message::assistant("I wrote to max@example.org.")]);
/// let asked = Message::user("Write to eva@example.org.");
/// let out = desk.invoke(asked, Config::default(), BaseContext::new(model.clone())).await?;
/// let texts: Vec<String> = out.state().messages.iter().map(Message::text).collect();
/// assert_eq!(texts, ["Write to [address].", "I wrote to [address]."]);
/// assert_eq!(model.requests()[0].messages.last().unwrap().text(), "Write to [address].");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redact(Arc<Pattern>);

/// What is found, and what is put in its place.
struct Pattern {
    find: Arc<dyn Find>,
    mark: String,
}

impl fmt::Debug for Redact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redact").field("mark", &self.0.mark).finish_non_exhaustive()
    }
}

impl Redact {
    /// What this finds, with the mark `[redacted]`.
    pub fn new(find: impl Find) -> Self {
        Self(Arc::new(Pattern { find: Arc::new(find), mark: "[redacted]".to_owned() }))
    }

    /// These texts.
    pub fn texts<T: Into<String>>(texts: impl IntoIterator<Item = T>) -> Self {
        Self::new(Texts::new(texts))
    }

    /// Another mark.
    #[must_use]
    pub fn mark(self, mark: impl Into<String>) -> Self {
        Self(Arc::new(Pattern { find: self.0.find.clone(), mark: mark.into() }))
    }

    /// A text without secrets.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.0.redacted(text) {
            Some(redacted) => Cow::Owned(redacted),
            None => Cow::Borrowed(text),
        }
    }
}

impl Pattern {
    /// The first secret from this byte on.
    fn first(&self, text: &str, from: usize) -> Option<(usize, usize)> {
        let rest = text.get(from..)?;
        let found = self.find.find(rest)?;
        let is_right = found.start < found.end && rest.get(found.clone()).is_some();
        let start = (0..=found.start.min(rest.len())).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or_default();
        let end = if is_right { found.end } else { rest.len() };
        (start < end).then_some((from + start, from + end))
    }

    /// The text without secrets; none if it has none.
    fn redacted(&self, text: &str) -> Option<String> {
        let (mut out, mut from) = (None::<String>, 0);
        while let Some((start, end)) = self.first(text, from) {
            let out = out.get_or_insert_default();
            out.push_str(&text[from..start]);
            out.push_str(&self.mark);
            from = end;
        }
        let mut out = out?;
        out.push_str(&text[from..]);
        Some(out)
    }

    /// Redacts a text; whether it had a secret.
    fn change(&self, text: &mut String) -> bool {
        let Some(redacted) = self.redacted(text) else { return false };
        *text = redacted;
        true
    }

    /// Redacts the texts, numbers and keys of a value; whether it had a secret.
    fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.change(text),
            Value::Number(number) => {
                let Some(redacted) = self.redacted(&number.to_string()) else { return false };
                *value = Value::String(redacted);
                true
            }
            Value::Array(list) => list.iter_mut().fold(false, |changes, value| self.value(value) | changes),
            Value::Object(object) => {
                let mut changes = object.values_mut().fold(false, |changes, value| self.value(value) | changes);
                let keys: Vec<String> = object.keys().filter(|key| self.redacted(key).is_some()).cloned().collect();
                for key in keys {
                    changes = true;
                    let redacted = self.redacted(&key);
                    if let Some((redacted, value)) = redacted.zip(object.remove(&key)) {
                        object.insert(redacted, value);
                    }
                }
                changes
            }
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Redacts a message; whether it had a secret.
    fn message(&self, message: &mut Message) -> bool {
        let mut changes = false;
        let before = message.text();
        if let Some(content) = message.content_mut() {
            content.change_texts(&mut |text| changes |= self.change(text));
        }
        changes |= message.extra.values_mut().fold(false, |changes, value| self.value(value) | changes);
        let Body::Assistant { calls, reasoning, .. } = &mut message.body else { return changes };
        for call in calls {
            changes |= self.value(&mut call.args);
        }
        for thought in reasoning {
            // What was said before it is as long as it now is.
            thought.offset = before
                .get(..thought.offset)
                .map_or(0, |before| self.redacted(before).map_or(before.len(), |text| text.len()));
            let was_secret = self.change(&mut thought.text) | self.value(&mut thought.data.clone());
            if was_secret {
                thought.data = Value::Null;
            }
            changes |= was_secret;
        }
        changes
    }

    /// The messages that had secrets, without them.
    fn messages(&self, messages: &Messages) -> Vec<Message> {
        let redacted = messages.iter().filter_map(|message| {
            let mut message = message.clone();
            self.message(&mut message).then_some(message)
        });
        redacted.collect()
    }

    /// An error without secrets: of another kind, if it had one.
    fn error(&self, error: NodeError) -> NodeError {
        if error.is_signal() {
            return error;
        }
        match self.redacted(&error.to_string()) {
            Some(text) if error.is_transient() => NodeError::new(text),
            Some(text) => NodeError::permanent(text),
            None => error,
        }
    }
}

#[async_trait]
impl<S, C> Layer<S, C> for Redact
where
    S: Values + Contains<BaseState>,
    C: Send + Sync + 'static,
{
    fn name(&self) -> Cow<'static, str> {
        "Redact".into()
    }

    async fn model_call(
        &self,
        mut call: ModelCall<'_, S, C>,
        next: NextModel<'_, S, C>,
    ) -> Result<ModelReply<S>, NodeError> {
        let pattern = &self.0;
        if !pattern.messages(&call.request.messages).is_empty() {
            let redacted = call.request.messages.iter().cloned().map(|mut message| {
                pattern.message(&mut message);
                message
            });
            call.request.messages = redacted.collect();
        }
        let stored = pattern.messages(&call.state().part().messages);
        let own = pattern.clone();
        let call = call.through(move || Held::new(own.clone()));
        let mut reply = next.call(call).await.map_err(|error| pattern.error(error))?;
        if let Some(response) = reply.response_mut() {
            pattern.message(&mut response.message);
        }
        if stored.is_empty() {
            return Ok(reply);
        }
        let write = BaseState::channels().messages.write::<S>(stored);
        Ok(reply.write(S::Update::from_writes(Writes::from_iter([write]))))
    }

    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        let mut reply = next.call(call).await.map_err(|error| self.0.error(error))?;
        reply.map_texts(|text| {
            self.0.change(text);
        });
        Ok(reply)
    }
}
