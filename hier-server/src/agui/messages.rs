//! Messages in the forms of AG-UI and of LangChain, which the rest of the server speaks.

use hier_core::message::Part;
use serde_json::{Map, Value, json};

use crate::wire::message;

/// The fields of a message that are read.
const READ: [&str; 7] = ["id", "role", "content", "toolCalls", "toolCallId", "error", "type"];

/// The fields of LangChain's messages that AG-UI's do not have, or have under other names.
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

/// The kinds of parts that are files of some sort, with their data or their address in `source`.
const MEDIA: [&str; 4] = ["image", "audio", "video", "document"];

/// A message of a client. None of those that are not part of the conversation: what was thought, and what a page shows beside it.
pub(super) fn inward(told: &Value, place: usize) -> Result<Option<Value>, String> {
    let wrong = |what: &str| format!("`messages[{place}]`: {what}");
    let text = |name: &str| told.get(name).and_then(Value::as_str);
    let id = text("id").ok_or_else(|| wrong("it has no `id`"))?;
    let role = text("role").ok_or_else(|| wrong("it has no `role`"))?;
    let content = || content(told.get("content"), place);
    let mut message = match role {
        "user" => json!({ "type": "human", "content": content()? }),
        "system" | "developer" => json!({ "type": "system", "content": content()? }),
        "assistant" => {
            let calls = told.get("toolCalls").and_then(Value::as_array);
            let calls: Vec<Value> = calls.into_iter().flatten().map(call).collect();
            json!({ "type": "ai", "content": content()?, "tool_calls": calls })
        }
        "tool" => {
            let call = text("toolCallId").ok_or_else(|| wrong("it has no `toolCallId`"))?;
            let status = if told.get("error").is_some_and(|error| !error.is_null()) { "error" } else { "success" };
            json!({ "type": "tool", "content": content()?, "tool_call_id": call, "status": status })
        }
        "activity" | "reasoning" => return Ok(None),
        other => return Err(wrong(&format!("`{other}` is no role"))),
    };
    message["id"] = id.into();
    // What is not read here is kept with the message.
    let others = told.as_object().into_iter().flatten().filter(|(name, _)| !READ.contains(&name.as_str()));
    if let Some(fields) = message.as_object_mut() {
        fields.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    }
    Ok(Some(message))
}

fn content(told: Option<&Value>, place: usize) -> Result<Value, String> {
    let wrong = |what: &str| format!("`messages[{place}].content`: {what}");
    match told {
        None | Some(Value::Null) => Ok("".into()),
        Some(Value::String(text)) => Ok(text.as_str().into()),
        Some(Value::Array(parts)) => parts.iter().map(|told| part(told).map_err(|what| wrong(&what))).collect(),
        Some(_) => Err(wrong("it is neither a text nor a list of parts")),
    }
}

/// A part is kept as it came, if hier can read it.
fn part(told: &Value) -> Result<Value, String> {
    let kind = told.get("type").and_then(Value::as_str).unwrap_or_default();
    let is_known = kind == "text" || kind == "binary" || MEDIA.contains(&kind);
    let read = is_known.then(|| serde_json::from_value::<Part>(told.clone()).ok()).flatten();
    if read.as_ref().and_then(Part::resolved).is_some() {
        return Ok(told.clone());
    }
    Err(format!(
        "a part of the type `{kind}` cannot be read: use `text`, or `image`, `audio`, `video`, `document` or `binary` with an \
         address or data"
    ))
}

/// A part as AG-UI has it; none if it has no such part.
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

fn call(told: &Value) -> Value {
    let text = |path: &str| told.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let args = serde_json::from_str::<Value>(text("/function/arguments")).unwrap_or_else(|_| json!({}));
    json!({ "type": "tool_call", "id": text("/id"), "name": text("/function/name"), "args": args })
}

/// The messages of a state, which are those of LangChain. One without an id gets one by its place.
pub(super) fn outward(values: &Value, run: &str) -> Option<Vec<Value>> {
    let list = values.get("messages")?.as_array()?.iter().enumerate();
    Some(list.filter_map(|(place, message)| one(message, &format!("{run}-{place}"))).collect())
}

fn one(message: &Value, unless: &str) -> Option<Value> {
    let field = |name: &str| message.get(name).and_then(Value::as_str);
    let role = match field("type")? {
        "human" => "user",
        "ai" => "assistant",
        "system" => "system",
        "tool" => "tool",
        _ => return None,
    };
    let mut told = Map::new();
    told.insert("id".to_owned(), field("id").unwrap_or(unless).into());
    told.insert("role".to_owned(), role.into());
    let content = match message.get("content") {
        Some(Value::Array(parts)) if role == "user" => parts.iter().filter_map(shown).collect(),
        _ => message::text(message).into(),
    };
    told.insert("content".to_owned(), content);
    let is_kept = |name: &str| !LANGCHAIN.contains(&name) && (role != "tool" || name != "name");
    let others = message.as_object().into_iter().flatten();
    let others = others.filter(|(name, value)| is_kept(name) && !value.is_null());
    told.extend(others.map(|(name, value)| (name.clone(), value.clone())));
    if let Some(call) = field("tool_call_id") {
        told.insert("toolCallId".to_owned(), call.into());
    }
    let calls = message.get("tool_calls").and_then(Value::as_array).filter(|calls| !calls.is_empty());
    if let Some(calls) = calls {
        let calls = calls.iter().map(|call| {
            let arguments = call.get("args").map_or_else(|| "{}".to_owned(), Value::to_string);
            json!({
                "id": call.get("id"), "type": "function", "function": { "name": call.get("name"), "arguments": arguments },
            })
        });
        told.insert("toolCalls".to_owned(), calls.collect());
    }
    Some(Value::Object(told))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_go_in_and_come_out_the_same() {
        let told = [
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
            told.iter().enumerate().filter_map(|(place, told)| inward(told, place).expect("a message")).collect();
        assert_eq!(outward(&json!({ "messages": messages }), "run").expect("messages"), told);
        let sound = json!({ "id": "1", "role": "user", "content": [{ "type": "audio" }] });
        assert!(inward(&sound, 3).unwrap_err().starts_with("`messages[3].content`"));
        assert_eq!(inward(&json!({ "id": "1", "role": "reasoning", "content": "" }), 0), Ok(None));
    }
}
