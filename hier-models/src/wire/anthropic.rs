//! Anthropic's messages.

use hier_agents::{Content, ModelOptions, PromptCache, ToolChoice};
use serde_json::{Value, json};

use super::shared::{field, finish, lacks, list, no_error, set, set_list, text, tool};
use super::{Asked, Framing, Wire, blocks, claude, schema, shared};
use crate::conversation::{BEGINNING, Call, Conversation, Turn};
use crate::draft::{Draft, Tokens};
use crate::error::Failure;
use crate::media::{Media, Piece, pieces};

pub(super) struct Anthropic;

/// The longest answers of models, by what their names begin with. The provider wants a limit with each request.
const LONGEST: [(&str, u32); 4] =
    [("claude-3-7", 64_000), ("claude-3-5", 8_192), ("claude-3-", 4_096), ("claude-opus-4-1", 32_000)];
/// The context of all models, in tokens, unless more is asked for.
const CONTEXT: u64 = 200_000;
/// The longest answer of all others.
const LONGEST_OTHERWISE: u32 = 32_000;

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

    fn endpoint(&self, _model: &str, _streamed: bool) -> String {
        "messages".to_owned()
    }

    fn headers(&self, model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        let key = key.map(|key| ("x-api-key", key.to_owned()));
        let binding = claude::binds_thoughts(model).then(|| (claude::BINDING.0, claude::BINDING.1.to_owned()));
        key.into_iter().chain(binding).chain([("anthropic-version", "2023-06-01".to_owned())]).collect()
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn takes(&self, schema: &Value) -> bool {
        schema::ANTHROPIC.fit(schema).is_some()
    }

    /// From 4.5 on: `output_config` has the schema, and tools can stand beside it.
    fn keeps_to_schemas(&self, model: &str) -> bool {
        claude::keeps_to_schemas(model)
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        model.starts_with("claude-").then_some(CONTEXT)
    }

    /// Signatures are good wherever the provider's models are served.
    fn is_one_maker(&self) -> bool {
        true
    }

    fn body(&self, asked: &Asked<'_>) -> Result<Value, Failure> {
        let Asked { model, request, .. } = *asked;
        let options = &request.options;
        lacks("Anthropic", &[("seed", options.seed.is_some())])?;
        let conversation = Conversation::new(request, asked.maker);
        let longest = LONGEST.iter().find(|(prefix, _)| model.starts_with(prefix)).map(|(_, longest)| *longest);
        let max_tokens = options.max_tokens.or(longest).unwrap_or(LONGEST_OTHERWISE);
        let mut body = json!({ "model": model, "max_tokens": max_tokens, "messages": messages(&conversation) });
        body["stream"] = json!(asked.streamed);
        let schema = request.output.as_ref().and_then(|output| schema::ANTHROPIC.fit(&output.schema));
        let wanted = request.output.as_ref().filter(|_| schema.is_none()).map(shared::wanted);
        let system = conversation.system.iter().cloned().chain(wanted).collect::<Vec<_>>().join("\n\n");
        set(&mut body, "system", Some(system).filter(|text| !text.is_empty()));
        if !request.tools.is_empty() {
            body["tools"] = request.tools.iter().map(|spec| tool(spec, "input_schema")).collect();
            set(&mut body, "tool_choice", tool_choice(options));
        }
        let thinking = claude::thinking(model, options, &conversation, max_tokens)?;
        if !thinking.is_on() && claude::takes_sampling(model) {
            // A model that thinks refuses both.
            set(&mut body, "temperature", options.temperature);
            set(&mut body, "top_p", options.top_p);
        }
        set(&mut body, "thinking", thinking.field);
        set(&mut body, "output_config", output_config(schema, thinking.effort));
        set_list(&mut body, "stop_sequences", &options.stop);
        if let Some(cache) = options.cache {
            mark(&mut body, cache);
        }
        Ok(body)
    }

    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure> {
        no_error(answer)?;
        head(draft, answer);
        for (number, block) in (0..).zip(list(answer, "content")) {
            blocks::whole(draft, number, block);
        }
        draft.finish = finish(answer.get("stop_reason"));
        Ok(())
    }

    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure> {
        no_error(piece)?;
        let index = piece.get("index").and_then(Value::as_u64);
        match text(piece, "type") {
            "message_start" => head(draft, field(piece, "message")),
            "content_block_start" => blocks::begin(draft, index, field(piece, "content_block")),
            "content_block_delta" => blocks::add(draft, index, field(piece, "delta")),
            "content_block_stop" => blocks::end(draft, index),
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
    let (cached, cache_write) = (tokens("cache_read_input_tokens"), tokens("cache_creation_input_tokens"));
    let more = cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    let input = tokens("input_tokens").map(|input| input.saturating_add(more)).filter(|input| *input > 0);
    // The last piece may repeat the cache's counts without those of the prompt, or with zeros.
    let (cached, cache_write) = if input.is_some() { (cached, cache_write) } else { (None, None) };
    draft.count(Tokens { input, output: tokens("output_tokens"), cached, cache_write, reasoning: None });
}

fn tool_choice(options: &ModelOptions) -> Option<Value> {
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

fn output_config(schema: Option<Value>, effort: Option<String>) -> Option<Value> {
    let mut config = json!({});
    set(&mut config, "format", schema.map(|schema| json!({ "type": "json_schema", "schema": schema })));
    set(&mut config, "effort", effort);
    Some(config).filter(|config| *config != json!({}))
}

/// Marks what the provider is to remember: tools, instructions, and the conversation so far.
fn mark(body: &mut Value, cache: PromptCache) {
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

fn messages(conversation: &Conversation<'_>) -> Vec<Value> {
    let mut messages = Vec::new();
    if !conversation.begins_with_user() {
        push(&mut messages, "user", &[json!({ "type": "text", "text": BEGINNING })]);
    }
    for turn in &conversation.turns {
        match turn {
            Turn::User(content) => push(&mut messages, "user", &blocks(content)),
            Turn::Model(said) => {
                push(&mut messages, "assistant", &blocks::said(said));
                push(&mut messages, "user", &said.calls.iter().map(result).collect::<Vec<_>>());
            }
        }
    }
    if messages.is_empty() {
        push(&mut messages, "user", &[json!({ "type": "text", "text": BEGINNING })]);
    }
    messages
}

/// Adds a message, unless it says nothing, which the provider refuses.
fn push(messages: &mut Vec<Value>, role: &str, blocks: &[Value]) {
    if !blocks.is_empty() {
        messages.push(json!({ "role": role, "content": blocks }));
    }
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
    let block = |piece| match piece {
        Piece::Text(text) if text.trim().is_empty() => None,
        Piece::Text(text) => Some(json!({ "type": "text", "text": text })),
        Piece::Media(media) => Some(media_block(&media).unwrap_or_else(|why| {
            let text = media.left_out(&why);
            json!({ "type": "text", "text": text })
        })),
    };
    pieces(content).into_iter().filter_map(block).collect()
}

/// The block of an image or a file, or why there is none.
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
            let unread = || "it is not Base64 of UTF-8".to_owned();
            let bytes = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, base64).map_err(|_| unread())?;
            let text = String::from_utf8(bytes).map_err(|_| unread())?;
            json!({ "type": "text", "media_type": "text/plain", "data": text })
        }
        _ => return Err("Anthropic takes PDFs, plain text by its bytes, and images".to_owned()),
    };
    let mut block = json!({ "type": "document", "source": source });
    set(&mut block, "title", media.name);
    Ok(block)
}
