//! How much of a model's context messages take: as its provider counted it, and an estimate of the rest.

use serde_json::Value;

use crate::model::ToolSpec;
use hier_checkpoint::message::{Body, Content, Message, Messages, Part, Reasoning};

/// What a message costs beside what it says, in tokens.
const FRAME: u64 = 4;
/// What an image costs, about.
const IMAGE: u64 = 1_500;

/// What is known of the size of a question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Used {
    /// Its tokens.
    pub(crate) tokens: u64,
    /// How many tokens of the provider one of the estimate is.
    pub(crate) scale: f64,
    /// What the provider counted last.
    pub(crate) reported: Option<u64>,
}

impl Used {
    /// An estimate in the tokens of the provider.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is an estimate
    pub(crate) fn scaled(&self, estimate: u64) -> u64 {
        (estimate as f64 * self.scale).ceil() as u64
    }

    /// So many tokens of the provider as an estimate counts them.
    #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it is an estimate
    pub(crate) fn unscaled(&self, tokens: u64) -> u64 {
        (tokens as f64 / self.scale) as u64
    }
}

/// How large the question is that this view is. What the provider reported with its last answer counts; what has come since
/// is estimated, and so is all of it as long as nothing was reported. `fixed` is what is sent beside the conversation.
#[allow(clippy::cast_precision_loss)] // it is an estimate
pub(crate) fn used(view: &Messages, fixed: u64) -> Used {
    let reported = |message: &Message| message.usage().filter(|usage| usage.input_tokens > 0);
    let last = view.iter().enumerate().rev().find_map(|(place, message)| Some((place, reported(message)?)));
    let Some((place, usage)) = last else {
        return Used { tokens: fixed.saturating_add(size_of_all(view.iter())), scale: 1.0, reported: None };
    };
    let estimate = fixed.saturating_add(size_of_all(view.iter().take(place)));
    // A provider that counts far otherwise does so for another reason.
    let scale = (usage.input_tokens as f64 / estimate.max(1) as f64).clamp(0.25, 4.0);
    let since = Used { tokens: 0, scale, reported: None }.scaled(size_of_all(view.iter().skip(place + 1)));
    Used { tokens: usage.total().saturating_add(since), scale, reported: Some(usage.total()) }
}

/// The size of what is sent beside the conversation: further messages, and tools.
pub(crate) fn fixed_size(messages: &[Message], tools: &[ToolSpec]) -> u64 {
    let tool = |tool: &ToolSpec| FRAME + size_of_text(&tool.description) + size_of_json(&tool.parameters);
    size_of_all(messages.iter()).saturating_add(tools.iter().map(tool).sum())
}

pub(super) fn size_of_all<'a>(messages: impl Iterator<Item = &'a Message>) -> u64 {
    messages.map(size).fold(0, u64::saturating_add)
}

/// The tokens of a message, estimated.
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
        // A page or so, and more the longer it is.
        Some(Part::File { url, .. }) => IMAGE.max(u64::try_from(url.len() / 100).unwrap_or(u64::MAX)),
        // Other blocks are not sent to models.
        Some(_) | None => 0,
    }
}

/// A quarter of what is ASCII, and all other characters: about what it is in all languages.
pub(super) fn size_of_text(text: &str) -> u64 {
    let ascii = text.bytes().filter(u8::is_ascii).count();
    let other = text.bytes().filter(|byte| *byte >= 0xC0).count();
    u64::try_from(ascii.div_ceil(4) + other).unwrap_or(u64::MAX)
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
