//! Translates messages between the forms of AG-UI and LangChain. The rest of the server uses LangChain's form.

use hier_core::message::Part;
use serde_json::{Map, Value, json};

use crate::wire::message;

/// Fields of a client's message that are read.
const READ: [&str; 7] = ["id", "role", "content", "toolCalls", "toolCallId", "error", "type"];

/// Fields of LangChain's messages that are not copied, because AG-UI lacks them or has other names for them.
const LANGCHAIN: [&str; 13] = [
    "id",
    "type",
    "content",
    "additional_kwargs",
    "response_metadata",
    "tool_calls",
    "invalid_tool_calls",
    "usage_metadata",
    "tool_call_id",
    "artifact",
    "status",
    "reasoning",
    "extra",
];

/// Kinds of parts that are files. The field `source` contains the data or the address of the file.
const MEDIA: [&str; 4] = ["image", "audio", "video", "document"];

/// Translates a message from a client. Returns `None` for reasoning and activities, which are not part of the
/// conversation.
pub(super) fn inward(message: &Value, place: usize) -> Result<Option<Value>, String> {
    let wrong = |what: &str| format!("`messages[{place}]`: {what}");
    let text = |name: &str| message.get(name).and_then(Value::as_str);
    let id = text("id").ok_or_else(|| wrong("the message has no `id`"))?;
    let role = text("role").ok_or_else(|| wrong("the message has no `role`"))?;
    let content = || content(message.get("content"), place);
    let mut translated = match role {
        "user" => json!({ "type": "human", "content": content()? }),
        "system" | "developer" => json!({ "type": "system", "content": content()? }),
        "assistant" => {
            let calls = message.get("toolCalls").and_then(Value::as_array);
            let calls: Vec<Value> = calls.into_iter().flatten().map(call).collect();
            json!({ "type": "ai", "content": content()?, "tool_calls": calls })
        }
        "tool" => {
            let call = text("toolCallId").ok_or_else(|| wrong("the message has no `toolCallId`"))?;
            let status = if message.get("error").is_some_and(|error| !error.is_null()) { "error" } else { "success" };
            json!({ "type": "tool", "content": content()?, "tool_call_id": call, "status": status })
        }
        "activity" | "reasoning" => return Ok(None),
        other => return Err(wrong(&format!("unknown role `{other}`"))),
    };
    translated["id"] = id.into();
    // Other fields are stored with the message.
    let others = message.as_object().into_iter().flatten().filter(|(name, _)| !READ.contains(&name.as_str()));
    if let Some(fields) = translated.as_object_mut() {
        fields.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    }
    Ok(Some(translated))
}

fn content(content: Option<&Value>, place: usize) -> Result<Value, String> {
    let wrong = |what: &str| format!("`messages[{place}].content`: {what}");
    match content {
        None | Some(Value::Null) => Ok("".into()),
        Some(Value::String(text)) => Ok(text.as_str().into()),
        Some(Value::Array(parts)) => parts.iter().map(|value| part(value).map_err(|what| wrong(&what))).collect(),
        Some(_) => Err(wrong("the content is neither a string nor a list of parts")),
    }
}

/// Returns the part unchanged if hier can read it.
fn part(part: &Value) -> Result<Value, String> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_known = kind == "text" || kind == "binary" || MEDIA.contains(&kind);
    let read = is_known.then(|| serde_json::from_value::<Part>(part.clone()).ok()).flatten();
    if read.as_ref().and_then(Part::resolved).is_some() {
        return Ok(part.clone());
    }
    Err(format!(
        "cannot read a part of type `{kind}`: use `text`, or `image`, `audio`, `video`, `document` or `binary` with an address or data"
    ))
}

/// Returns a part in AG-UI's form, or `None` if AG-UI has no such part.
fn shown(part: &Value) -> Option<Value> {
    let kind = part.get("type").and_then(Value::as_str)?;
    if kind == "binary" || (MEDIA.contains(&kind) && part.pointer("/source/value").is_some()) {
        return Some(part.clone());
    }
    let part = serde_json::from_value::<Part>(part.clone()).ok()?;
    match part.resolved()?.into_owned() {
        Part::Text { text } => Some(json!({ "type": "text", "text": text })),
        Part::Image { url } => Some(media("image", &url, None)),
        Part::File { url, media_type, .. } => {
            let of_data = url.strip_prefix("data:").and_then(|rest| rest.split([';', ',']).next());
            let mime = media_type.as_deref().or(of_data).unwrap_or_default();
            let kind = mime.split('/').next().filter(|kind| matches!(*kind, "audio" | "video")).unwrap_or("document");
            Some(media(kind, &url, media_type.as_deref()))
        }
        _ => None,
    }
}

fn media(kind: &str, url: &str, media_type: Option<&str>) -> Value {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    let source = match (data, media_type) {
        (Some((mime, data)), _) => json!({ "type": "data", "value": data, "mimeType": mime }),
        (None, Some(mime)) => json!({ "type": "url", "value": url, "mimeType": mime }),
        (None, None) => json!({ "type": "url", "value": url }),
    };
    json!({ "type": kind, "source": source })
}

fn call(call: &Value) -> Value {
    let text = |path: &str| call.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let args = serde_json::from_str::<Value>(text("/function/arguments")).unwrap_or_else(|_| json!({}));
    json!({ "type": "tool_call", "id": text("/id"), "name": text("/function/name"), "args": args })
}

/// Translates the messages of a state from LangChain's form. The id of a message without an id is made from its
/// position.
pub(super) fn outward(values: &Value, run: &str) -> Option<Vec<Value>> {
    let list = values.get("messages")?.as_array()?.iter().enumerate();
    Some(list.filter_map(|(place, message)| message_outward(message, &format!("{run}-{place}"))).collect())
}

fn message_outward(message: &Value, default_id: &str) -> Option<Value> {
    let field = |name: &str| message.get(name).and_then(Value::as_str);
    let role = match field("type")? {
        "human" => "user",
        "ai" => "assistant",
        "system" => "system",
        "tool" => "tool",
        _ => return None,
    };
    let mut translated = Map::new();
    translated.insert("id".to_owned(), field("id").unwrap_or(default_id).into());
    translated.insert("role".to_owned(), role.into());
    let content = match message.get("content") {
        Some(Value::Array(parts)) if role == "user" => parts.iter().filter_map(shown).collect(),
        _ => message::text(message).into(),
    };
    translated.insert("content".to_owned(), content);
    let is_kept = |name: &str| !LANGCHAIN.contains(&name) && (role != "tool" || name != "name");
    let others = message.as_object().into_iter().flatten();
    let others = others.filter(|(name, value)| is_kept(name) && !value.is_null());
    translated.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    if let Some(call) = field("tool_call_id") {
        translated.insert("toolCallId".to_owned(), call.into());
    }
    let calls = message.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty());
    if let Some(calls) = calls {
        let calls = calls.iter().map(|call| {
            let arguments = call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
            json!({
                "id": call.get("id"), "type": "function", "function": { "name": call.get("name"), "arguments": arguments },
            })
        });
        translated.insert("toolCalls".to_owned(), calls.collect());
    }
    Some(Value::Object(translated))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_survive_both_translations() {
        let sent = [
            json!({ "id": "1", "role": "user", "content": "hello", "name": "eva", "metadata": { "page": 3 } }),
            json!({ "id": "4", "role": "user", "content": [
                { "type": "text", "text": "see" },
                { "type": "image", "source": { "type": "data", "value": "AA", "mimeType": "image/gif" } },
                { "type": "document", "source": { "type": "url", "value": "https://x.example/a.pdf", "mimeType": "application/pdf" } },
                { "type": "audio", "source": { "type": "data", "value": "AA", "mimeType": "audio/wav" } },
                { "type": "video", "source": { "type": "data", "value": "AA", "mimeType": "video/mp4" } },
                { "type": "binary", "mimeType": "application/pdf", "data": "AA", "filename": "a.pdf" },
            ] }),
            json!({
                "id": "2", "role": "assistant", "content": "",
                "toolCalls": [{ "id": "c", "type": "function", "function": { "name": "look", "arguments": "{\"at\":1}" } }],
            }),
            json!({ "id": "3", "role": "tool", "content": "seen", "toolCallId": "c" }),
        ];
        let messages: Vec<Value> =
            sent.iter().enumerate().filter_map(|(place, sent)| inward(sent, place).expect("a message")).collect();
        assert_eq!(outward(&json!({ "messages": messages }), "run").expect("messages"), sent);
        let sound = json!({ "id": "1", "role": "user", "content": [{ "type": "audio" }] });
        assert!(inward(&sound, 3).unwrap_err().starts_with("`messages[3].content`"));
        assert_eq!(inward(&json!({ "id": "1", "role": "reasoning", "content": "" }), 0), Ok(None));
    }
}
