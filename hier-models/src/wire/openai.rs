//! OpenAI's chat completions, which llama.cpp, vLLM, LM Studio and many providers speak, too.

use hier_agents::{Content, Effort, ModelOptions, OutputSpec, ToolChoice};
use serde_json::{Value, json};

use super::shared::{
    bearer, field, finish, functions, is_newer, is_reasoner, list, named_schema, no_error, not_broken_off, set,
    set_list, text,
};
use super::{Asked, Framing, Wire, shared, thinking};
use crate::conversation::{Call, Conversation, Said, Turn};
use crate::draft::{CallPiece, Draft, Tokens};
use crate::error::Failure;
use crate::media::{Media, Piece, media, pieces};

pub(super) struct OpenAi;

/// The number of what a model thinks: all of an answer is one thought.
const THOUGHT: u64 = 0;
/// The fields in which servers give what a model thinks; one of them, whichever it was, is sent back.
const THINKING: [&str; 2] = ["reasoning_content", "reasoning"];
/// What `OpenRouter` gives, in parts, and wants back in place of the text.
const DETAILS: &str = "reasoning_details";
/// What Gemini gives beside a message or a call, and wants back.
const EXTRA: &str = "extra_content";

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

    fn endpoint(&self, _model: &str, _streamed: bool) -> String {
        "chat/completions".to_owned()
    }

    fn headers(&self, _model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        bearer(key)
    }

    fn framing(&self) -> Framing {
        Framing::Events
    }

    fn keeps_to_schemas(&self, model: &str) -> bool {
        shared::keeps_to_schemas(model)
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        shared::context_of_openai(model)
    }

    fn body(&self, asked: &Asked<'_>) -> Result<Value, Failure> {
        let Asked { model, request, .. } = *asked;
        let options = &request.options;
        let mut body = json!({ "model": model, "messages": messages(asked), "stream": asked.streamed });
        if asked.streamed {
            body["stream_options"] = json!({ "include_usage": true });
        }
        if let Some(tools) = functions(request) {
            body["tools"] = tools;
            set(&mut body, "tool_choice", options.tool_choice.as_ref().map(tool_choice));
            set(&mut body, "parallel_tool_calls", options.parallel_calls);
        }
        set(&mut body, "response_format", request.output.as_ref().map(response_format));
        sampling(&mut body, model, options);
        set(&mut body, "reasoning_effort", options.reasoning.as_ref().map(Effort::as_str));
        set(&mut body, if is_newer(model) { "max_completion_tokens" } else { "max_tokens" }, options.max_tokens);
        set(&mut body, "seed", options.seed);
        set_list(&mut body, "stop", &options.stop);
        Ok(body)
    }

    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure> {
        no_error(answer)?;
        common(draft, answer);
        let choice = list(answer, "choices").first().ok_or_else(|| Failure::bad_answer("it has no choice"))?;
        let message = field(choice, "message");
        say(draft, message);
        for call in list(message, "tool_calls") {
            let function = field(call, "function");
            let args = function.get("arguments").cloned().unwrap_or_default();
            let place = draft.call(None, text(call, "id"), text(function, "name"), args);
            keep_extra(call, |extra| draft.keep_of_call(place, extra));
        }
        draft.finish = finish(choice.get("finish_reason"));
        not_broken_off(draft.finish.as_ref())
    }

    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure> {
        if piece.is_null() {
            draft.ended = true;
            return Ok(());
        }
        no_error(piece)?;
        common(draft, piece);
        let Some(choice) = list(piece, "choices").first() else {
            // The piece that counts tokens comes last.
            draft.complete |= draft.finish.is_some() && piece.get("usage").is_some_and(Value::is_object);
            return Ok(());
        };
        let delta = field(choice, "delta");
        say(draft, delta);
        for call in list(delta, "tool_calls") {
            let function = field(call, "function");
            let is_empty = |name: &str| field(function, name).as_str().is_none_or(str::is_empty);
            let whole = function.get("arguments").filter(|args| args.is_object()).map(Value::to_string);
            if text(call, "id").is_empty() && is_empty("name") && is_empty("arguments") && whole.is_none() {
                continue;
            }
            let place = draft.piece(&CallPiece {
                index: call.get("index").and_then(Value::as_u64),
                id: text(call, "id"),
                name: text(function, "name"),
                args: whole.as_deref().unwrap_or_else(|| text(function, "arguments")),
            });
            keep_extra(call, |extra| draft.keep_of_call(place, extra));
        }
        draft.finish = finish(choice.get("finish_reason")).or(draft.finish.take());
        not_broken_off(draft.finish.as_ref())
    }
}

/// Sets what chooses among words. Models that reason refuse it.
pub(super) fn sampling(body: &mut Value, model: &str, options: &ModelOptions) {
    if !is_reasoner(model) {
        set(body, "temperature", options.temperature);
        set(body, "top_p", options.top_p);
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::None => json!("none"),
        ToolChoice::Required => json!("required"),
        ToolChoice::Tool(name) => json!({ "type": "function", "function": { "name": name } }),
        _ => json!("auto"),
    }
}

fn response_format(output: &OutputSpec) -> Value {
    json!({ "type": "json_schema", "json_schema": named_schema(output) })
}

/// Reads what whole answers and pieces have in common.
fn common(draft: &mut Draft, answer: &Value) {
    let model = text(answer, "model");
    if !model.is_empty() {
        draft.model = Some(model.to_owned());
    }
    if let Some(usage) = answer.get("usage") {
        let tokens = |path: &str| usage.pointer(path).and_then(Value::as_u64);
        draft.count(Tokens {
            input: tokens("/prompt_tokens"),
            output: tokens("/completion_tokens"),
            cached: tokens("/prompt_tokens_details/cached_tokens").or_else(|| tokens("/prompt_cache_hit_tokens")),
            cache_write: None,
            reasoning: tokens("/completion_tokens_details/reasoning_tokens"),
        });
    }
}

/// Reads what is thought and said: text, a list of parts, or why the model will not say it.
fn say(draft: &mut Draft, message: &Value) {
    think(draft, message);
    draft.say_tagged(THOUGHT, text(message, "content"));
    for part in list(message, "content") {
        for thought in list(part, "thinking") {
            draft.think(THOUGHT, text(thought, "text"));
        }
        draft.say_tagged(THOUGHT, text(part, "text"));
        draft.refuse(text(part, "refusal"));
    }
    draft.refuse(text(message, "refusal"));
}

fn think(draft: &mut Draft, message: &Value) {
    if let Some(name) = THINKING.iter().find(|name| !text(message, name).is_empty()) {
        draft.keep(THOUGHT, json!({ "field": name }));
        draft.think(THOUGHT, text(message, name));
    }
    for detail in list(message, DETAILS) {
        gather(draft.kept(THOUGHT), detail);
    }
    keep_extra(message, |extra| draft.keep(THOUGHT, extra));
}

/// Adds a part of [`DETAILS`]: a new one, or more text of one that has begun.
fn gather(kept: &mut Value, detail: &Value) {
    if !kept.is_object() {
        *kept = json!({});
    }
    if !kept[DETAILS].is_array() {
        kept[DETAILS] = json!([]);
    }
    let Value::Array(details) = &mut kept[DETAILS] else { return };
    let number = detail.get("index").filter(|index| index.is_u64());
    let same = |known: &&mut Value| {
        number.is_some() && known.get("index") == number && known.get("type") == detail.get("type")
    };
    match (details.last_mut().filter(same), detail) {
        (Some(Value::Object(known)), Value::Object(fields)) => {
            for (name, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                match (known.get_mut(name), value) {
                    (Some(Value::String(text)), Value::String(more))
                        if ["text", "summary", "data"].contains(&name.as_str()) =>
                    {
                        text.push_str(more);
                    }
                    _ => _ = known.insert(name.clone(), value.clone()),
                }
            }
        }
        _ => details.push(detail.clone()),
    }
}

fn keep_extra(value: &Value, keep: impl FnOnce(Value)) {
    if let Some(extra) = value.get(EXTRA).filter(|extra| extra.is_object()) {
        keep(json!({ EXTRA: extra }));
    }
}

fn messages(asked: &Asked<'_>) -> Vec<Value> {
    let conversation = Conversation::new(asked.request, asked.maker);
    let system = conversation.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let mut messages: Vec<Value> = system.collect();
    for turn in &conversation.turns {
        match turn {
            Turn::User(content) => messages.push(json!({ "role": "user", "content": user(content) })),
            Turn::Model(said) => model(&mut messages, said, asked.model),
        }
    }
    messages
}

fn user(content: &Content) -> Value {
    let part = |piece| match piece {
        Piece::Text(text) => json!({ "type": "text", "text": text }),
        Piece::Media(media) => media_part(&media),
    };
    match content {
        Content::Text(text) => json!(text),
        Content::Parts(_) => pieces(content).into_iter().map(part).collect(),
    }
}

fn media_part(media: &Media<'_>) -> Value {
    if media.is_image {
        return json!({ "type": "image_url", "image_url": { "url": media.url } });
    }
    let Some(base64) = media.base64 else {
        let text = media.left_out(
            "chat completions take files with the request only, and none by their address: give it as \
             `data:application/pdf;base64,…`",
        );
        return json!({ "type": "text", "text": text });
    };
    let sound = [("audio/wav", "wav"), ("audio/x-wav", "wav"), ("audio/mpeg", "mp3"), ("audio/mp3", "mp3")];
    if let Some((_, format)) = sound.iter().find(|(media_type, _)| *media_type == media.mime) {
        return json!({ "type": "input_audio", "input_audio": { "data": base64, "format": format } });
    }
    json!({ "type": "file", "file": { "filename": media.name.unwrap_or("file"), "file_data": media.url } })
}

/// What the model said, then the results of its calls, and the images and files among them, which results cannot have here.
fn model(messages: &mut Vec<Value>, said: &Said<'_>, model: &str) {
    let mut message = json!({ "role": "assistant", "content": said.text });
    if !said.calls.is_empty() {
        message["tool_calls"] = said.calls.iter().map(made).collect();
        if said.current && thinking::insists_on_signatures(model) {
            sign(&mut message["tool_calls"]);
        }
    }
    think_again(&mut message, said);
    messages.push(message);
    for call in &said.calls {
        messages.push(json!({ "role": "tool", "tool_call_id": call.id, "content": call.result.text() }));
    }
    let seen = said.calls.iter().flat_map(|call| media(&call.result)).map(|media| media_part(&media));
    let seen: Vec<Value> = seen.collect();
    if !seen.is_empty() {
        messages.push(json!({ "role": "user", "content": seen }));
    }
}

fn made(call: &Call<'_>) -> Value {
    let function = json!({ "name": call.name, "arguments": call.args.to_string() });
    let mut made = json!({ "id": call.id, "type": "function", "function": function });
    let extra = call.thoughts.iter().find_map(|thought| thought.data.get(EXTRA));
    set(&mut made, EXTRA, extra.cloned());
    made
}

/// Marks the first call as one of another model, where none has a signature.
fn sign(calls: &mut Value) {
    let Value::Array(calls) = calls else { return };
    if calls.iter().all(|call| call.get(EXTRA).is_none())
        && let Some(first) = calls.first_mut()
    {
        first[EXTRA] = json!({ "google": { "thought_signature": thinking::FOREIGN_SIGNATURE } });
    }
}

/// Gives back what the model thought: text only within the turn that it thought it in and where it called something, for
/// servers refuse or ignore it otherwise.
fn think_again(message: &mut Value, said: &Said<'_>) {
    for name in [EXTRA, DETAILS] {
        let kept = said.all_thoughts().filter(|thought| name == DETAILS || thought.call.is_none());
        set(message, name, { kept }.find_map(|thought| thought.data.get(name)).cloned());
    }
    if !said.current || said.calls.is_empty() || message.get(DETAILS).is_some() {
        return;
    }
    for thought in said.all_thoughts() {
        if let Some(name) = thought.data.get("field").and_then(Value::as_str) {
            message[name] = json!(thought.text);
        }
    }
}
