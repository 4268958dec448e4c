//! The fields of content blocks in the forms of other frameworks and providers.

use serde_json::{Map, Value};

pub(super) fn text(block: &Map<String, Value>) -> Option<&str> {
    match block.get("type")?.as_str()? {
        "text" | "input_text" | "output_text" | "text-plain" => block.get("text")?.as_str(),
        _ => None,
    }
}

/// Changes the texts of a block that a person may have written. Leaves out types, ids, addresses and data.
pub(super) fn texts(block: &mut Map<String, Value>, change: &mut impl FnMut(&mut String)) {
    const NOT_WRITTEN: [&str; 12] = [
        "type",
        "id",
        "url",
        "image_url",
        "data",
        "base64",
        "file_data",
        "file_id",
        "mime_type",
        "mimeType",
        "media_type",
        "source_type",
    ];
    for (_, value) in block.iter_mut().filter(|(name, _)| !NOT_WRITTEN.contains(&name.as_str())) {
        texts_of(value, change);
    }
}

fn texts_of(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(items) => items.iter_mut().for_each(|item| texts_of(item, change)),
        Value::Object(fields) => texts(fields, change),
        _ => {}
    }
}

const NAMES: [&str; 3] = ["type", "id", "file_id"];
/// The fields with the address, the bytes or the format of an image or file.
const MEDIA: [&str; 12] = [
    "url",
    "image_url",
    "source",
    "file",
    "input_audio",
    "data",
    "base64",
    "file_data",
    "mime_type",
    "mimeType",
    "media_type",
    "source_type",
];
/// The fields for the same purpose inside an object in one of [`MEDIA`].
const WITHIN_MEDIA: [&str; 11] =
    ["type", "url", "data", "value", "file_data", "file_id", "media_type", "mimeType", "format", "detail", "id"];

/// Changes each text, number and key of a block, except its type and id and the data of an image or file.
pub(super) fn everything(block: &mut Map<String, Value>, change: &mut impl FnMut(&mut String)) {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_media = default_mime(kind, None).is_some();
    for (name, value) in block.iter_mut() {
        match (name.as_str(), value) {
            (name, Value::String(_)) if NAMES.contains(&name) => {}
            (name, Value::String(_)) if is_media && MEDIA.contains(&name) => {}
            ("url" | "image_url", Value::String(text)) if is_address(text) => {}
            (name, Value::Object(fields)) if is_media && MEDIA.contains(&name) => {
                let others = fields.iter_mut().filter(|(name, _)| !WITHIN_MEDIA.contains(&name.as_str()));
                others.for_each(|(_, value)| everything_of(value, change));
            }
            ("content", Value::Array(items)) => items.iter_mut().for_each(|item| match item {
                Value::Object(block) if block.get("type").is_some_and(Value::is_string) => everything(block, change),
                item => everything_of(item, change),
            }),
            (_, value) => everything_of(value, change),
        }
    }
    keys(block, change);
}

fn everything_of(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Number(number) => {
            let (before, mut text) = (number.to_string(), number.to_string());
            change(&mut text);
            if text != before {
                *value = Value::String(text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| everything_of(item, change)),
        Value::Object(fields) => {
            fields.values_mut().for_each(|value| everything_of(value, change));
            keys(fields, change);
        }
        Value::Null | Value::Bool(_) => {}
    }
}

fn keys(fields: &mut Map<String, Value>, change: &mut impl FnMut(&mut String)) {
    let names: Vec<String> = fields.keys().cloned().collect();
    for name in names {
        let mut changed = name.clone();
        change(&mut changed);
        if changed != name
            && let Some(value) = fields.remove(&name)
        {
            fields.insert(changed, value);
        }
    }
}

pub(super) fn is_address(text: &str) -> bool {
    text.starts_with("data:") || text.contains("://")
}

/// Returns the media type of blocks that do not name one, or `None` for a kind of block without media.
pub(super) fn default_mime(kind: &str, format: Option<&str>) -> Option<&'static str> {
    Some(match (kind, format) {
        ("image" | "image_url" | "input_image", _) => "image/png",
        ("input_audio", Some("mp3")) => "audio/mpeg",
        ("audio" | "input_audio", _) => "audio/wav",
        ("video", _) => "video/mp4",
        ("text-plain", _) => "text/plain",
        ("file" | "document" | "input_file" | "media" | "binary", _) => "application/octet-stream",
        _ => return None,
    })
}
