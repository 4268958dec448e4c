//! Messages in the form that LangChain's clients read and write, and in hier's own.
//!
//! hier tells messages by their `role` (`user`, `assistant`, …), LangChain by their `type` (`human`, `ai`, …). What goes out
//! is searched for objects that are messages of hier, wherever they stand; what comes in for objects that are messages of
//! LangChain. Everything else passes unchanged.

use hier_core::agent::Message;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The names of the speakers, hier's and LangChain's.
const SPEAKERS: [(&str, &str); 5] =
    [("system", "system"), ("user", "human"), ("assistant", "ai"), ("tool", "tool"), ("remove", "remove")];

/// A value as LangChain's clients read it.
pub(crate) fn outward(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(outward),
        Value::Object(object) => object_outward(object),
        _ => {}
    }
}

/// A value as hier reads it.
pub(crate) fn inward(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(inward),
        Value::Object(object) => object_inward(object),
        _ => {}
    }
}

/// The JSON Schema of something with messages of hier in it, as one of what goes over the wire.
pub(crate) fn schema_outward(schema: &mut Value) {
    let ours = Message::json_schema(&mut SchemaGenerator::default()).to_value();
    let defined = schema.get_mut("$defs").and_then(Value::as_object_mut);
    for definition in defined.into_iter().flat_map(Map::values_mut).filter(|definition| **definition == ours) {
        let mut properties = definition["properties"].take();
        let kinds: Vec<&str> = SPEAKERS.iter().map(|(_, theirs)| *theirs).collect();
        if let Some(properties) = properties.as_object_mut() {
            properties.remove("role");
            properties.insert("type".into(), json!({ "enum": kinds }));
            if let Some(calls) = properties.remove("calls") {
                properties.insert("tool_calls".into(), calls);
            }
            properties.insert(
                "content".into(),
                json!({ "anyOf": [
                { "type": "string" }, { "type": "array", "items": { "type": "object" } },
            ] }),
            );
        }
        definition["properties"] = properties;
        // What comes in may have a `role` instead.
        definition["required"] = json!(["content"]);
    }
}

/// The text of a message in LangChain's form.
pub(crate) fn text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}

fn object_outward(object: &mut Map<String, Value>) {
    if !message_outward(object) {
        object.values_mut().for_each(outward);
    }
}

/// Whether it was a message of hier: then it is one of LangChain now.
fn message_outward(object: &mut Map<String, Value>) -> bool {
    let role = object.get("role").and_then(Value::as_str);
    let Some((_, kind)) = role.and_then(|role| SPEAKERS.iter().find(|(ours, _)| *ours == role)) else { return false };
    let is_removal = *kind == "remove";
    if !(object.contains_key("content") || is_removal) || !object.get("id").is_none_or(Value::is_string) {
        return false;
    }
    let mut message = Map::new();
    let content = object.remove("content").unwrap_or_else(|| "".into());
    message.insert("content".into(), content_outward(content));
    message.insert("additional_kwargs".into(), object.remove("additional_kwargs").unwrap_or_else(|| json!({})));
    message.insert("response_metadata".into(), object.remove("response_metadata").unwrap_or_else(|| json!({})));
    message.insert("type".into(), (*kind).into());
    message.insert("name".into(), object.remove("name").unwrap_or_default());
    message.insert("id".into(), object.remove("id").unwrap_or_default());
    match *kind {
        "ai" => {
            let calls = object.remove("calls").unwrap_or_else(|| json!([]));
            message.insert("tool_calls".into(), calls_outward(calls));
            message.insert("invalid_tool_calls".into(), json!([]));
            message.insert("usage_metadata".into(), usage_outward(object.remove("usage")));
        }
        "tool" => {
            message.insert("tool_call_id".into(), object.remove("tool_call_id").unwrap_or_default());
            message.insert("artifact".into(), Value::Null);
            message.insert("status".into(), object.remove("status").unwrap_or_else(|| "success".into()));
        }
        _ => {}
    }
    object.remove("role");
    // What hier keeps beside (what a provider needs back) is told under names of its own.
    for (name, value) in std::mem::take(object) {
        message.entry(name).or_insert(value);
    }
    *object = message;
    true
}

fn calls_outward(calls: Value) -> Value {
    let Value::Array(calls) = calls else { return calls };
    let call = |call: Value| match call {
        Value::Object(mut call) => {
            call.insert("type".into(), "tool_call".into());
            Value::Object(call)
        }
        other => other,
    };
    calls.into_iter().map(call).collect()
}

fn usage_outward(usage: Option<Value>) -> Value {
    let Some(Value::Object(mut usage)) = usage else { return Value::Null };
    let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    let total = tokens("input_tokens").saturating_add(tokens("output_tokens"));
    usage.insert("total_tokens".into(), total.into());
    Value::Object(usage)
}

/// Images have another form there.
fn content_outward(content: Value) -> Value {
    let Value::Array(parts) = content else { return content };
    let part = |part: Value| match (part.get("type").and_then(Value::as_str), part.get("url")) {
        (Some("image"), Some(url)) => json!({ "type": "image_url", "image_url": { "url": url } }),
        _ => part,
    };
    parts.into_iter().map(part).collect()
}

fn object_inward(object: &mut Map<String, Value>) {
    if !message_inward(object) {
        object.values_mut().for_each(inward);
    }
}

/// Whether it was a message of LangChain: then it is one of hier now. One that has a `role` already is completed.
fn message_inward(object: &mut Map<String, Value>) -> bool {
    let kind = object.get("type").or_else(|| object.get("role")).and_then(Value::as_str);
    let Some(role) = kind.and_then(role) else { return false };
    if !object.contains_key("content") && role != "remove" {
        return false;
    }
    let mut message = Map::new();
    message.insert("role".into(), role.into());
    for name in ["id", "tool_call_id", "status"] {
        if let Some(value) = object.remove(name).filter(|value| !value.is_null()) {
            message.insert(name.into(), value);
        }
    }
    if role != "remove" {
        message.insert("content".into(), content_inward(object.remove("content").unwrap_or_default()));
    }
    if role == "tool"
        && let Some(name) = object.remove("name").filter(Value::is_string)
    {
        message.insert("name".into(), name);
    }
    if role == "assistant" {
        let calls = object.remove("tool_calls").or_else(|| object.remove("calls"));
        if let Some(calls) = calls.filter(|calls| calls.as_array().is_some_and(|calls| !calls.is_empty())) {
            message.insert("calls".into(), calls);
        }
        if let Some(usage) = object.remove("usage_metadata").or_else(|| object.remove("usage")).filter(Value::is_object)
        {
            message.insert("usage".into(), usage);
        }
    }
    *object = message;
    true
}

/// The role of who speaks, by any of its names.
fn role(kind: &str) -> Option<&'static str> {
    match kind {
        "system" | "developer" => Some("system"),
        "human" | "user" => Some("user"),
        "ai" | "assistant" | "AIMessageChunk" => Some("assistant"),
        "tool" => Some("tool"),
        "remove" => Some("remove"),
        _ => None,
    }
}

fn content_inward(content: Value) -> Value {
    match content {
        Value::Array(parts) => parts.into_iter().map(part_inward).collect(),
        Value::Null => "".into(),
        other => other,
    }
}

fn part_inward(part: Value) -> Value {
    if let Value::String(text) = part {
        return json!({ "type": "text", "text": text });
    }
    let url = part.get("image_url").and_then(|image| image.get("url").or(Some(image))).and_then(Value::as_str);
    let text = part.get("text").and_then(Value::as_str);
    match (part.get("type").and_then(Value::as_str), url, text) {
        (Some("image_url"), Some(url), _) => json!({ "type": "image", "url": url }),
        // Without what other clients put beside it (`index`, `annotations`).
        (Some("text"), _, Some(text)) => json!({ "type": "text", "text": text }),
        _ => part,
    }
}

#[cfg(test)]
mod tests {
    use hier_core::agent::{Message, ToolCall};

    use super::*;

    fn there_and_back(message: &Message) -> (Value, Message) {
        let mut value = serde_json::to_value(message).expect("a message has JSON");
        outward(&mut value);
        let told = value.clone();
        inward(&mut value);
        (told, serde_json::from_value(value).expect("what went out comes in"))
    }

    #[test]
    fn messages_go_out_as_langchain_has_them_and_come_back_as_they_were() {
        let call = ToolCall { name: "search".into(), args: json!({ "q": "x" }), id: "c1".into() };
        let mut asked = Message::calls("", [call.clone()]);
        asked.id = Some("m1".into());
        let (told, back) = there_and_back(&asked);
        assert_eq!(back, asked);
        assert_eq!(told["type"], "ai");
        assert_eq!(
            told["tool_calls"],
            json!([{ "name": "search", "args": { "q": "x" }, "id": "c1", "type": "tool_call" }])
        );
        assert_eq!(told["usage_metadata"], Value::Null);

        let (told, back) = there_and_back(&Message::tool(&call, "found"));
        assert_eq!((told["type"].as_str(), told["status"].as_str()), (Some("tool"), Some("success")));
        assert_eq!(back, Message::tool(&call, "found"));

        let (told, back) = there_and_back(&Message::user("hi"));
        assert_eq!(told["type"], "human");
        assert_eq!(back, Message::user("hi"));
    }

    #[test]
    fn what_is_no_message_is_left_alone() {
        for value in [
            json!({ "role": "user", "rights": ["read"] }),
            json!({ "type": "tool", "size": 3 }),
            json!({ "role": "owner", "content": "x" }),
        ] {
            let (mut out, mut into) = (value.clone(), value.clone());
            outward(&mut out);
            inward(&mut into);
            assert_eq!((&out, &into), (&value, &value));
        }
    }

    #[test]
    fn what_clients_write_is_read() {
        let mut value = json!({ "messages": [
            { "type": "human", "content": [{ "type": "text", "text": "hi" }, { "type": "image_url", "image_url": { "url": "https://x/1.png" } }] },
            { "role": "user", "content": "again", "id": null },
        ] });
        inward(&mut value);
        let messages: Vec<Message> = serde_json::from_value(value["messages"].take()).expect("messages");
        assert_eq!(messages.len(), 2);
        assert_eq!(messages[1], Message::user("again"));
    }
}
