//! OpenAI's chat completions, which llama.cpp, vLLM, LM Studio and many providers offer, too.

use hier_agents::{Content, ModelOptions, OutputSpec, ToolChoice};
use serde_json::{Value, json};

use super::shared::{
    check_no_error, check_not_aborted, field, finish_reason, functions, is_newer, is_reasoner, list, named_schema, set,
    set_list, text,
};
use super::{Dialect, DialectInfo, Framing, WireRequest, shared, thinking};
use crate::conversation::{AnsweredCall, ConversationTurn, ModelTurn, WireConversation};
use crate::draft::{AnswerDraft, CallDelta, TokenCounts};
use crate::error::ModelFailure;
use crate::media::{ContentPart, Media, content_parts, media_parts};

pub(super) struct OpenAi;

/// The number of the only thought of an answer.
const THOUGHT: u64 = 0;
/// The fields in which servers send thoughts. Thoughts are sent back in the field in which they arrived.
const THINKING: [&str; 2] = ["reasoning_content", "reasoning"];
/// The field of `OpenRouter`'s thoughts, which arrive in parts and are sent back in place of the text.
const DETAILS: &str = "reasoning_details";
/// The field of Gemini's signatures, next to a message or a call.
const EXTRA: &str = "extra_content";

impl Dialect for OpenAi {
    fn info(&self) -> &DialectInfo {
        &DialectInfo {
            name: "openai",
            provider: "openai",
            url: "https://api.openai.com/v1",
            key_variable: Some("OPENAI_API_KEY"),
            path: "chat/completions",
            framing: Framing::Events,
        }
    }

    fn obeys_schemas(&self, model: &str) -> bool {
        shared::obeys_schemas(model)
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        shared::context_of_openai(model)
    }

    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
        let WireRequest { model, request, .. } = *wire_request;
        let options = &request.options;
        wire_request.tools.refuse_all("the chat completions API")?;
        let mut body = json!({ "model": model, "messages": messages(wire_request), "stream": wire_request.streamed });
        if wire_request.streamed {
            body["stream_options"] = json!({ "include_usage": true });
        }
        if let Some(tools) = functions(request) {
            body["tools"] = tools;
            set(&mut body, "tool_choice", options.tool_choice.as_ref().map(tool_choice));
            set(&mut body, "parallel_tool_calls", options.parallel_calls);
        }
        set(&mut body, "response_format", request.output.as_ref().map(response_format));
        sampling(&mut body, model, options);
        set(&mut body, "reasoning_effort", options.reasoning.as_ref().map(|effort| thinking::openai(model, effort)));
        set(&mut body, if is_newer(model) { "max_completion_tokens" } else { "max_tokens" }, options.max_tokens);
        set(&mut body, "seed", options.seed);
        set_list(&mut body, "stop", &options.stop);
        Ok(body)
    }

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
        check_no_error(answer)?;
        read_head(draft, answer);
        let choice =
            list(answer, "choices").first().ok_or_else(|| ModelFailure::bad_answer("the reply has no choice"))?;
        let message = field(choice, "message");
        read_text(draft, message);
        for call in list(message, "tool_calls") {
            let function = field(call, "function");
            let args = function.get("arguments").cloned().unwrap_or_default();
            let place = draft.add_call(None, text(call, "id"), text(function, "name"), args);
            keep_extra(call, |extra| draft.keep_call_fields(place, extra));
        }
        draft.finish = finish_reason(choice.get("finish_reason"));
        check_not_aborted(draft.finish.as_ref())
    }

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
        if event.is_null() {
            draft.ended = true;
            return Ok(());
        }
        check_no_error(event)?;
        read_head(draft, event);
        let Some(choice) = list(event, "choices").first() else {
            // The event with the token counts comes last.
            draft.complete |= draft.finish.is_some() && event.get("usage").is_some_and(Value::is_object);
            return Ok(());
        };
        let delta = field(choice, "delta");
        read_text(draft, delta);
        for call in list(delta, "tool_calls") {
            let function = field(call, "function");
            let is_empty = |name: &str| field(function, name).as_str().is_none_or(str::is_empty);
            let whole = function.get("arguments").filter(|args| args.is_object()).map(Value::to_string);
            if text(call, "id").is_empty() && is_empty("name") && is_empty("arguments") && whole.is_none() {
                continue;
            }
            let place = draft.add_call_delta(&CallDelta {
                index: call.get("index").and_then(Value::as_u64),
                id: text(call, "id"),
                name: text(function, "name"),
                args: whole.as_deref().unwrap_or_else(|| text(function, "arguments")),
            });
            keep_extra(call, |extra| draft.keep_call_fields(place, extra));
        }
        draft.finish = finish_reason(choice.get("finish_reason")).or(draft.finish.take());
        check_not_aborted(draft.finish.as_ref())
    }
}

pub(super) fn sampling(body: &mut Value, model: &str, options: &ModelOptions) {
    if !is_reasoner(model) {
        set(body, "temperature", options.temperature);
        set(body, "top_p", options.top_p);
    }
}

fn tool_choice(choice: &ToolChoice) -> Value {
    shared::tool_choice(choice, |name| json!({ "type": "function", "function": { "name": name } }))
}

fn response_format(output: &OutputSpec) -> Value {
    json!({ "type": "json_schema", "json_schema": named_schema(output) })
}

/// Reads the fields that complete answers and events share.
fn read_head(draft: &mut AnswerDraft, answer: &Value) {
    draft.set_model(text(answer, "model"));
    if let Some(usage) = answer.get("usage") {
        let tokens = |path: &str| usage.pointer(path).and_then(Value::as_u64);
        let (input, reasoning) = (tokens("/prompt_tokens"), tokens("/completion_tokens_details/reasoning_tokens"));
        let with_reasoning = tokens("/completion_tokens").map(|text| text.saturating_add(reasoning.unwrap_or(0)));
        let whole = input.zip(with_reasoning).map(|(input, output)| input.saturating_add(output));
        // xAI does not include reasoning in the count of the answer. Only the total shows this.
        let is_separate = whole.is_some() && whole == tokens("/total_tokens");
        draft.set_usage(TokenCounts {
            input,
            output: if is_separate { with_reasoning } else { tokens("/completion_tokens") },
            cached: tokens("/prompt_tokens_details/cached_tokens").or_else(|| tokens("/prompt_cache_hit_tokens")),
            cache_write: tokens("/prompt_tokens_details/cache_write_tokens"),
            reasoning,
        });
    }
}

/// Reads thoughts and text. The content is a text, a list of parts, or a refusal.
fn read_text(draft: &mut AnswerDraft, message: &Value) {
    read_thoughts(draft, message);
    draft.add_tagged_text(THOUGHT, text(message, "content"));
    for part in list(message, "content") {
        for thought in list(part, "thinking") {
            draft.add_thought(THOUGHT, text(thought, "text"));
        }
        draft.add_tagged_text(THOUGHT, text(part, "text"));
        draft.add_refusal(text(part, "refusal"));
    }
    draft.add_refusal(text(message, "refusal"));
    shared::read_annotations(draft, Some(0), list(message, "annotations"));
}

fn read_thoughts(draft: &mut AnswerDraft, message: &Value) {
    if let Some(name) = THINKING.iter().find(|name| !text(message, name).is_empty()) {
        draft.keep_fields(THOUGHT, json!({ "field": name }));
        draft.add_thought(THOUGHT, text(message, name));
    }
    for detail in list(message, DETAILS) {
        merge_detail(draft.thought_data(THOUGHT), detail);
    }
    keep_extra(message, |extra| draft.keep_fields(THOUGHT, extra));
}

/// Adds a part of [`DETAILS`], or adds text to the last part.
fn merge_detail(kept: &mut Value, detail: &Value) {
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

fn messages(wire_request: &WireRequest<'_>) -> Vec<Value> {
    let conversation = WireConversation::new(wire_request.request, wire_request.maker);
    let mut messages: Vec<Value> = shared::system_message(&conversation).into_iter().collect();
    for turn in &conversation.turns {
        match turn {
            ConversationTurn::User(content) => push_user(&mut messages, user_content(content)),
            ConversationTurn::Model(turn) => push_model_turn(&mut messages, turn, wire_request.model),
        }
    }
    messages
}

/// Adds a user message, or joins it with a user message before it. The chat templates of some models require that the
/// messages of the user and of the model alternate.
fn push_user(messages: &mut Vec<Value>, content: Value) {
    let Some(last) = messages.last_mut().filter(|last| last["role"] == "user") else {
        return messages.push(json!({ "role": "user", "content": content }));
    };
    last["content"] = match (last["content"].take(), content) {
        (Value::String(text), Value::String(more)) => json!(format!("{text}\n\n{more}")),
        (known, more) => [known, more].into_iter().flat_map(into_parts).collect(),
    };
}

fn into_parts(content: Value) -> Vec<Value> {
    match content {
        Value::Array(parts) => parts,
        text => vec![json!({ "type": "text", "text": text })],
    }
}

fn user_content(content: &Content) -> Value {
    let part = |part| match part {
        ContentPart::Text(text) => json!({ "type": "text", "text": text }),
        ContentPart::Media(media) => media_part(&media),
    };
    match content {
        Content::Text(text) => json!(text),
        Content::Parts(_) => content_parts(content).into_iter().map(part).collect(),
    }
}

fn media_part(media: &Media<'_>) -> Value {
    if media.is_image {
        return json!({ "type": "image_url", "image_url": { "url": media.url } });
    }
    let Some(base64) = media.base64 else {
        let text = media.omission_note(
            "chat completions accept files only inside the request, not by URL: use `data:application/pdf;base64,…`",
        );
        return json!({ "type": "text", "text": text });
    };
    let sound = [("audio/wav", "wav"), ("audio/x-wav", "wav"), ("audio/mpeg", "mp3"), ("audio/mp3", "mp3")];
    if let Some((_, format)) = sound.iter().find(|(media_type, _)| *media_type == media.mime) {
        return json!({ "type": "input_audio", "input_audio": { "data": base64, "format": format } });
    }
    json!({ "type": "file", "file": { "filename": media.name.unwrap_or("file"), "file_data": media.url } })
}

/// Adds a message of the model, the results of its calls, and the files of the results. In this API, results cannot
/// contain files.
fn push_model_turn(messages: &mut Vec<Value>, turn: &ModelTurn<'_>, model: &str) {
    let mut message = json!({ "role": "assistant", "content": turn.text });
    if !turn.calls.is_empty() {
        message["tool_calls"] = turn.calls.iter().map(call_object).collect();
        if turn.current && thinking::insists_on_signatures(model) {
            sign_first(&mut message["tool_calls"]);
        }
    }
    add_thoughts(&mut message, turn);
    messages.push(message);
    for call in &turn.calls {
        messages.push(json!({ "role": "tool", "tool_call_id": call.id, "content": call.result.text() }));
    }
    let seen = turn.calls.iter().flat_map(|call| media_parts(&call.result)).map(|media| media_part(&media));
    let seen: Vec<Value> = seen.collect();
    if !seen.is_empty() {
        push_user(messages, seen.into());
    }
}

fn call_object(call: &AnsweredCall<'_>) -> Value {
    let function = json!({ "name": call.name, "arguments": call.args.to_string() });
    let mut made = json!({ "id": call.id, "type": "function", "function": function });
    let extra = call.thoughts.iter().find_map(|thought| thought.data.get(EXTRA));
    set(&mut made, EXTRA, extra.cloned());
    made
}

/// Marks the first call as one of another model if no call has a signature.
fn sign_first(calls: &mut Value) {
    let Value::Array(calls) = calls else { return };
    if calls.iter().all(|call| call.get(EXTRA).is_none())
        && let Some(first) = calls.first_mut()
    {
        first[EXTRA] = json!({ "google": { "thought_signature": thinking::FOREIGN_SIGNATURE } });
    }
}

/// Adds the thoughts. Servers refuse or ignore the text of thoughts outside the current turn, and in messages without
/// calls.
fn add_thoughts(message: &mut Value, turn: &ModelTurn<'_>) {
    for name in [EXTRA, DETAILS] {
        let kept = turn.all_thoughts().filter(|thought| name == DETAILS || thought.call.is_none());
        set(message, name, { kept }.find_map(|thought| thought.data.get(name)).cloned());
    }
    if !turn.current || turn.calls.is_empty() || message.get(DETAILS).is_some() {
        return;
    }
    for thought in turn.all_thoughts() {
        if let Some(name) = thought.data.get("field").and_then(Value::as_str) {
            message[name] = json!(thought.text);
        }
    }
}
