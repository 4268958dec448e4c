//! Anthropic's messages.

use hier_core::agent::{ChatRequest, Content, Part};
use serde_json::{Value, json};

use super::{Framing, Wire, finish, list, no_error, set, text};
use crate::conversation::{Call, Conversation, Image, Said, Turn};
use crate::draft::{CallPiece, Draft};
use crate::error::Failure;

pub(super) struct Anthropic;

/// The longest answers of models, by what their names begin with. The provider wants a limit with each request.
const LONGEST: [(&str, u32); 4] =
    [("claude-3-7", 64_000), ("claude-3-5", 8_192), ("claude-3-", 4_096), ("claude-opus-4-1", 32_000)];
/// The longest answer of all others.
const LONGEST_OTHERWISE: u32 = 32_000;
/// What the conversation begins with where a user says nothing first, which the provider wants.
const BEGINNING: &str = "Begin.";

impl Wire for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn url(&self) -> &'static str {
        "https://api.anthropic.com/v1"
    }

    fn key_variable(&self) -> Option<&'static str> {
        Some("ANTHROPIC_API_KEY")
    }

    fn endpoint(&self) -> &'static str {
        "messages"
    }

    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        let version = ("anthropic-version", "2023-06-01".to_owned());
        key.map(|key| ("x-api-key", key.to_owned())).into_iter().chain([version]).collect()
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn unfit(&self, _request: &ChatRequest) -> Option<String> {
        None
    }

    fn body(&self, model: &str, request: &ChatRequest, streamed: bool) -> Value {
        let conversation = Conversation::new(request);
        let longest = LONGEST.iter().find(|(prefix, _)| model.starts_with(prefix)).map(|(_, longest)| *longest);
        let max_tokens = request.options.max_tokens.or(longest).unwrap_or(LONGEST_OTHERWISE);
        let mut body = json!({ "model": model, "max_tokens": max_tokens, "messages": messages(&conversation) });
        body["stream"] = json!(streamed);
        let system = conversation.system.join("\n\n");
        set(&mut body, "system", Some(system).filter(|text| !text.is_empty()));
        if !request.tools.is_empty() {
            let tool = |tool: &hier_core::agent::ToolSpec| {
                let mut told = json!({ "name": tool.name, "input_schema": tool.parameters });
                set(&mut told, "description", Some(&*tool.description).filter(|text| !text.is_empty()));
                told
            };
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        if let Some(output) = &request.output {
            body["output_config"] = json!({ "format": { "type": "json_schema", "schema": closed(&output.schema) } });
        }
        set(&mut body, "temperature", request.options.temperature);
        body
    }

    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure> {
        no_error(answer)?;
        head(draft, answer);
        for block in list(answer, "content") {
            match text(block, "type") {
                "text" => draft.say(text(block, "text")),
                "tool_use" => {
                    let args = block.get("input").cloned().unwrap_or_default();
                    draft.call(None, text(block, "id"), text(block, "name"), args);
                }
                _ => {}
            }
        }
        draft.finish = finish(answer.get("stop_reason"));
        Ok(())
    }

    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure> {
        no_error(piece)?;
        let index = piece.get("index").and_then(Value::as_u64);
        match text(piece, "type") {
            "message_start" => head(draft, piece.get("message").unwrap_or(&Value::Null)),
            "content_block_start" => begin_block(draft, index, piece.get("content_block").unwrap_or(&Value::Null)),
            "content_block_delta" => {
                let delta = piece.get("delta").unwrap_or(&Value::Null);
                draft.say(text(delta, "text"));
                let args = text(delta, "partial_json");
                // Other blocks than calls have arguments, too: those of tools that the server calls itself.
                if !args.is_empty() && index.is_some_and(|index| draft.has_call(index)) {
                    draft.piece(&CallPiece { index, args, ..CallPiece::default() });
                }
            }
            "message_delta" => {
                let reason = piece.get("delta").and_then(|delta| delta.get("stop_reason"));
                draft.finish = finish(reason).or(draft.finish.take());
                count(draft, piece);
            }
            "message_stop" => draft.ended = true,
            _ => {}
        }
        Ok(())
    }
}

fn begin_block(draft: &mut Draft, index: Option<u64>, block: &Value) {
    match text(block, "type") {
        "text" => draft.say(text(block, "text")),
        "tool_use" => {
            let input = block.get("input").filter(|input| input.as_object().is_some_and(|fields| !fields.is_empty()));
            let args = input.cloned().unwrap_or_else(|| Value::String(String::new()));
            draft.call(index, text(block, "id"), text(block, "name"), args);
        }
        _ => {}
    }
}

fn head(draft: &mut Draft, message: &Value) {
    let model = text(message, "model");
    if !model.is_empty() {
        draft.model = Some(model.to_owned());
    }
    count(draft, message);
}

/// Counts tokens: what was read from and written to the provider's cache is part of the prompt.
fn count(draft: &mut Draft, message: &Value) {
    let Some(usage) = message.get("usage") else { return };
    let tokens = |field: &str| usage.get(field).and_then(Value::as_u64);
    let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"].map(|field| tokens(field).unwrap_or(0));
    let input = tokens("input_tokens").map(|input| cached.iter().fold(input, |sum, more| sum.saturating_add(*more)));
    draft.count(input.filter(|input| *input > 0), tokens("output_tokens"));
}

/// The schema with closed objects, which the provider wants.
fn closed(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let mut fields: serde_json::Map<String, Value> =
                fields.iter().map(|(name, value)| (name.clone(), closed(value))).collect();
            if fields.get("type").and_then(Value::as_str) == Some("object") {
                fields.insert("additionalProperties".to_owned(), Value::Bool(false));
            }
            Value::Object(fields)
        }
        Value::Array(items) => items.iter().map(closed).collect(),
        other => other.clone(),
    }
}

fn messages(conversation: &Conversation<'_>) -> Vec<Value> {
    let mut messages = Vec::new();
    for turn in &conversation.turns {
        match turn {
            Turn::User(content) => push(&mut messages, "user", &blocks(content)),
            Turn::Model(said) => {
                push(&mut messages, "assistant", &said_blocks(said));
                push(&mut messages, "user", &said.calls.iter().map(result).collect::<Vec<_>>());
            }
        }
    }
    if messages.first().is_none_or(|first| text(first, "role") != "user") {
        messages.insert(0, json!({ "role": "user", "content": BEGINNING }));
    }
    messages
}

/// Adds a message, unless it says nothing, which the provider refuses.
fn push(messages: &mut Vec<Value>, role: &str, blocks: &[Value]) {
    if !blocks.is_empty() {
        messages.push(json!({ "role": role, "content": blocks }));
    }
}

fn said_blocks(said: &Said<'_>) -> Vec<Value> {
    let words = said.text.as_ref().map(|text| json!({ "type": "text", "text": text }));
    let call = |call: &Call<'_>| json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.args });
    words.into_iter().chain(said.calls.iter().map(call)).collect()
}

fn result(call: &Call<'_>) -> Value {
    let mut result = json!({ "type": "tool_result", "tool_use_id": call.id, "content": blocks(&call.result) });
    if call.failed {
        result["is_error"] = json!(true);
    }
    result
}

/// What is said, without blank texts, which the provider refuses.
fn blocks(content: &Content) -> Vec<Value> {
    let words = |text: &str| (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }));
    match content {
        Content::Text(text) => words(text).into_iter().collect(),
        Content::Parts(parts) => {
            let block = |part: &Part| match part {
                Part::Text { text } => words(text),
                Part::Image { url } => Some(json!({ "type": "image", "source": image(&Image::new(url)) })),
                _ => None,
            };
            parts.iter().filter_map(block).collect()
        }
    }
}

fn image(image: &Image<'_>) -> Value {
    match image {
        Image::Data { media_type, base64 } => json!({ "type": "base64", "media_type": media_type, "data": base64 }),
        Image::Address(url) => json!({ "type": "url", "url": url }),
    }
}
