//! Recovery from files that a provider refuses: the request is sent again with a text in place of each refused file.
//!
//! A refused file stays in the conversation. Without this recovery, each later request would fail, too.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::error::{FailureKind, ModelFailure};

/// Words of errors about files.
const FILES: [&str; 14] = [
    "image",
    "file",
    "document",
    "pdf",
    "media",
    "mime",
    "audio",
    "video",
    "base64",
    "url",
    "download",
    "fetch",
    "picture",
    "attachment",
];
/// The fields of a request that contain messages.
const CONVERSATION: [&str; 3] = ["messages", "contents", "input"];
/// Bedrock's blocks of files.
const BLOCKS: [&str; 4] = ["image", "document", "video", "audio"];
const PARTS: [&str; 3] = ["content", "parts", "output"];

/// Returns true if a file is a probable reason for the refusal of a request. Files are the largest parts of a request
/// that exceeds the server's limit in bytes.
pub(crate) fn is_about_a_file(failure: &ModelFailure) -> bool {
    let reason = failure.reason.to_ascii_lowercase();
    // Gemini reports this limit with status 400.
    if failure.status == Some(StatusCode::PAYLOAD_TOO_LARGE) || reason.contains("payload size exceeds") {
        return true;
    }
    failure.kind == FailureKind::Refused
        && failure.status.is_some_and(|status| [400, 415, 422].contains(&status.as_u16()))
        && (named_part(&reason).is_some() || FILES.iter().any(|what| reason.contains(what)))
}

/// Replaces the file that the error names with a text. If the error names no file, replaces all files. Returns the
/// number of replaced files.
pub(crate) fn replace_files(body: &mut Value, reason: &str) -> usize {
    let Some(messages) = CONVERSATION.iter().find_map(|name| body.get(name).and(Some(*name))) else { return 0 };
    let text = format!("[this file was refused and is omitted: {}]", reason.lines().next().unwrap_or_default());
    let Some(Value::Array(messages)) = body.get_mut(messages) else { return 0 };
    if let Some((message, part)) = named_part(reason)
        && let Some(message) = messages.get_mut(message)
        && let Some(Value::Array(parts)) = message.get_mut("content")
        && let Some(part) = parts.get_mut(part)
    {
        let count = replace_part(part, &text);
        if count > 0 {
            return count;
        }
    }
    messages.iter_mut().map(|message| replace_in_message(message, &text)).sum()
}

/// Parses the position of a message and its part in an error: `messages.2.content.0`, `messages[2].content[0]`.
fn named_part(reason: &str) -> Option<(usize, usize)> {
    let (_, rest) = reason.split_once("messages")?;
    let mut words = rest.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let message = words.next()?.parse().ok()?;
    words.next().filter(|word| *word == "content")?;
    Some((message, words.next()?.parse().ok()?))
}

fn replace_in_message(message: &mut Value, text: &str) -> usize {
    let mut count = 0;
    for name in PARTS {
        if let Some(Value::Array(parts)) = message.get_mut(name) {
            count += parts.iter_mut().map(|part| replace_part(part, text)).sum::<usize>();
        }
    }
    // Ollama sends images in a field next to the text.
    if let Some(images) = message.as_object_mut().and_then(|message| message.remove("images")) {
        count += images.as_array().map_or(0, Vec::len);
        let old = message["content"].as_str().unwrap_or_default();
        message["content"] = json!(format!("{old}\n{text}"));
    }
    count
}

/// Replaces a part that is a file, or the files in the result of a call. Returns the number of replaced files.
fn replace_part(part: &mut Value, text: &str) -> usize {
    let kind = part.get("type").and_then(Value::as_str);
    let replacement = match kind {
        Some("image" | "document" | "image_url" | "input_audio" | "file") => json!({ "type": "text", "text": text }),
        Some("input_image" | "input_file") => json!({ "type": "input_text", "text": text }),
        None if part.get("inlineData").or_else(|| part.get("fileData")).is_some() => json!({ "text": text }),
        Some("tool_result") => return replace_in_message(part, text),
        None if BLOCKS.iter().any(|kind| part.pointer(&format!("/{kind}/source")).is_some()) => json!({ "text": text }),
        None if part.get("toolResult").is_some() => return replace_in_message(&mut part["toolResult"], text),
        _ => return 0,
    };
    *part = replacement;
    1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_file_or_all_files_are_replaced() {
        let image = json!({ "type": "image", "source": {} });
        let result = json!({ "type": "tool_result", "content": [image] });
        let call = json!({ "type": "tool_use", "input": { "content": [image] } });
        let body = json!({ "messages": [
            { "role": "user", "content": [image, { "type": "text", "text": "?" }] },
            { "role": "assistant", "content": [call] },
            { "role": "user", "content": [result, image] },
        ] });
        let places = ["/messages/0/content/0", "/messages/2/content/0/content/0", "/messages/2/content/1"];
        let replaced = |reason: &str| {
            let mut body = body.clone();
            let count = replace_files(&mut body, reason);
            assert_eq!(body["messages"][1], json!({ "role": "assistant", "content": [call] }), "arguments stay");
            let gone: Vec<usize> = (0..3).filter(|at| body.pointer(places[*at]).unwrap()["type"] == "text").collect();
            assert_eq!(count, gone.len());
            gone
        };
        assert_eq!(replaced("messages.2.content.1.image.source.base64: image exceeds 5 MB maximum"), [2]);
        assert_eq!(replaced("messages.2.content.0.tool_result.content.0.image: bad"), [1]);
        assert_eq!(replaced("Invalid value: messages[0].content[0].image_url"), [0]);
        assert_eq!(replaced("messages.0.content.1: text"), [0, 1, 2], "it names no file");
        assert_eq!(replaced("Could not process image"), [0, 1, 2]);
        let mut other = json!({ "input": "text" });
        assert_eq!(replace_files(&mut other, "image"), 0);
    }

    /// Bedrock's blocks have no type, but a field with the name of their kind.
    #[test]
    fn blocks_of_bedrock_are_replaced() {
        let image = json!({ "image": { "format": "png", "source": { "bytes": "aGk=" } } });
        let document = json!({ "document": { "format": "csv", "name": "a", "source": { "bytes": "aGk=" } } });
        let call = json!({ "toolUse": { "toolUseId": "a", "name": "look", "input": { "content": [image] } } });
        let result = json!({ "toolResult": { "toolUseId": "a", "content": [image, { "text": "seen" }] } });
        let mut body = json!({ "messages": [
            { "role": "user", "content": [{ "text": "see" }, document] },
            { "role": "assistant", "content": [call] },
            { "role": "user", "content": [result] },
        ] });
        assert_eq!(replace_files(&mut body, "Could not process image"), 2);
        assert_eq!(body["messages"][1]["content"], json!([call]), "arguments stay");
        let note = "[this file was refused and is omitted: Could not process image]";
        assert_eq!(body["messages"][0]["content"][1], json!({ "text": note }));
        let content = &body["messages"][2]["content"][0]["toolResult"]["content"];
        assert_eq!(*content, json!([{ "text": note }, { "text": "seen" }]));
    }
}
