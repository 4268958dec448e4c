//! Estimates how much of a model's context messages use, based on the usage that its provider reported.

use serde_json::Value;

use crate::model::ToolSpec;
use hier_checkpoint::message::{Body, Content, Message, Messages, Part, Reasoning};

/// Overhead of a message, in tokens.
const FRAME: u64 = 4;
/// Approximate cost of an image, in tokens.
const IMAGE: u64 = 1_500;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ContextUsage {
    pub(crate) tokens: u64,
    /// The ratio of the provider's tokens to estimated tokens.
    pub(crate) scale: f64,
    /// The total that the provider reported last.
    pub(crate) reported: Option<u64>,
}

impl ContextUsage {
    /// Converts estimated tokens to tokens of the provider.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is an estimate
    pub(crate) fn scaled(&self, estimate: u64) -> u64 {
        (estimate as f64 * self.scale).ceil() as u64
    }

    /// Converts tokens of the provider to estimated tokens.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is an estimate
    pub(crate) fn unscaled(&self, tokens: u64) -> u64 {
        (tokens as f64 / self.scale) as u64
    }
}

/// Returns the size of a request with these messages. The provider's last report counts, and later messages are
/// estimated. Without a report, everything is estimated. `fixed` is the estimated size of everything else that is sent.
#[allow(clippy::cast_precision_loss)] // it is an estimate
pub(crate) fn context_usage(view: &Messages, fixed: u64) -> ContextUsage {
    let reported = |message: &Message| message.usage().filter(|usage| usage.input_tokens > 0);
    let last = view.iter().enumerate().rev().find_map(|(place, message)| Some((place, reported(message)?)));
    let Some((place, usage)) = last else {
        return ContextUsage { tokens: fixed.saturating_add(size_of_all(view.iter())), scale: 1.0, reported: None };
    };
    let estimate = fixed.saturating_add(size_of_all(view.iter().take(place)));
    // A ratio outside of this range has another cause than the estimate.
    let scale = (usage.input_tokens as f64 / estimate.max(1) as f64).clamp(0.25, 4.0);
    let since = ContextUsage { tokens: 0, scale, reported: None }.scaled(size_of_all(view.iter().skip(place + 1)));
    ContextUsage { tokens: usage.total().saturating_add(since), scale, reported: Some(usage.total()) }
}

/// Estimates everything that is sent in addition to the conversation: further messages, and tools.
pub(crate) fn fixed_size<'a>(messages: &[Message], tools: impl IntoIterator<Item = &'a ToolSpec>) -> u64 {
    let tool = |tool: &ToolSpec| FRAME + size_of_text(&tool.description) + size_of_json(&tool.parameters);
    size_of_all(messages.iter()).saturating_add(tools.into_iter().map(tool).sum())
}

pub(super) fn size_of_all<'a>(messages: impl Iterator<Item = &'a Message>) -> u64 {
    messages.map(size).fold(0, u64::saturating_add)
}

pub(super) fn size(message: &Message) -> u64 {
    let content = message.content().map_or(0, size_of_content);
    let calls = message.tool_calls().iter().map(|call| FRAME + size_of_text(&call.name) + size_of_json(&call.args));
    let thoughts = message.reasoning().iter().map(size_of_thought);
    match message.body {
        Body::Remove => 0,
        _ => FRAME + content + calls.sum::<u64>() + thoughts.sum::<u64>(),
    }
}

fn size_of_thought(thought: &Reasoning) -> u64 {
    size_of_text(&thought.text) + size_of_json(&thought.data)
}

fn size_of_content(content: &Content) -> u64 {
    match content {
        Content::Text(text) => size_of_text(text),
        Content::Parts(parts) => parts.iter().map(size_of_part).sum(),
    }
}

fn size_of_part(part: &Part) -> u64 {
    match part.resolved().as_deref() {
        Some(Part::Text { text }) => size_of_text(text),
        Some(Part::Image { .. }) => IMAGE,
        // A file counts as much as an image. A long file counts more.
        Some(Part::File { url, .. }) => IMAGE.max(u64::try_from(url.len() / 100).unwrap_or(u64::MAX)),
        // Other blocks are not sent to models.
        Some(_) | None => 0,
    }
}

/// Counts four ASCII characters, or one other character, as a token. This is about right for all languages.
pub(super) fn size_of_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let other = text.bytes().filter(|byte| *byte >= 0xC0).count();
    u64::try_from(ascii.div_ceil(4) + other).unwrap_or(u64::MAX)
}

/// Returns the longest start of a text that counts at most as this number of tokens.
pub(super) fn start_of_text(text: &str, tokens: u64) -> &str {
    // Counted in quarters of a token.
    let mut left = tokens.saturating_mul(4);
    let mut fits = |letter: char| {
        let rest = left.checked_sub(if letter.is_ascii() { 1 } else { 4 });
        left = rest.unwrap_or_default();
        rest.is_some()
    };
    let end: usize = text.chars().map_while(|letter| fits(letter).then(|| letter.len_utf8())).sum();
    &text[..end]
}

fn size_of_json(value: &Value) -> u64 {
    match value {
        Value::Null | Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(text) => 1 + size_of_text(text),
        Value::Array(items) => 1 + items.iter().map(size_of_json).sum::<u64>(),
        Value::Object(fields) => {
            1 + fields.iter().map(|(name, value)| 1 + size_of_text(name) + size_of_json(value)).sum::<u64>()
        }
    }
}
