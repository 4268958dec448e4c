//! The tool `read_earlier`, by which a model reads messages that are no longer sent.

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::coercion;
use crate::model::ToolSpec;
use crate::prompts::READ_EARLIER;
use hier_checkpoint::message::{Body, Content, Message, Messages, Part, ToolCall};

/// Maximum number of characters per call.
const PAGE: usize = 8_000;
/// Maximum number of messages that a search returns.
const HITS: usize = 10;
/// Number of characters shown on each side of a search result.
const AROUND: usize = 120;

pub(crate) fn spec() -> ToolSpec {
    ToolSpec {
        name: READ_EARLIER.to_owned(),
        description: "Reads earlier messages of this conversation that were cleared, cut or summarized: one by its id, or those that \
                      contain a text."
            .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "id": {"type": "string", "description": "The id of a message, as shown in place of the omitted text."},
                "from": {"type": "integer", "minimum": 0, "description": "With an id: the character to begin at. Defaults to 0."},
                "search": {"type": "string", "description": "Without an id: a text that the messages contain."},
            },
        }),
    }
}

/// Reads or searches. The error describes an invalid call.
pub(crate) fn read(messages: &Messages, call: &ToolCall) -> Result<Content, String> {
    let coerced = coercion::coerced(&call.args, &spec().parameters);
    let args = coerced.as_ref().unwrap_or(&call.args);
    let text = |name: &str| args.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    match (text("id"), text("search")) {
        (Some(id), _) => {
            let place = messages.place(id).and_then(|place| messages.get(place));
            let message =
                place.ok_or_else(|| format!("there is no message with the id `{id}` in this conversation"))?;
            let from = args.get("from").and_then(Value::as_u64).unwrap_or(0);
            Ok(page(message, usize::try_from(from).unwrap_or(usize::MAX)))
        }
        (None, Some(wanted)) => Ok(Content::Text(found(messages, wanted))),
        (None, None) => Err("give the `id` of a message, or a text to `search`".to_owned()),
    }
}

fn whole(message: &Message) -> String {
    let mut text = message.text();
    for call in message.tool_calls() {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\n{}({})", call.name, call.args);
    }
    text
}

fn page(message: &Message, from: usize) -> Content {
    let text = whole(message);
    let length = text.chars().count();
    let shown: String = text.chars().skip(from).take(PAGE).collect();
    let end = from.saturating_add(PAGE);
    let more = if end < length {
        format!("\n[{length} characters in all; go on with \"from\": {end}]")
    } else {
        String::new()
    };
    let shown = format!("{shown}{more}");
    match message.content() {
        Some(Content::Parts(parts)) if from == 0 => {
            let media = parts.iter().filter(|part| part.as_text().is_none()).cloned();
            Content::parts([Part::text(shown)].into_iter().chain(media))
        }
        _ => Content::Text(shown),
    }
}

fn found(messages: &Messages, wanted: &str) -> String {
    let wanted = wanted.to_lowercase();
    let mut hits = messages.iter().filter_map(|message| {
        let who = match message.body {
            Body::User { .. } => "user",
            Body::Assistant { .. } => "assistant",
            Body::Tool { .. } => "result",
            _ => return None,
        };
        let text = whole(message).to_lowercase();
        let at = text[..text.find(&wanted)?].chars().count();
        let begin = at.saturating_sub(AROUND);
        let shown: String = text.chars().skip(begin).take(at - begin + wanted.chars().count() + AROUND).collect();
        Some(format!("{} ({who}): …{shown}…", message.id.as_deref().unwrap_or_default()))
    });
    let mut lines: Vec<String> = hits.by_ref().take(HITS).collect();
    if lines.is_empty() {
        return "No message of this conversation contains that text.".to_owned();
    }
    if hits.next().is_some() {
        lines.push(format!("[more than {HITS} messages contain it: search for a longer text]"));
    }
    lines.join("\n")
}
