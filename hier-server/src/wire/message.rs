//! Translates messages into the form of LangChain's clients.
//!
//! A message of hier has a `role` (`user`, `assistant`, …), and a message of LangChain has a `type` (`human`, `ai`, …).
//! The messages that clients send need no translation, because hier's types for messages read both forms.

use hier_core::message::Message;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The roles of hier with the types of LangChain.
const SPEAKERS: [(&str, &str); 5] =
    [("system", "system"), ("user", "human"), ("assistant", "ai"), ("tool", "tool"), ("remove", "remove")];

/// Fields that messages have in both forms. Other fields that clients send are stored in `extra`.
const KNOWN: [&str; 6] = ["id", "content", "tool_call_id", "status", "reasoning", "citations"];

/// Rewrites a JSON Schema so that it describes messages in LangChain's form.
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
        // Clients may send a `role` instead of a `type`.
        definition["required"] = json!(["content"]);
    }
}

/// Returns the text of a message in LangChain's form.
pub(crate) fn text(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part.get("text")?.as_str()).collect(),
        _ => String::new(),
    }
}

/// Translates a message of hier into LangChain's form. Does not change other values.
pub(crate) fn outward(value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    let role = object.get("role").and_then(Value::as_str);
    let Some((_, kind)) = role.and_then(|role| SPEAKERS.iter().find(|(ours, _)| *ours == role)) else { return };
    let mut extra = match object.remove("extra") {
        Some(Value::Object(extra)) => extra,
        _ => Map::new(),
    };
    let mut message = Map::new();
    message.insert("content".into(), object.remove("content").unwrap_or_else(|| "".into()));
    message.insert("additional_kwargs".into(), extra.remove("additional_kwargs").unwrap_or_else(|| json!({})));
    message.insert("response_metadata".into(), extra.remove("response_metadata").unwrap_or_else(|| json!({})));
    message.insert("type".into(), (*kind).into());
    let name = object.remove("name").or_else(|| extra.remove("name"));
    message.insert("name".into(), name.unwrap_or_default());
    message.insert("id".into(), object.remove("id").unwrap_or_default());
    match *kind {
        "ai" => {
            let calls = object.remove("calls").unwrap_or_else(|| json!([]));
            message.insert("tool_calls".into(), calls_outward(calls));
            message
                .insert("invalid_tool_calls".into(), extra.remove("invalid_tool_calls").unwrap_or_else(|| json!([])));
            message.insert("usage_metadata".into(), usage_outward(object.remove("usage")));
        }
        "tool" => {
            message.insert("tool_call_id".into(), object.remove("tool_call_id").unwrap_or_default());
            message.insert("artifact".into(), extra.remove("artifact").unwrap_or_default());
            message.insert("status".into(), object.remove("status").unwrap_or_else(|| "success".into()));
        }
        _ => {}
    }
    object.remove("role");
    // These are fields that a provider must receive again, and unknown fields of clients.
    for (name, value) in std::mem::take(object).into_iter().chain(extra) {
        message.entry(name).or_insert(value);
    }
    *object = message;
}

/// Translates a message in a search filter, which may lack fields, into hier's form. Removes fields that are empty in
/// LangChain's form, because hier does not store such fields.
pub(crate) fn filter_inward(value: &mut Value) {
    let Some(object) = value.as_object_mut() else { return };
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    let kind = object.get("type").or_else(|| object.get("role")).and_then(Value::as_str).unwrap_or_default();
    let role = SPEAKERS.iter().find(|(ours, theirs)| *theirs == kind || *ours == kind).map(|(ours, _)| *ours);
    let (mut message, mut extra) = (Map::new(), Map::new());
    for (name, mut value) in std::mem::take(object) {
        if is_empty(&value) {
            continue;
        }
        match name.as_str() {
            "type" | "role" if role.is_some() => {}
            "tool_calls" => {
                for call in value.as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
                    call.remove("type");
                }
                message.insert("calls".into(), value);
            }
            "usage_metadata" => {
                if let Some(usage) = value.as_object_mut() {
                    usage.remove("total_tokens");
                }
                message.insert("usage".into(), value);
            }
            "name" if role.is_none_or(|role| role == "tool") => drop(message.insert(name, value)),
            known if KNOWN.contains(&known) => drop(message.insert(name, value)),
            _ => drop(extra.insert(name, value)),
        }
    }
    if let Some(role) = role {
        message.insert("role".into(), role.into());
    }
    if !extra.is_empty() {
        message.insert("extra".into(), Value::Object(extra));
    }
    *object = message;
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

#[cfg(test)]
mod tests {
    use hier_core::message::{Citation, Message, ToolCall};

    use super::*;

    fn there_and_back(message: &Message) -> (Value, Message) {
        let mut value = serde_json::to_value(message).expect("a message has JSON");
        outward(&mut value);
        let sent = value.clone();
        (sent, serde_json::from_value(value).expect("a message in LangChain's form"))
    }

    #[test]
    fn messages_survive_the_translation() {
        let call = ToolCall { name: "search".into(), args: json!({ "q": "x" }), id: "c1".into() };
        let asked = Message::calls("", [call.clone()]).with_id("m1");
        let (sent, back) = there_and_back(&asked);
        assert_eq!(back, asked);
        assert_eq!(sent["type"], "ai");
        assert_eq!(
            sent["tool_calls"],
            json!([{ "name": "search", "args": { "q": "x" }, "id": "c1", "type": "tool_call" }])
        );
        assert_eq!(sent["usage_metadata"], Value::Null);

        let cited = Message::assistant("Yes.").with_citations([Citation::new(0..4).with_url("https://a.example")]);
        let (sent, back) = there_and_back(&cited);
        assert_eq!(sent["citations"], json!([{ "url": "https://a.example", "start": 0, "end": 4 }]));
        assert_eq!(back, cited);

        let result = Message::tool(&call, "found").with_extra("artifact", json!({ "rows": 3 }));
        let (sent, back) = there_and_back(&result);
        assert_eq!((sent["type"].as_str(), sent["status"].as_str()), (Some("tool"), Some("success")));
        assert_eq!(sent["artifact"], json!({ "rows": 3 }));
        assert_eq!(back, result);

        let named = Message::user("hi").with_extra("name", "bob").with_extra("additional_kwargs", json!({ "x": 1 }));
        let (sent, back) = there_and_back(&named);
        assert_eq!((&sent["type"], &sent["name"]), (&json!("human"), &json!("bob")));
        assert_eq!(sent["additional_kwargs"], json!({ "x": 1 }));
        assert_eq!(back, named);
    }

    #[test]
    fn message_in_langchains_form_is_a_filter_for_itself() {
        let call = ToolCall { name: "search".into(), args: json!({ "q": "x" }), id: "c1".into() };
        for message in [
            Message::user("hi").with_id("m1").with_extra("name", "bob"),
            Message::calls("", [call.clone()]).with_extra("additional_kwargs", json!({ "x": 1 })),
            Message::tool(&call, "found").with_extra("artifact", json!({ "rows": 3 })),
            Message::system("be kind"),
        ] {
            let stored = serde_json::to_value(&message).expect("a message has JSON");
            let mut filter = stored.clone();
            outward(&mut filter);
            filter_inward(&mut filter);
            assert!(hier_core::runs::contains(&stored, &filter), "{stored} does not contain {filter}");
        }
        let mut part = json!({ "type": "human", "name": "bob" });
        filter_inward(&mut part);
        assert_eq!(part, json!({ "role": "user", "extra": { "name": "bob" } }));
    }
}
