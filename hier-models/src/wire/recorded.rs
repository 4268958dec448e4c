//! One answer in the formats of all providers, streamed and complete. It has thoughts, multi-byte text and two calls.

use serde_json::{Value, json};

use super::{ANTHROPIC, Dialect, GEMINI, OLLAMA, OPENAI, RESPONSES};

#[derive(Clone)]
pub(crate) struct RecordedAnswer {
    pub(crate) wire: &'static dyn Dialect,
    pub(crate) stream: String,
    pub(crate) whole: Value,
    /// The expected thoughts: text, call, data.
    pub(crate) thoughts: Vec<(&'static str, Option<&'static str>, Value)>,
}

pub(crate) fn recorded_answers() -> [RecordedAnswer; 5] {
    [openai(), anthropic(), ollama(), gemini(), responses()]
}

/// Formats server-sent events, with the event names of Anthropic and of OpenAI's responses API.
pub(crate) fn events(values: &[Value]) -> String {
    let event = |value: &Value| {
        let kind =
            value.get("type").and_then(Value::as_str).map_or_else(String::new, |kind| format!("event: {kind}\n"));
        format!("{kind}data: {value}\n\n")
    };
    values.iter().map(event).collect()
}

pub(crate) fn openai_delta(delta: &Value, finish: Option<&str>) -> Value {
    json!({ "model": "m", "choices": [{ "index": 0, "delta": delta, "finish_reason": finish }] })
}

fn openai() -> RecordedAnswer {
    let function = |name: &str, args: &str| json!({ "name": name, "arguments": args });
    let call = |index: u8, id: &str, name: &str, args: &str| json!({ "index": index, "id": id, "function": function(name, args) });
    let extra = json!({ "google": { "thought_signature": "c2ln" } });
    let mut first = call(0, "a", "pay", "{\"e\"");
    first["extra_content"] = extra.clone();
    let usage = json!({
        "prompt_tokens": 7, "completion_tokens": 5, "prompt_tokens_details": { "cached_tokens": 3 },
        "completion_tokens_details": { "reasoning_tokens": 2 },
    });
    let stream = events(&[
        openai_delta(&json!({ "role": "assistant", "reasoning_content": "hm, " }), None),
        openai_delta(&json!({ "reasoning_content": "hm" }), None),
        openai_delta(&json!({ "role": "assistant", "content": "grüß" }), None),
        openai_delta(&json!({ "content": "€🎉" }), None),
        openai_delta(&json!({ "tool_calls": [first] }), None),
        openai_delta(&json!({ "tool_calls": [{ "index": 0, "function": { "arguments": ":1}" } }] }), None),
        openai_delta(&json!({ "tool_calls": [call(1, "b", "look", "")] }), None),
        openai_delta(&json!({}), Some("tool_calls")),
        json!({ "model": "m", "choices": [], "usage": usage }),
    ]) + "data: [DONE]\n\n";
    let mut made = json!([
        { "id": "a", "function": function("pay", "{\"e\":1}") }, { "id": "b", "function": function("look", "") },
    ]);
    made[0]["extra_content"] = extra.clone();
    let message = json!({ "content": "grüß€🎉", "reasoning_content": "hm, hm", "tool_calls": made });
    let whole =
        json!({ "model": "m", "choices": [{ "message": message, "finish_reason": "tool_calls" }], "usage": usage });
    let thoughts = vec![
        ("hm, hm", None, json!({ "field": "reasoning_content" })),
        ("", Some("a"), json!({ "extra_content": extra })),
    ];
    RecordedAnswer { wire: OPENAI, stream, whole, thoughts }
}

fn anthropic() -> RecordedAnswer {
    let usage = json!({ "input_tokens": 3, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 1, "output_tokens": 1 });
    let block =
        |index: u8, block: Value| json!({ "type": "content_block_start", "index": index, "content_block": block });
    let delta = |index: u8, delta: Value| json!({ "type": "content_block_delta", "index": index, "delta": delta });
    let stream = events(&[
        json!({ "type": "message_start", "message": { "model": "m", "usage": usage } }),
        block(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "hm, " })),
        delta(0, json!({ "type": "thinking_delta", "thinking": "hm" })),
        delta(0, json!({ "type": "signature_delta", "signature": "c2ln" })),
        json!({ "type": "content_block_stop", "index": 0 }),
        block(1, json!({ "type": "text", "text": "" })),
        delta(1, json!({ "type": "text_delta", "text": "grüß" })),
        json!({ "type": "ping" }),
        delta(1, json!({ "type": "text_delta", "text": "€🎉" })),
        json!({ "type": "content_block_stop", "index": 1 }),
        block(2, json!({ "type": "redacted_thinking", "data": "c2VjcmV0" })),
        block(3, json!({ "type": "tool_use", "id": "a", "name": "pay", "input": {} })),
        delta(3, json!({ "type": "input_json_delta", "partial_json": "{\"e\"" })),
        delta(3, json!({ "type": "input_json_delta", "partial_json": ":1}" })),
        block(4, json!({ "type": "tool_use", "id": "b", "name": "look", "input": {} })),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 5 } }),
        json!({ "type": "message_stop" }),
    ]);
    let content = json!([
        { "type": "thinking", "thinking": "hm, hm", "signature": "c2ln" },
        { "type": "text", "text": "grüß€🎉" },
        { "type": "redacted_thinking", "data": "c2VjcmV0" },
        { "type": "tool_use", "id": "a", "name": "pay", "input": { "e": 1 } },
        { "type": "tool_use", "id": "b", "name": "look", "input": {} },
    ]);
    let mut whole_usage = usage;
    whole_usage["output_tokens"] = json!(5);
    let whole = json!({ "model": "m", "content": content, "stop_reason": "tool_use", "usage": whole_usage });
    let thoughts =
        vec![("hm, hm", None, json!({ "signature": "c2ln" })), ("", Some("a"), json!({ "redacted": "c2VjcmV0" }))];
    RecordedAnswer { wire: ANTHROPIC, stream, whole, thoughts }
}

fn ollama() -> RecordedAnswer {
    let line = |message: Value| format!("{}\n", json!({ "model": "m", "message": message, "done": false }));
    let made = json!([
        { "id": "a", "function": { "name": "pay", "arguments": { "e": 1 } } },
        { "id": "b", "function": { "name": "look", "arguments": {} } },
    ]);
    let end = json!({ "model": "m", "message": {}, "done": true, "done_reason": "tool_calls", "prompt_eval_count": 7, "eval_count": 5 });
    let stream = line(json!({ "content": "", "thinking": "hm, " }))
        + &line(json!({ "content": "", "thinking": "hm" }))
        + &line(json!({ "content": "grüß" }))
        + &line(json!({ "content": "€🎉" }))
        + &line(json!({ "content": "", "tool_calls": made }))
        + &format!("{end}\n");
    let mut whole = end;
    whole["message"] = json!({ "content": "grüß€🎉", "thinking": "hm, hm", "tool_calls": made });
    RecordedAnswer { wire: OLLAMA, stream, whole, thoughts: vec![("hm, hm", None, json!({ "field": "thinking" }))] }
}

fn gemini() -> RecordedAnswer {
    let parts = |parts: Value| json!({ "candidates": [{ "content": { "parts": parts, "role": "model" }, "index": 0 }], "modelVersion": "m" });
    let usage = json!({
        "promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 2, "cachedContentTokenCount": 3,
    });
    let pay = json!({ "functionCall": { "id": "a", "name": "pay", "args": { "e": 1 } }, "thoughtSignature": "c2ln" });
    let look = json!({ "functionCall": { "id": "b", "name": "look", "args": {} } });
    let mut end = parts(json!([{ "text": "", "thoughtSignature": "bWVz" }]));
    end["candidates"][0]["finishReason"] = json!("STOP");
    end["usageMetadata"] = usage.clone();
    let stream = events(&[
        parts(json!([{ "text": "hm, ", "thought": true }])),
        parts(json!([{ "text": "hm", "thought": true }])),
        parts(json!([{ "text": "grüß" }])),
        parts(json!([{ "text": "€🎉" }])),
        parts(json!([pay])),
        parts(json!([look])),
        end,
    ]);
    let mut whole = parts(json!([
        { "text": "hm, hm", "thought": true }, { "text": "grüß€🎉" }, pay, look, { "text": "", "thoughtSignature": "bWVz" },
    ]));
    whole["candidates"][0]["finishReason"] = json!("STOP");
    whole["usageMetadata"] = usage;
    let thoughts = vec![
        ("hm, hm", None, json!({ "thoughtSignature": "bWVz" })),
        ("", Some("a"), json!({ "thoughtSignature": "c2ln" })),
    ];
    RecordedAnswer { wire: GEMINI, stream, whole, thoughts }
}

fn responses() -> RecordedAnswer {
    let part = |text: &str| json!({ "type": "summary_text", "text": text });
    let kept = json!({ "id": "rs_1", "summary": [part("hm, "), part("hm")], "encrypted_content": "c2VjcmV0" });
    let mut reasoning = kept.clone();
    reasoning["type"] = json!("reasoning");
    let call = |id: &str, name: &str, args: &str| json!({ "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name, "arguments": args });
    let message =
        json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "grüß€🎉" }] });
    let whole = json!({
        "model": "m", "status": "completed", "error": null, "incomplete_details": null,
        "output": [message, reasoning, call("a", "pay", "{\"e\":1}"), call("b", "look", "{}")],
        "usage": {
            "input_tokens": 7, "input_tokens_details": { "cached_tokens": 3 }, "output_tokens": 5,
            "output_tokens_details": { "reasoning_tokens": 2 },
        },
    });
    let at = |kind: &str, index: u8, more: Value| {
        let mut event = json!({ "type": format!("response.{kind}"), "output_index": index });
        event.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        event
    };
    let stream = events(&[
        json!({ "type": "response.created", "response": { "model": "m", "status": "in_progress", "output": [] } }),
        at("output_item.added", 0, json!({ "item": { "type": "message", "content": [] } })),
        at("output_text.delta", 0, json!({ "delta": "grüß" })),
        at("output_text.delta", 0, json!({ "delta": "€🎉" })),
        at("output_text.done", 0, json!({ "text": "grüß€🎉" })),
        at("output_item.done", 0, json!({ "item": message })),
        at("output_item.added", 1, json!({ "item": { "type": "reasoning", "summary": [] } })),
        at("reasoning_summary_part.added", 1, json!({ "summary_index": 0 })),
        at("reasoning_summary_text.delta", 1, json!({ "delta": "hm, " })),
        at("reasoning_summary_part.added", 1, json!({ "summary_index": 1 })),
        at("reasoning_summary_text.delta", 1, json!({ "delta": "hm" })),
        at("output_item.done", 1, json!({ "item": reasoning })),
        at("output_item.added", 2, json!({ "item": call("a", "pay", "") })),
        at("function_call_arguments.delta", 2, json!({ "delta": "{\"e\"" })),
        at("function_call_arguments.delta", 2, json!({ "delta": ":1}" })),
        at("output_item.done", 2, json!({ "item": call("a", "pay", "{\"e\":1}") })),
        // Without deltas, the arguments arrive at the end.
        at("output_item.added", 3, json!({ "item": call("b", "look", "") })),
        at("output_item.done", 3, json!({ "item": call("b", "look", "{}") })),
        json!({ "type": "response.completed", "response": whole }),
    ]);
    RecordedAnswer { wire: RESPONSES, stream, whole, thoughts: vec![("hm, \n\nhm", Some("a"), kept)] }
}
