//! Anthropic's messages API.

use std::time::SystemTime;

use hier_agents::{Content, ModelOptions, PromptCache, ToolChoice};
use serde_json::{Value, json};

use super::shared::{
    by_name, check_no_error, field, finish_reason, list, refuse_options, set, set_list, set_object, set_text, text,
    tool,
};
use super::tool_search::DeferredTools;
use super::{Dialect, DialectInfo, Framing, WireRequest, blocks, claude, own_tools, schema, shared};
use crate::conversation::{AnsweredCall, BEGINNING, ConversationTurn, WireConversation};
use crate::draft::{AnswerDraft, TokenCounts};
use crate::error::ModelFailure;
use crate::media::{ContentPart, Media, content_parts};

pub(super) struct Anthropic;

/// The maximum answers of models by name prefix, in tokens. Anthropic requires a limit in each request.
const LONGEST: [(&str, u32); 4] =
    [("claude-3-7", 64_000), ("claude-3-5", 8_192), ("claude-3-", 4_096), ("claude-opus-4-1", 32_000)];
/// The maximum answer of all other models, in tokens.
const LONGEST_OTHERWISE: u32 = 32_000;

impl Dialect for Anthropic {
    fn info(&self) -> &DialectInfo {
        &DialectInfo {
            name: "anthropic",
            provider: "anthropic",
            url: "https://api.anthropic.com/v1",
            key_variable: Some("ANTHROPIC_API_KEY"),
            path: "messages",
            framing: Framing::Events,
        }
    }

    fn headers(&self, model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        let key = key.map(|key| ("x-api-key", key.to_owned()));
        let binding = claude::binds_thoughts(model).then(|| (claude::BINDING.0, claude::BINDING.1.to_owned()));
        key.into_iter().chain(binding).chain([("anthropic-version", "2023-06-01".to_owned())]).collect()
    }

    fn accepts_schema(&self, schema: &Value) -> bool {
        schema::ANTHROPIC.fit(schema).is_some()
    }

    /// Models that obey schemas accept the schema in `output_config`, also together with tools.
    fn obeys_schemas(&self, model: &str) -> bool {
        claude::obeys_schemas(model)
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        model.starts_with("claude-").then(|| claude::context_tokens(model))
    }

    fn searches_tools(&self, model: &str) -> Option<bool> {
        Some(claude::searches_tools(model))
    }

    /// Signatures are valid on every host of Anthropic's models.
    fn maker(&self, _model: &str, _url: &str) -> String {
        self.info().name.to_owned()
    }

    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
        let WireRequest { model, request, .. } = *wire_request;
        let options = &request.options;
        refuse_options("Anthropic", &[("seed", options.seed.is_some())])?;
        let conversation = WireConversation::new(request, wire_request.maker);
        let max_tokens = options.max_tokens.unwrap_or_else(|| longest_answer(model));
        let deferred = DeferredTools::of(wire_request);
        let mut messages = messages(&conversation);
        deferred.clean_blocks(&mut messages);
        let mut body = json!({ "model": model, "max_tokens": max_tokens, "messages": messages });
        body["stream"] = json!(wire_request.streamed);
        let native = request.output.as_ref().filter(|_| wire_request.native_output != Some(false));
        let schema = native.and_then(|output| schema::ANTHROPIC.fit(&output.schema));
        let wanted = request.output.as_ref().filter(|_| schema.is_none()).map(shared::schema_instruction);
        let system = conversation.system.iter().cloned().chain(wanted).collect::<Vec<_>>().join("\n\n");
        set_text(&mut body, "system", &system);
        let mut tools: Vec<Value> =
            request.tools.iter().map(|spec| deferred.mark(spec, tool(spec, "input_schema"))).collect();
        // Anthropic's own tools come last, because the cache mark is put on the last tool and may not be on a deferred
        // tool.
        tools.extend(own_tools::anthropic(wire_request)?);
        if !tools.is_empty() {
            body["tools"] = tools.into();
            set(&mut body, "tool_choice", tool_choice(options));
        }
        let thinking = claude::thinking(model, options, &conversation, max_tokens)?;
        if !thinking.is_on() && claude::takes_sampling(model) {
            // A model that thinks refuses both options.
            set(&mut body, "temperature", options.temperature);
            set(&mut body, "top_p", options.top_p);
        }
        set(&mut body, "thinking", thinking.field);
        set_object(&mut body, "output_config", output_config(schema, thinking.effort));
        set_list(&mut body, "stop_sequences", &options.stop);
        if wire_request.tools.code_execution {
            set(&mut body, "container", own_tools::container(&conversation, SystemTime::now()));
        }
        if let Some(cache) = options.cache {
            mark_cached(&mut body, cache);
        }
        Ok(body)
    }

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
        check_no_error(answer)?;
        read_head(draft, answer);
        for (number, block) in (0..).zip(list(answer, "content")) {
            blocks::read_whole(draft, number, block);
        }
        draft.finish = finish_reason(answer.get("stop_reason"));
        Ok(())
    }

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
        check_no_error(event)?;
        let index = event.get("index").and_then(Value::as_u64);
        match text(event, "type") {
            "message_start" => read_head(draft, field(event, "message")),
            "content_block_start" => blocks::read_start(draft, index, field(event, "content_block")),
            "content_block_delta" => blocks::read_delta(draft, index, field(event, "delta")),
            "content_block_stop" => blocks::read_end(draft, index),
            "message_delta" => {
                let reason = event.get("delta").and_then(|delta| delta.get("stop_reason"));
                draft.finish = finish_reason(reason).or(draft.finish.take());
                own_tools::keep_container(draft, field(event, "delta"));
                count(draft, event);
            }
            "message_stop" => draft.ended = true,
            _ => {}
        }
        Ok(())
    }
}

/// Returns the maximum answer of a model, in tokens.
pub(super) fn longest_answer(model: &str) -> u32 {
    by_name(&LONGEST, model).unwrap_or(LONGEST_OTHERWISE)
}

fn read_head(draft: &mut AnswerDraft, message: &Value) {
    draft.set_model(text(message, "model"));
    own_tools::keep_container(draft, message);
    count(draft, message);
}

/// Counts tokens. Tokens that were read from the cache or written to it are part of the prompt.
fn count(draft: &mut AnswerDraft, message: &Value) {
    let Some(usage) = message.get("usage") else { return };
    let tokens = |field: &str| usage.get(field).and_then(Value::as_u64);
    let (cached, cache_write) = (tokens("cache_read_input_tokens"), tokens("cache_creation_input_tokens"));
    let more = cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    let input = tokens("input_tokens").map(|input| input.saturating_add(more)).filter(|input| *input > 0);
    // The last event may repeat the cache counts although its count of the prompt is missing or zero.
    let (cached, cache_write) = if input.is_some() { (cached, cache_write) } else { (None, None) };
    draft.set_usage(TokenCounts { input, output: tokens("output_tokens"), cached, cache_write, reasoning: None });
}

pub(super) fn tool_choice(options: &ModelOptions) -> Option<Value> {
    let single = (options.parallel_calls == Some(false)).then_some(true);
    let mut choice = match options.tool_choice.as_ref() {
        None if single.is_none() => return None,
        Some(ToolChoice::None) => return Some(json!({ "type": "none" })),
        Some(ToolChoice::Required) => json!({ "type": "any" }),
        Some(ToolChoice::Tool(name)) => json!({ "type": "tool", "name": name }),
        _ => json!({ "type": "auto" }),
    };
    set(&mut choice, "disable_parallel_tool_use", single);
    Some(choice)
}

fn output_config(schema: Option<Value>, effort: Option<String>) -> Value {
    let mut config = json!({});
    set(&mut config, "format", schema.map(|schema| json!({ "type": "json_schema", "schema": schema })));
    set(&mut config, "effort", effort);
    config
}

/// Marks the parts of the prompt that Anthropic caches: tools, system text, and the conversation so far.
fn mark_cached(body: &mut Value, cache: PromptCache) {
    let mut mark = json!({ "type": "ephemeral" });
    if cache == PromptCache::Long {
        mark["ttl"] = json!("1h");
    }
    if let Some(system) = body.get("system").and_then(Value::as_str) {
        body["system"] = json!([{ "type": "text", "text": system }]);
    }
    let last_of = ["/tools", "/system"].map(str::to_owned);
    let last_message = list(body, "messages").len().checked_sub(1).map(|last| format!("/messages/{last}/content"));
    for place in last_of.into_iter().chain(last_message) {
        if let Some(Value::Array(blocks)) = body.pointer_mut(&place)
            && let Some(block) = blocks.last_mut()
        {
            block["cache_control"] = mark.clone();
        }
    }
}

fn messages(conversation: &WireConversation<'_>) -> Vec<Value> {
    let mut messages = Vec::new();
    if !conversation.begins_with_user() {
        push(&mut messages, "user", &[json!({ "type": "text", "text": BEGINNING })]);
    }
    for turn in &conversation.turns {
        match turn {
            ConversationTurn::User(content) => push(&mut messages, "user", &blocks(content)),
            ConversationTurn::Model(turn) => {
                push(&mut messages, "assistant", &blocks::model_blocks(turn));
                push(&mut messages, "user", &turn.calls.iter().map(result).collect::<Vec<_>>());
            }
        }
    }
    if messages.is_empty() {
        push(&mut messages, "user", &[json!({ "type": "text", "text": BEGINNING })]);
    }
    messages
}

/// Adds a message unless it is empty, which the provider refuses.
fn push(messages: &mut Vec<Value>, role: &str, blocks: &[Value]) {
    if !blocks.is_empty() {
        messages.push(json!({ "role": role, "content": blocks }));
    }
}

fn result(call: &AnsweredCall<'_>) -> Value {
    let mut result = json!({ "type": "tool_result", "tool_use_id": call.id, "content": blocks(&call.result) });
    if call.failed {
        result["is_error"] = json!(true);
    }
    result
}

/// Returns the blocks of a content without blank texts, which the provider refuses.
fn blocks(content: &Content) -> Vec<Value> {
    let block = |part| match part {
        ContentPart::Text(text) if text.trim().is_empty() => None,
        ContentPart::Text(text) => Some(json!({ "type": "text", "text": text })),
        ContentPart::Media(media) => Some(media_block(&media).unwrap_or_else(|why| {
            let text = media.omission_note(&why);
            json!({ "type": "text", "text": text })
        })),
    };
    content_parts(content).into_iter().filter_map(block).collect()
}

/// Returns the block of an image or a file, or the reason why Anthropic does not accept it.
fn media_block(media: &Media<'_>) -> Result<Value, String> {
    let source = match media.base64 {
        Some(base64) => json!({ "type": "base64", "media_type": media.mime, "data": base64 }),
        None => json!({ "type": "url", "url": media.url }),
    };
    if media.is_image {
        return Ok(json!({ "type": "image", "source": source }));
    }
    let source = match (media.mime, media.base64) {
        ("application/pdf", _) => source,
        ("text/plain", Some(base64)) => {
            let unread = || "it is not UTF-8 text in Base64".to_owned();
            let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, base64).map_err(|_| unread())?;
            let text = String::from_utf8(bytes).map_err(|_| unread())?;
            json!({ "type": "text", "media_type": "text/plain", "data": text })
        }
        _ => return Err("Anthropic accepts images, PDFs, and plain text inside the request".to_owned()),
    };
    let mut block = json!({ "type": "document", "source": source });
    set(&mut block, "title", media.name);
    Ok(block)
}
