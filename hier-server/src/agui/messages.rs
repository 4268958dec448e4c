//! Messages in the forms of AG-UI and of LangChain, which the rest of the server speaks.

use serde_json::{Map, Value, json};

use crate::wire::message;

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
    if let Some(name) = text("name") {
        message["name"] = name.into();
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

fn part(told: &Value) -> Result<Value, String> {
    let kind = told.get("type").and_then(Value::as_str).unwrap_or_default();
    if kind == "text" {
        return Ok(json!({ "type": "text", "text": told.get("text") }));
    }
    let source = |name: &str| told.pointer(&format!("/source/{name}")).and_then(Value::as_str);
    match (kind, source("type"), source("value")) {
        ("image", Some("url"), Some(url)) => Ok(json!({ "type": "image_url", "image_url": { "url": url } })),
        ("image", Some("data"), Some(data)) => {
            let url = format!("data:{};base64,{data}", source("mimeType").unwrap_or("image/png"));
            Ok(json!({ "type": "image_url", "image_url": { "url": url } }))
        }
        _ => Err(format!("a part of the type `{kind}` is not taken: texts are, and images by address or as data")),
    }
}

fn call(told: &Value) -> Value {
    let text = |path: &str| told.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let args = serde_json::from_str::<Value>(text("/function/arguments")).unwrap_or_else(|_| json!({}));
    json!({ "type": "tool_call", "id": text("/id"), "name": text("/function/name"), "args": args })
}

/// The messages of a state, which are those of LangChain. One without an id gets one by its place.
pub(super) fn outward(values: &Value, run: &str) -> Option<Vec<Value>> {
    let mut values = values.get("messages")?.clone();
    message::outward(&mut values);
    let list = values.as_array()?.iter().enumerate();
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
    told.insert("content".to_owned(), message::text(message).into());
    if let Some(name) = field("name").filter(|_| role != "tool") {
        told.insert("name".to_owned(), name.into());
    }
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
            json!({ "id": "1", "role": "user", "content": "hello" }),
            json!({
                "id": "2", "role": "assistant", "content": "",
                "toolCalls": [{ "id": "c", "type": "function", "function": { "name": "look", "arguments": "{\"at\":1}" } }],
            }),
            json!({ "id": "3", "role": "tool", "content": "seen", "toolCallId": "c" }),
        ];
        let messages: Vec<Value> =
            told.iter().enumerate().filter_map(|(place, told)| inward(told, place).expect("a message")).collect();
        assert_eq!(outward(&json!({ "messages": messages }), "run").expect("messages"), told);
        let image = json!({ "id": "1", "role": "user", "content": [{ "type": "image", "source": { "type": "data", "value": "AA", "mimeType": "image/gif" } }] });
        let image = inward(&image, 0).expect("a message").expect("one of the conversation");
        assert_eq!(image["content"][0]["image_url"]["url"], "data:image/gif;base64,AA");
        let sound = json!({ "id": "1", "role": "user", "content": [{ "type": "audio" }] });
        assert!(inward(&sound, 3).unwrap_err().starts_with("`messages[3].content`"));
        assert_eq!(inward(&json!({ "id": "1", "role": "reasoning", "content": "" }), 0), Ok(None));
    }
}
