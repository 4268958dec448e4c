//! Providers that refuse a second turn without the model's thoughts of the first: their first answers, complete and
//! streamed, and their checks.

use hier_models::Model;
use serde_json::{Value, json};

/// A provider with its signature, and the secret of its thoughts.
pub(crate) const SIGNED: &str = "c2ln";

#[derive(Clone)]
pub(crate) struct Provider {
    pub(crate) name: &'static str,
    /// Creates the model at this URL.
    pub(crate) model: fn(&str) -> Model,
    /// The first answer: a thought, and a call of `look`.
    pub(crate) first: Value,
    /// The first answer as a stream.
    pub(crate) events: String,
    /// Gives the second answer, `done`, to a valid request.
    pub(crate) judge: fn(&Value) -> Result<Value, String>,
}

pub(crate) fn all() -> [Provider; 5] {
    [gemini(), anthropic(), responses(), compatible(), deepseek()]
}

fn events(values: &[Value]) -> String {
    let event = |value: &Value| match value["type"].as_str() {
        Some(kind) => format!("event: {kind}\ndata: {value}\n\n"),
        None => format!("data: {value}\n\n"),
    };
    values.iter().map(event).collect()
}

/// Returns the first item that matches.
fn find(list: &Value, fits: impl Fn(&Value) -> bool) -> Option<&Value> {
    list.as_array()?.iter().find(|item| fits(item))
}

fn wanted(is_there: bool, what: &str) -> Result<(), String> {
    if is_there { Ok(()) } else { Err(format!("{what} is missing")) }
}

fn gemini() -> Provider {
    let answer = |parts: Value| json!({ "candidates": [{ "content": { "role": "model", "parts": parts }, "finishReason": "STOP" }] });
    let call = json!({ "functionCall": { "id": "1", "name": "look", "args": {} }, "thoughtSignature": SIGNED });
    let thought = json!({ "text": "hm", "thought": true });
    let mut piece = answer(json!([thought]));
    piece["candidates"][0]["finishReason"] = Value::Null;
    Provider {
        name: "gemini",
        model: |url| Model::gemini("gemini-3-pro").url(url).key("k"),
        first: answer(json!([thought, call])),
        events: events(&[piece, answer(json!([call]))]),
        judge: |body| {
            let call = find(&body["contents"], |content| content["parts"][0].get("functionCall").is_some());
            let part = call.map(|content| &content["parts"][0]);
            wanted(part.is_some_and(|part| part["thoughtSignature"] == SIGNED), "a thought_signature")?;
            let result = find(&body["contents"], |content| content["parts"][0].get("functionResponse").is_some());
            wanted(result.is_some_and(|it| it["parts"][0]["functionResponse"]["id"] == "1"), "the result")?;
            Ok(json!({ "candidates": [{ "content": { "parts": [{ "text": "done" }] }, "finishReason": "STOP" }] }))
        },
    }
}

fn anthropic() -> Provider {
    let thinking = json!({ "type": "thinking", "thinking": "hm", "signature": SIGNED });
    let redacted = json!({ "type": "redacted_thinking", "data": SIGNED });
    let call = json!({ "type": "tool_use", "id": "1", "name": "look", "input": {} });
    let block =
        |index: u8, block: &Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta = |index: u8, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let events = events(&[
        json!({ "type": "message_start", "message": { "model": "m" } }),
        block(0, &json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "h" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "m" })),
        delta(0, json!({ "type": "signature_delta", "signature": SIGNED })),
        block(1, &redacted),
        block(2, &call),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
        json!({ "type": "message_stop" }),
    ]);
    Provider {
        name: "anthropic",
        model: |url| Model::anthropic("claude-sonnet-4-5").url(url).key("k"),
        first: json!({ "content": [thinking, redacted, call], "stop_reason": "tool_use" }),
        events,
        judge: |body| {
            wanted(body["thinking"]["type"] == "enabled", "`thinking`")?;
            let message = find(&body["messages"], |message| message["role"] == "assistant");
            let blocks = message.map(|message| message["content"].clone()).unwrap_or_default();
            let expected = json!([
                { "type": "thinking", "thinking": "hm", "signature": SIGNED },
                { "type": "redacted_thinking", "data": SIGNED },
                { "type": "tool_use", "id": "1", "name": "look", "input": {} },
            ]);
            wanted(blocks == expected, "a block of thinking, as it was")?;
            Ok(json!({ "content": [{ "type": "text", "text": "done" }], "stop_reason": "end_turn" }))
        },
    }
}

fn responses() -> Provider {
    let summary = json!([{ "type": "summary_text", "text": "hm" }]);
    let thought = json!({ "type": "reasoning", "id": "rs_1", "summary": summary, "encrypted_content": SIGNED });
    let call = json!({ "type": "function_call", "id": "fc_1", "call_id": "1", "name": "look", "arguments": "{}" });
    let first = json!({ "status": "completed", "output": [thought, call] });
    let events = events(&[
        json!({ "type": "response.reasoning_summary_text.delta", "output_index": 0, "delta": "hm" }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": thought }),
        json!({ "type": "response.output_item.added", "output_index": 1, "item": call }),
        json!({ "type": "response.output_item.done", "output_index": 1, "item": call }),
        json!({ "type": "response.completed", "response": first }),
    ]);
    Provider {
        name: "responses",
        model: |url| Model::responses("gpt-5").url(url).key("k"),
        first,
        events,
        judge: |body| {
            wanted(body["store"] == false && body["include"] == json!(["reasoning.encrypted_content"]), "`include`")?;
            let items = body["input"].as_array().cloned().unwrap_or_default();
            let place =
                items.iter().position(|item| item["type"] == "reasoning").ok_or("the item `rs_1` is missing")?;
            wanted(items[place]["encrypted_content"] == SIGNED && items[place]["id"] == "rs_1", "its secret")?;
            wanted(items[place + 1]["type"] == "function_call", "the item that follows it")?;
            wanted(items[place + 2]["type"] == "function_call_output", "the result")?;
            let message = json!({ "type": "message", "content": [{ "type": "output_text", "text": "done" }] });
            Ok(json!({ "status": "completed", "output": [message] }))
        },
    }
}

fn chat(message: &Value, finish: &str) -> Value {
    json!({ "choices": [{ "message": message, "finish_reason": finish }] })
}

fn chat_pieces(deltas: &[Value]) -> String {
    let piece = |delta: &Value| json!({ "choices": [{ "delta": delta }] });
    let end = json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] });
    let all: Vec<Value> = deltas.iter().map(piece).chain([end]).collect();
    events(&all) + "data: [DONE]\n\n"
}

/// Gemini's OpenAI-compatible API.
fn compatible() -> Provider {
    let mut call = json!({ "id": "1", "type": "function", "function": { "name": "look", "arguments": "{}" } });
    call["extra_content"] = json!({ "google": { "thought_signature": SIGNED } });
    let mut piece = call.clone();
    piece["index"] = json!(0);
    Provider {
        name: "compatible",
        model: |url| Model::at(url, "gemini-3-pro"),
        first: chat(&json!({ "content": null, "tool_calls": [call] }), "tool_calls"),
        events: chat_pieces(&[json!({ "tool_calls": [piece] })]),
        judge: |body| {
            let message = find(&body["messages"], |message| message["role"] == "assistant");
            let call = message.map(|message| &message["tool_calls"][0]);
            let signature = call.and_then(|call| call.pointer("/extra_content/google/thought_signature"));
            wanted(signature.is_some_and(|signature| signature == SIGNED), "a thought_signature")?;
            Ok(chat(&json!({ "content": "done" }), "stop"))
        },
    }
}

/// A server that requires the text of thoughts.
fn deepseek() -> Provider {
    let call = json!({ "index": 0, "id": "1", "type": "function", "function": { "name": "look", "arguments": "{}" } });
    Provider {
        name: "deepseek",
        model: |url| Model::at(url, "deepseek-chat"),
        first: chat(&json!({ "content": "", "reasoning_content": "hm", "tool_calls": [call] }), "tool_calls"),
        events: chat_pieces(&[
            json!({ "reasoning_content": "h" }),
            json!({ "reasoning_content": "m" }),
            json!({ "tool_calls": [call] }),
        ]),
        judge: |body| {
            let message = find(&body["messages"], |message| message["role"] == "assistant");
            wanted(message.is_some_and(|message| message["reasoning_content"] == "hm"), "`reasoning_content`")?;
            Ok(chat(&json!({ "content": "done" }), "stop"))
        },
    }
}
