//! Clears, shortens and clips the messages of a view.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::prompts;
use hier_checkpoint::message::{Body, Content, Message, Part};

/// Maximum length of a result that is not cleared, in characters.
const SHORT_RESULT: usize = 300;
/// Maximum length of a text that is not shortened, in characters.
const SHORT_TEXT: usize = 1_200;
/// Maximum length of an argument that is not shortened, in characters.
const SHORT_ARGUMENT: usize = 400;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shortening {
    pub(super) cleared: bool,
    pub(super) offloaded: bool,
    /// Maximum length of each text, in characters.
    pub(super) clipped: Option<usize>,
}

/// Returns the message as it is sent. Instructions are never shortened, and neither are answers with reasoning, because
/// their provider may have signed them.
pub(super) fn shortened(message: &Message, how: Shortening) -> Cow<'_, Message> {
    let id = message.id.as_deref().unwrap_or_default();
    let body = match &message.body {
        Body::Tool { content, tool_call_id, name, status } => {
            let content = if how.cleared { cleared(content, id) } else { Cow::Borrowed(content) };
            let content = match clip_of(how) {
                Some(most) => Cow::Owned(clipped(content.into_owned(), most, id)),
                None => content,
            };
            let Cow::Owned(content) = content else { return Cow::Borrowed(message) };
            let (tool_call_id, name) = (tool_call_id.clone(), name.clone());
            Body::Tool { content, tool_call_id, name, status: *status }
        }
        Body::User { content } => match clip_of(how) {
            Some(most) if is_longer(content, most) => Body::User { content: clipped(content.clone(), most, id) },
            _ => return Cow::Borrowed(message),
        },
        Body::Assistant { content, calls, usage, reasoning, .. } if reasoning.is_empty() => {
            let Some(most) = clip_of(how) else { return Cow::Borrowed(message) };
            let argument = if how.offloaded { SHORT_ARGUMENT.min(most) } else { most };
            let mut calls = calls.clone();
            for call in &mut calls {
                clip_json(&mut call.args, argument, id);
            }
            let mut body = Message::calls(clipped(content.clone(), most, id), calls).body;
            if let Body::Assistant { usage: counted, .. } = &mut body {
                *counted = *usage;
            }
            body
        }
        _ => return Cow::Borrowed(message),
    };
    Cow::Owned(Message { id: message.id.clone(), body, extra: Map::new() })
}

fn clip_of(how: Shortening) -> Option<usize> {
    let offloaded = how.offloaded.then_some(SHORT_TEXT);
    [offloaded, how.clipped].into_iter().flatten().min()
}

/// Replaces a long result with a note on how to read it again.
fn cleared<'a>(content: &'a Content, id: &str) -> Cow<'a, Content> {
    let media = match content {
        Content::Text(_) => 0,
        Content::Parts(parts) => parts.iter().filter(|part| part.as_text().is_none()).count(),
    };
    let characters = content.text().chars().count();
    if media == 0 && characters <= SHORT_RESULT {
        return Cow::Borrowed(content);
    }
    Cow::Owned(Content::Text(prompts::cleared(characters, media, id)))
}

fn is_longer(content: &Content, most: usize) -> bool {
    let is_long = |text: &str| text.len() > most && text.chars().nth(most).is_some();
    match content {
        Content::Text(text) => is_long(text),
        Content::Parts(parts) => parts.iter().filter_map(Part::as_text).any(is_long),
    }
}

/// Limits the length of each text. Images and files are unchanged.
pub(super) fn clipped(content: Content, most: usize, id: &str) -> Content {
    match content {
        Content::Text(text) => Content::Text(clip(text, most, id)),
        Content::Parts(parts) => Content::parts(parts.into_iter().map(|part| match part {
            Part::Text { text } => Part::Text { text: clip(text, most, id) },
            other => match other.as_text() {
                Some(text) => Part::Text { text: clip(text.to_owned(), most, id) },
                None => other,
            },
        })),
    }
}

/// Returns the beginning and the end of a text that is longer than `most` characters.
fn clip(text: String, most: usize, id: &str) -> String {
    if text.len() <= most {
        return text;
    }
    let length = text.chars().count();
    if length <= most {
        return text;
    }
    let at = |place: usize| text.char_indices().nth(place).map_or(text.len(), |(at, _)| at);
    let end = most / 4;
    let (head, tail) = (at(most - end), at(length - end));
    format!("{}{}{}", &text[..head], prompts::left_out(length - most, id), &text[tail..])
}

fn clip_json(value: &mut Value, most: usize, id: &str) {
    match value {
        Value::String(text) => *text = clip(std::mem::take(text), most, id),
        Value::Array(items) => {
            for item in items {
                clip_json(item, most, id);
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                clip_json(value, most, id);
            }
        }
        _ => {}
    }
}
