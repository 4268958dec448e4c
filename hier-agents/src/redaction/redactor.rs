//! Combines all redacting layers of a call, so that their order does not matter.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use serde_json::{Map, Value};

use super::Pattern;
use super::escapes::Unescaped;
use crate::model::ModelError;
use crate::state::base::{BaseState, BaseStateWrite};
use hier_checkpoint::message::{Body, Content, Message, Messages};
use hier_core::checkpoint::codec;
use hier_core::graph::Command;
use hier_core::state::{ChannelWrite, State, Values};
use hier_core::{NodeError, NodeErrorKind, Run};

/// Returns the redactor of the calling agent in a run, if the agent has redacting layers.
pub(crate) type RedactorOf<C> = Arc<dyn Fn(&Run<C>) -> Option<Arc<Redactor>> + Send + Sync>;

/// Maximum number of levels of escapes that are read. Each level is a copy of the text.
const MOST_LEVELS: usize = 8;

tokio::task_local! {
    /// The redactor of the tool call that is running.
    static PRESENT: Arc<Redactor>;
}

/// All redacting layers that a call goes through.
pub(crate) struct Redactor(Vec<Arc<Pattern>>);

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|pattern| &pattern.mark)).finish()
    }
}

impl Redactor {
    pub(crate) fn new(patterns: Vec<Arc<Pattern>>) -> Self {
        Self(patterns)
    }

    /// Runs the call of a tool, whose steps and logs are redacted.
    pub(crate) async fn around<F: Future>(self: Arc<Self>, call: F) -> F::Output {
        PRESENT.scope(self, call).await
    }

    /// Returns the redactor of the tool call that is running, if it has one.
    pub(crate) fn present() -> Option<Arc<Self>> {
        PRESENT.try_with(Arc::clone).ok()
    }

    /// Finds the secrets of a text, even if they are escaped. Returns them in order, without overlaps, each with its
    /// mark. Letters that are escaped more than [`MOST_LEVELS`] times are not read, and count as secrets.
    fn secrets(&self, text: &str) -> (Vec<(usize, usize, &str)>, usize) {
        let mut level = Unescaped::new(text);
        let (mut found, mut open) = (Vec::new(), text.len());
        for depth in 0.. {
            for pattern in self.0.iter().rev() {
                let mut from = 0;
                while let Some((start, end)) = pattern.first(&level.text, from) {
                    found.push((level.place(start), level.place(end), &*pattern.mark));
                    from = end;
                }
                open = open.min(level.place(pattern.find.open(&level.text).min(level.text.len())));
            }
            if depth == MOST_LEVELS {
                let (escapes, cut) = level.escapes();
                open = cut.map_or(open, |cut| open.min(cut));
                let mark = self.0.first().map_or("", |pattern| &pattern.mark);
                found.extend(escapes.into_iter().map(|escape| (escape.start, escape.end, mark)));
                break;
            }
            let (deeper, cut) = level.deeper();
            open = cut.map_or(open, |cut| open.min(cut));
            match deeper {
                Some(deeper) => level = deeper,
                None => break,
            }
        }
        found.sort_by_key(|(start, end, _)| (*start, usize::MAX - end));
        found.dedup_by(|next, before| {
            let overlaps = next.0 < before.1;
            if overlaps {
                before.1 = before.1.max(next.1);
            }
            overlaps
        });
        (found, open)
    }

    /// Returns the text without secrets, or `None` if it has none.
    pub(crate) fn redacted(&self, text: &str) -> Option<String> {
        let (secrets, _) = self.secrets(text);
        if secrets.is_empty() {
            return None;
        }
        let (mut out, mut from) = (String::with_capacity(text.len()), 0);
        for (start, end, mark) in secrets {
            out.push_str(&text[from..start]);
            out.push_str(mark);
            from = end;
        }
        out.push_str(&text[from..]);
        Some(out)
    }

    /// Takes the part of a streamed text that can be sent now, without secrets. If the text has ended, takes
    /// everything.
    pub(crate) fn ready(&self, text: &mut String, has_ended: bool) -> String {
        let (secrets, open) = self.secrets(text);
        let open = if has_ended { text.len() } else { open };
        let mut open = (0..=open).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        let (mut out, mut from) = (String::new(), 0);
        for (start, end, mark) in secrets {
            // More text may extend this secret, or reveal a secret that begins before its end.
            if !has_ended && (end == text.len() || end > open) {
                open = open.min(start);
                break;
            }
            out.push_str(&text[from..start]);
            out.push_str(mark);
            from = end;
        }
        let to = open.max(from);
        out.push_str(&text[from..to]);
        text.drain(..to);
        out
    }

    /// Redacts a text. Returns true if it had a secret.
    pub(crate) fn change(&self, text: &mut String) -> bool {
        let Some(redacted) = self.redacted(text) else { return false };
        *text = redacted;
        true
    }

    /// Redacts the texts, numbers and keys of a value. Returns true if it had a secret.
    pub(crate) fn value(&self, value: &mut Value) -> bool {
        match value {
            Value::String(text) => self.change(text),
            Value::Number(number) => {
                let Some(redacted) = self.redacted(&number.to_string()) else { return false };
                *value = Value::String(redacted);
                true
            }
            Value::Array(list) => list.iter_mut().fold(false, |changes, value| self.value(value) | changes),
            Value::Object(object) => {
                let changes = object.values_mut().fold(false, |changes, value| self.value(value) | changes);
                self.keys(object) | changes
            }
            Value::Null | Value::Bool(_) => false,
        }
    }

    /// Redacts the keys of an object. Returns true if a key had a secret.
    fn keys(&self, object: &mut Map<String, Value>) -> bool {
        let changes: Vec<(String, String)> =
            object.keys().filter_map(|key| Some((key.clone(), self.redacted(key)?))).collect();
        for (key, redacted) in &changes {
            if let Some(value) = object.remove(key) {
                object.insert(redacted.clone(), value);
            }
        }
        !changes.is_empty()
    }

    pub(crate) fn content(&self, content: &mut Content) {
        content.change_everything(&mut |text| {
            self.change(text);
        });
    }

    /// Redacts a message. Returns true if it had a secret.
    pub(crate) fn message(&self, message: &mut Message) -> bool {
        let mut changes = false;
        let before = message.text();
        let marks = self.marks(&before);
        if let Some(content) = message.content_mut() {
            content.change_everything(&mut |text| changes |= self.change(text));
        }
        changes |= message.extra.values_mut().fold(false, |changes, value| self.value(value) | changes);
        changes |= self.keys(&mut message.extra);
        let Body::Assistant { calls, reasoning, citations, .. } = &mut message.body else { return changes };
        for call in calls {
            changes |= self.value(&mut call.args);
        }
        let mut was_opaque_secret = false;
        for thought in reasoning.iter_mut() {
            thought.offset = moved(&before, &marks, thought.offset);
            let was_secret = self.change(&mut thought.text) | self.value(&mut thought.data.clone());
            was_opaque_secret |= was_secret;
        }
        if was_opaque_secret {
            // A provider rejects a call of its own tool if the result is missing. The data of all parts is therefore
            // removed.
            for thought in reasoning {
                thought.data = Value::Null;
            }
            changes = true;
        }
        for citation in citations {
            (citation.start, citation.end) =
                (moved(&before, &marks, citation.start), moved(&before, &marks, citation.end));
            citation.change_texts(&mut |text| changes |= self.change(text));
        }
        changes
    }

    /// Returns the start and the end of each secret of a text, and the end of its mark in the redacted text.
    fn marks(&self, text: &str) -> Vec<(usize, usize, usize)> {
        let (mut removed, mut added) = (0, 0);
        let secrets = self.secrets(text).0.into_iter();
        let marks = secrets.map(|(start, end, mark)| {
            (removed, added) = (removed + end - start, added + mark.len());
            (start, end, end + added - removed)
        });
        marks.collect()
    }

    /// Returns the conversation without secrets, or `None` if it has none.
    pub(crate) fn conversation(&self, messages: &Messages) -> Option<Messages> {
        let mut changes = false;
        let redacted: Vec<Message> = messages
            .iter()
            .cloned()
            .map(|mut message| {
                changes |= self.message(&mut message);
                message
            })
            .collect();
        changes.then(|| redacted.into_iter().collect())
    }

    /// Returns a write that replaces the messages of a state that have secrets, or `None` if no message has a secret.
    pub(crate) fn stored(&self, state: &BaseState) -> Option<BaseStateWrite> {
        let redacted: Vec<Message> = state
            .messages
            .iter()
            .filter_map(|message| {
                let mut message = message.clone();
                self.message(&mut message).then_some(message)
            })
            .collect();
        (!redacted.is_empty()).then(|| BaseState::channels().messages.write::<BaseState>(redacted))
    }

    /// Removes secrets from a write to a message channel or of a report. Writes to other channels are unchanged: the
    /// code that writes them is responsible.
    pub(crate) fn write<S: Values>(&self, state: &S, write: S::Write) -> Result<S::Write, NodeError> {
        let channel = write.channel();
        let is_report = write.name() == BaseState::channels().current_agent_report.name();
        let has_type = |is: fn(&dyn Any) -> bool| state.get_any(channel).is_some_and(is);
        let (has_messages, has_report) =
            (has_type(<dyn Any>::is::<Messages>), is_report && has_type(<dyn Any>::is::<String>));
        let Some(written) = write.stored().filter(|_| has_messages || has_report) else { return Ok(write) };
        let mut bytes = Vec::new();
        written.encode(&mut bytes)?;
        let redacted = if has_messages {
            self.conversation(&codec::decode(&bytes)?).map(|messages| codec::encode(&messages))
        } else {
            self.redacted(&codec::decode::<String>(&bytes)?).map(|report| codec::encode(&report))
        };
        let Some(redacted) = redacted else { return Ok(write) };
        Ok(state.write_from(channel, write.is_overwrite(), &redacted?)?)
    }

    /// Removes secrets from the writes or the error of a node.
    pub(crate) fn command<S: Values>(
        &self,
        state: &S,
        made: Result<Command<S>, NodeError>,
    ) -> Result<Command<S>, NodeError> {
        let mut command = made.map_err(|error| self.error(error))?;
        let writes = std::mem::take(&mut command.writes).into_iter().map(|write| self.write(state, write));
        Ok(command.with_writes(writes.collect::<Result<_, NodeError>>()?))
    }

    /// Redacts an error and keeps its kind, because callers depend on it.
    pub(crate) fn error(&self, error: NodeError) -> NodeError {
        if error.is_signal() || !self.is_secret(&error) {
            return error;
        }
        let text = |text: &str| self.redacted(text).unwrap_or_else(|| text.to_owned());
        let kind = match error.kind() {
            NodeErrorKind::Message(message) => NodeErrorKind::Message(text(message)),
            NodeErrorKind::Panic(message) => NodeErrorKind::Panic(text(message)),
            NodeErrorKind::Goto(message) => NodeErrorKind::Goto(text(message)),
            NodeErrorKind::Tool { tool, error } => {
                NodeErrorKind::Tool { tool: tool.clone(), error: self.error(error.clone()) }
            }
            NodeErrorKind::Source(source) => NodeErrorKind::Source(match source.downcast_ref::<ModelError>() {
                Some(error) => Box::new(self.model_error(error)),
                None => Box::new(self.redacted_error(&**source)),
            }),
            _ => NodeErrorKind::Message(text(&error.to_string())),
        };
        error.with_kind(kind)
    }

    /// Returns true if an error or one of its causes contains a secret.
    fn is_secret(&self, error: &NodeError) -> bool {
        let is_secret = |text: String| self.redacted(&text).is_some();
        is_secret(error.to_string()) || error.source().is_some_and(|source| self.is_in_chain(source))
    }

    /// Returns true if an error or one of its causes contains a secret.
    fn is_in_chain(&self, error: &(dyn Error + 'static)) -> bool {
        let mut next = Some(error);
        while let Some(error) = next {
            if self.redacted(&error.to_string()).is_some() {
                return true;
            }
            next = error.source();
        }
        false
    }

    fn model_error(&self, error: &ModelError) -> ModelError {
        let mut error = error.clone();
        match &mut error {
            ModelError::Unavailable { reason, source, .. } => {
                self.change(reason);
                if let Some(cause) = source.take() {
                    let is_secret = self.is_in_chain(&*cause);
                    *source = Some(if is_secret { Arc::new(self.redacted_error(&*cause)) } else { cause });
                }
            }
            ModelError::Refused { reason, .. }
            | ModelError::TooLong { reason, .. }
            | ModelError::BadAnswer { reason, .. }
            | ModelError::Recording { reason, .. } => {
                self.change(reason);
            }
            ModelError::ScriptExhausted { .. } => {}
        }
        error
    }

    fn redacted_error(&self, error: &(dyn Error + 'static)) -> RedactedError {
        let text = error.to_string();
        RedactedError {
            text: self.redacted(&text).unwrap_or(text),
            cause: error.source().map(|cause| Box::new(self.redacted_error(cause))),
        }
    }
}

/// Returns the place of an offset after redaction. An offset inside a secret moves to the end of its mark.
fn moved(text: &str, marks: &[(usize, usize, usize)], offset: usize) -> usize {
    if !text.is_char_boundary(offset) {
        return 0;
    }
    let behind = marks.partition_point(|(start, ..)| *start < offset);
    match behind.checked_sub(1).map(|last| marks[last]) {
        Some((_, end, mark_end)) => mark_end + offset.saturating_sub(end),
        None => offset,
    }
}

/// An error that has only the redacted texts of another error.
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct RedactedError {
    text: String,
    #[source]
    cause: Option<Box<Self>>,
}
