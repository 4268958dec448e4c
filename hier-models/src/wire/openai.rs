//! OpenAI's chat completions, which llama.cpp, vLLM, LM Studio and many providers speak, too.

use hier_core::agent::{ChatRequest, Content, OutputSpec, Part};
use serde_json::{Value, json};

use super::{Framing, Wire, finish, list, no_error, set, text};
use crate::conversation::{Conversation, Said, Turn, images};
use crate::draft::{CallPiece, Draft};
use crate::error::Failure;

pub(super) struct OpenAi;

impl Wire for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn url(&self) -> &'static str {
        "https://api.openai.com/v1"
    }

    fn key_variable(&self) -> Option<&'static str> {
        Some("OPENAI_API_KEY")
    }

    fn endpoint(&self) -> &'static str {
        "chat/completions"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn unfit(&self, _request: &ChatRequest) -> Option<String> {
        None
    }

    fn body(&self, model: &str, request: &ChatRequest, streamed: bool) -> Value {
        let mut body = json!({ "model": model, "messages": messages(request), "stream": streamed });
        if streamed {
            body["stream_options"] = json!({ "include_usage": true });
        }
        if !request.tools.is_empty() {
            let tool = |tool: &hier_core::agent::ToolSpec| {
                let mut function = json!({ "name": tool.name, "parameters": tool.parameters });
                set(&mut function, "description", Some(&*tool.description).filter(|text| !text.is_empty()));
                json!({ "type": "function", "function": function })
            };
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        set(&mut body, "response_format", request.output.as_ref().map(response_format));
        set(&mut body, "temperature", request.options.temperature);
        set(&mut body, limit_field(model), request.options.max_tokens);
        body
    }

    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure> {
        no_error(answer)?;
        common(draft, answer);
        let choice = list(answer, "choices").first().ok_or_else(|| Failure::bad_answer("it has no choice"))?;
        let message = choice.get("message").unwrap_or(&Value::Null);
        say(draft, message);
        for call in list(message, "tool_calls") {
            let function = call.get("function").unwrap_or(&Value::Null);
            let args = function.get("arguments").cloned().unwrap_or_default();
            draft.call(None, text(call, "id"), text(function, "name"), args);
        }
        draft.finish = finish(choice.get("finish_reason"));
        Ok(())
    }

    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure> {
        if piece.is_null() {
            draft.ended = true;
            return Ok(());
        }
        no_error(piece)?;
        common(draft, piece);
        // The last piece, which counts tokens, has no choice.
        let Some(choice) = list(piece, "choices").first() else { return Ok(()) };
        let delta = choice.get("delta").unwrap_or(&Value::Null);
        say(draft, delta);
        for call in list(delta, "tool_calls") {
            let function = call.get("function").unwrap_or(&Value::Null);
            let whole = function.get("arguments").filter(|args| args.is_object()).map(Value::to_string);
            draft.piece(&CallPiece {
                index: call.get("index").and_then(Value::as_u64),
                id: text(call, "id"),
                name: text(function, "name"),
                args: whole.as_deref().unwrap_or_else(|| text(function, "arguments")),
            });
        }
        draft.finish = finish(choice.get("finish_reason")).or(draft.finish.take());
        Ok(())
    }
}

/// Reads what whole answers and pieces have in common.
fn common(draft: &mut Draft, answer: &Value) {
    let model = text(answer, "model");
    if !model.is_empty() {
        draft.model = Some(model.to_owned());
    }
    if let Some(usage) = answer.get("usage") {
        let tokens = |field: &str| usage.get(field).and_then(Value::as_u64);
        draft.count(tokens("prompt_tokens"), tokens("completion_tokens"));
    }
}

/// Reads what is said: text, a list of parts, or why the model will not say it.
fn say(draft: &mut Draft, message: &Value) {
    draft.say(text(message, "content"));
    for part in list(message, "content") {
        draft.say(text(part, "text"));
    }
    draft.say(text(message, "refusal"));
}

/// Models that reason count what they think, too, and refuse the older name.
fn limit_field(model: &str) -> &'static str {
    let newer = ["gpt-5", "gpt-6", "o1", "o3", "o4"];
    if newer.iter().any(|prefix| model.starts_with(prefix)) { "max_completion_tokens" } else { "max_tokens" }
}

fn response_format(output: &OutputSpec) -> Value {
    let strict = is_strict(&output.schema);
    json!({
        "type": "json_schema",
        "json_schema": { "name": output.name, "schema": output.schema, "strict": strict },
    })
}

/// Whether the provider can hold the model to the schema: it can if objects are closed and no field is optional.
fn is_strict(schema: &Value) -> bool {
    let closed = match schema.get("properties").and_then(Value::as_object) {
        None => schema.get("type").and_then(Value::as_str) != Some("object"),
        Some(properties) => {
            let required = list(schema, "required");
            schema.get("additionalProperties") == Some(&Value::Bool(false))
                && properties.keys().all(|name| required.iter().any(|field| field.as_str() == Some(name)))
        }
    };
    closed
        && match schema {
            Value::Object(fields) => fields.values().all(is_strict),
            Value::Array(items) => items.iter().all(is_strict),
            _ => true,
        }
}

fn messages(request: &ChatRequest) -> Vec<Value> {
    let conversation = Conversation::new(request);
    let system = conversation.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let mut messages: Vec<Value> = system.collect();
    for turn in &conversation.turns {
        match turn {
            Turn::User(content) => messages.push(json!({ "role": "user", "content": user(content) })),
            Turn::Model(said) => model(&mut messages, said),
        }
    }
    messages
}

fn user(content: &Content) -> Value {
    match content {
        Content::Text(text) => json!(text),
        Content::Parts(parts) => parts.iter().filter_map(part).collect(),
    }
}

fn part(part: &Part) -> Option<Value> {
    match part {
        Part::Text { text } => Some(json!({ "type": "text", "text": text })),
        Part::Image { url } => Some(json!({ "type": "image_url", "image_url": { "url": url } })),
        _ => None,
    }
}

/// What the model said, then the results of its calls, and the images among them, which results cannot have here.
fn model(messages: &mut Vec<Value>, said: &Said<'_>) {
    let mut message = json!({ "role": "assistant", "content": said.text });
    if !said.calls.is_empty() {
        let call = |call: &crate::conversation::Call<'_>| {
            let function = json!({ "name": call.name, "arguments": call.args.to_string() });
            json!({ "id": call.id, "type": "function", "function": function })
        };
        message["tool_calls"] = said.calls.iter().map(call).collect();
    }
    messages.push(message);
    for call in &said.calls {
        messages.push(json!({ "role": "tool", "tool_call_id": call.id, "content": call.result.text() }));
    }
    let seen: Vec<Value> = said.calls.iter().flat_map(|call| shown(&call.result)).collect();
    if !seen.is_empty() {
        messages.push(json!({ "role": "user", "content": seen }));
    }
}

fn shown(result: &Content) -> Vec<Value> {
    if images(result).next().is_none() {
        return Vec::new();
    }
    let Content::Parts(parts) = result else { return Vec::new() };
    parts.iter().filter(|part| matches!(part, Part::Image { .. })).filter_map(part).collect()
}
