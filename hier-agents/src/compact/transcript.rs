//! Renders messages as a string that a model summarizes. The text is not a conversation, so that no provider can reject
//! it as incomplete.

use std::fmt::Write as _;
use std::ops::Range;

use super::record::is_system;
use super::shorten::clipped;
use super::size::size_of_text;
use hier_checkpoint::message::{Body, Content, Message, Messages, Part, ToolStatus};

/// Maximum length of a user or assistant text, in characters.
const TEXT: usize = 4_000;
/// Maximum length of a tool result, in characters.
const RESULT: usize = 1_500;
/// Maximum length of the arguments of a call, in characters.
const ARGUMENTS: usize = 600;

/// Renders these messages as texts of at most `most` tokens each. A single longer message exceeds the limit.
pub(crate) fn transcripts(messages: &Messages, range: Range<usize>, most: u64) -> Vec<String> {
    let mut texts = vec![String::new()];
    let mut room = most;
    // Instructions are always sent.
    for message in messages.iter().take(range.end).skip(range.start).filter(|message| !is_system(message)) {
        let line = line(message);
        let cost = size_of_text(&line);
        if cost > room && texts.last().is_some_and(|text| !text.is_empty()) {
            texts.push(String::new());
            room = most;
        }
        room = room.saturating_sub(cost);
        texts.iter_mut().last().into_iter().for_each(|text| *text += &line);
    }
    texts
}

fn line(message: &Message) -> String {
    let id = message.id.as_deref().unwrap_or_default();
    let shown = |content: &Content, most| described(&clipped(content.clone(), most, id));
    let mut line = String::new();
    // Writing to a `String` cannot fail.
    let _ = match &message.body {
        Body::User { content } => writeln!(line, "USER: {}", shown(content, TEXT)),
        Body::Assistant { content, calls, .. } => {
            let text = shown(content, TEXT);
            let spoken = if text.trim().is_empty() { Ok(()) } else { writeln!(line, "ASSISTANT: {text}") };
            calls.iter().fold(spoken, |done, call| {
                let args = shown(&Content::Text(call.args.to_string()), ARGUMENTS);
                done.and_then(|()| writeln!(line, "ASSISTANT calls {}({args})", call.name))
            })
        }
        Body::Tool { content, name, status, .. } => {
            let what = if *status == ToolStatus::Error { "ERROR" } else { "RESULT" };
            writeln!(line, "{what} of {}: {}", name.as_deref().unwrap_or("a call"), shown(content, RESULT))
        }
        _ => Ok(()),
    };
    line
}

/// Renders a content as text. URLs are shown; embedded data is not.
fn described(content: &Content) -> String {
    let address = |url: &str| if url.starts_with("data:") { "its data".to_owned() } else { url.to_owned() };
    match content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => parts
            .iter()
            .filter_map(Part::resolved)
            .map(|part| match &*part {
                Part::Text { text } => text.clone(),
                Part::Image { url } => format!(" [an image: {}] ", address(url)),
                Part::File { url, name, .. } => {
                    format!(" [the file {}: {}] ", name.as_deref().unwrap_or("without a name"), address(url))
                }
                _ => String::new(),
            })
            .collect(),
    }
}
