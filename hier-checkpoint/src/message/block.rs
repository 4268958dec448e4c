//! Content blocks in the forms of other frameworks and providers, read as texts, images and files.

use serde_json::{Map, Value};

use super::Part;

/// Reads a block; nothing if it is neither text, image nor file: a thought, a call, the id of a file that a provider has.
pub(super) fn resolve(block: &Map<String, Value>) -> Option<Part> {
    let kind = block.get("type")?.as_str()?;
    if let Some(text) = text(block) {
        return Some(Part::text(text));
    }
    let at = |path: &[&str]| follow(block, path).and_then(Value::as_str);
    let any = |paths: &[&[&str]]| paths.iter().find_map(|path| at(path));
    let mime =
        any(&[&["mime_type"], &["mimeType"], &["media_type"], &["source", "media_type"], &["source", "mimeType"]]);
    let mime = mime.or_else(|| default_mime(kind, at(&["input_audio", "format"])));
    let address = any(&[
        &["image_url", "url"],
        &["image_url"],
        &["url"],
        &["source", "url"],
        &["file", "file_data"],
        &["file_data"],
        &["file", "url"],
    ]);
    let data = any(&[&["base64"], &["data"], &["source", "data"], &["source", "value"], &["input_audio", "data"]]);
    let url = match (address, data) {
        (Some(url), _) if is_address(url) => url.to_owned(),
        // The address field may contain the raw bytes.
        (Some(data), None) | (_, Some(data)) if !is_address(data) => format!("data:{};base64,{data}", mime?),
        (_, Some(data)) => data.to_owned(),
        _ => return None,
    };
    let is_image =
        matches!(kind, "image" | "image_url" | "input_image") || mime.is_some_and(|mime| mime.starts_with("image/"));
    if is_image {
        return Some(Part::Image { url });
    }
    let name = any(&[
        &["filename"],
        &["name"],
        &["title"],
        &["metadata", "filename"],
        &["metadata", "name"],
        &["file", "filename"],
        &["extras", "filename"],
    ]);
    let media_type = mime.filter(|_| !url.starts_with("data:")).map(str::to_owned);
    Some(Part::File { url, name: name.map(str::to_owned), media_type })
}

pub(super) fn text(block: &Map<String, Value>) -> Option<&str> {
    match block.get("type")?.as_str()? {
        "text" | "input_text" | "output_text" | "text-plain" => block.get("text")?.as_str(),
        _ => None,
    }
}

/// Changes each text of a block that a person may have written: not its type, ids, addresses and data.
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

/// Fields of a block that name it or its form.
const NAMES: [&str; 3] = ["type", "id", "file_id"];
/// Fields of the block of an image or file that have its address, its bytes and their form.
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
/// The fields of these within [`MEDIA`].
const WITHIN_MEDIA: [&str; 11] =
    ["type", "url", "data", "value", "file_data", "file_id", "media_type", "mimeType", "format", "detail", "id"];

/// Changes each text, number and key of a block, except its type, its id, and the address, bytes and form of an image or file. The items of
/// its `content` are blocks, too.
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

/// Changes each text, number and key of a value.
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

fn is_address(text: &str) -> bool {
    text.starts_with("data:") || text.contains("://")
}

fn follow<'a>(block: &'a Map<String, Value>, path: &[&str]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    rest.iter().try_fold(block.get(*first)?, |value, name| value.get(name))
}

/// The media type of a kind of block that does not name one.
fn default_mime(kind: &str, format: Option<&str>) -> Option<&'static str> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn resolved(block: &Value) -> Option<Part> {
        resolve(block.as_object().expect("a block"))
    }

    #[test]
    fn blocks_of_all_clients_are_texts_images_and_files() {
        let png = Part::image_data("image/png", "aGk=");
        let linked = Part::image("https://x.example/1.png");
        let pdf = Part::file_data("application/pdf", "aGk=").named("a.pdf");
        for (block, part) in [
            (json!({ "type": "text", "text": "hi", "index": 0 }), Part::text("hi")),
            (json!({ "type": "input_text", "text": "hi" }), Part::text("hi")),
            (
                json!({ "type": "text-plain", "text": "hi", "mime_type": "text/plain", "title": "note" }),
                Part::text("hi"),
            ),
            (json!({ "type": "text-plain", "base64": "aGk=" }), Part::file_data("text/plain", "aGk=")),
            (json!({ "type": "image_url", "image_url": { "url": "https://x.example/1.png" } }), linked.clone()),
            (json!({ "type": "image_url", "image_url": "https://x.example/1.png" }), linked.clone()),
            (json!({ "type": "input_image", "image_url": "data:image/png;base64,aGk=" }), png.clone()),
            (json!({ "type": "image", "url": "https://x.example/1.png", "mime_type": "image/png" }), linked.clone()),
            (json!({ "type": "image", "source_type": "url", "url": "https://x.example/1.png" }), linked.clone()),
            (
                json!({ "type": "image", "mimeType": "image/png", "data": "aGk=", "metadata": { "name": "dot.png" } }),
                png.clone(),
            ),
            (
                json!({ "type": "image", "source_type": "base64", "mime_type": "image/png", "data": "aGk=" }),
                png.clone(),
            ),
            (json!({ "type": "image", "base64": "aGk=", "mime_type": "image/png" }), png.clone()),
            (
                json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": "aGk=" } }),
                png.clone(),
            ),
            (json!({ "type": "image", "source": { "type": "url", "url": "https://x.example/1.png" } }), linked),
            (json!({ "type": "image", "data": "data:image/png;base64,aGk=" }), png.clone()),
            (json!({ "type": "media", "mime_type": "image/png", "data": "aGk=" }), png),
            (
                json!({ "type": "file", "mimeType": "application/pdf", "data": "aGk=", "metadata": { "filename": "a.pdf" } }),
                pdf.clone(),
            ),
            (
                json!({ "type": "file", "base64": "aGk=", "mime_type": "application/pdf", "filename": "a.pdf" }),
                pdf.clone(),
            ),
            (
                json!({ "type": "file", "file": { "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk=" } }),
                pdf.clone(),
            ),
            (
                json!({ "type": "document", "title": "a.pdf", "source": { "type": "base64", "media_type": "application/pdf", "data": "aGk=" } }),
                pdf,
            ),
            (
                json!({ "type": "file", "url": "https://x.example/a", "mime_type": "application/pdf" }),
                Part::file("application/pdf", "https://x.example/a"),
            ),
            (
                json!({ "type": "audio", "mime_type": "audio/ogg", "data": "aGk=" }),
                Part::file_data("audio/ogg", "aGk="),
            ),
            (json!({ "type": "video", "base64": "aGk=" }), Part::file_data("video/mp4", "aGk=")),
            (
                json!({ "type": "input_audio", "input_audio": { "data": "aGk=", "format": "mp3" } }),
                Part::file_data("audio/mpeg", "aGk="),
            ),
        ] {
            assert_eq!(resolved(&block), Some(part), "{block}");
        }
        for block in [
            json!({ "type": "thinking", "thinking": "hm", "signature": "x" }),
            json!({ "type": "tool_use", "id": "1", "name": "look", "input": {} }),
            json!({ "type": "file", "file_id": "f1" }),
        ] {
            assert_eq!(resolved(&block), None, "{block}");
        }
    }
}
