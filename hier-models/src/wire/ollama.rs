use hier_agents::{Content, FinishReason, ModelOptions, ToolChoice};
use serde_json::{Value, json};

use super::shared::{
    check_no_error, field, finish_reason, functions, list, refuse_options, set, set_list, set_object, set_text, text,
};
use super::{Dialect, DialectInfo, Framing, WireRequest, shared, thinking};
use crate::conversation::{AnsweredCall, ConversationTurn, ModelTurn, WireConversation};
use crate::draft::{AnswerDraft, TokenCounts};
use crate::error::ModelFailure;
use crate::media::media_parts;

pub(super) struct Ollama;

/// The number of the only thought of an answer.
const THOUGHT: u64 = 0;

impl Dialect for Ollama {
    fn info(&self) -> &DialectInfo {
        &DialectInfo {
            name: "ollama",
            provider: "ollama",
            url: "http://localhost:11434",
            key_variable: None,
            path: "api/chat",
            framing: Framing::Lines,
        }
    }

    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
        let WireRequest { model, request, .. } = *wire_request;
        let options = &request.options;
        let forced = shared::forces_a_call(options);
        let single = options.parallel_calls == Some(false);
        refuse_options("Ollama", &[("tool_choice", forced), ("parallel_calls", single)])?;
        wire_request.tools.refuse_all("Ollama's API")?;
        let mut body = json!({ "model": model, "messages": messages(wire_request), "stream": wire_request.streamed });
        let tools = functions(request).filter(|_| options.tool_choice != Some(ToolChoice::None));
        set(&mut body, "tools", tools);
        set(&mut body, "format", request.output.as_ref().map(|output| output.schema.clone()));
        set(&mut body, "think", thinking::ollama(model, options));
        set_object(&mut body, "options", inner_options(options));
        Ok(body)
    }

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
        self.read_event(draft, answer)
    }

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
        check_no_error(event)?;
        draft.set_model(text(event, "model"));
        let message = field(event, "message");
        let thinking = text(message, "thinking");
        if !thinking.is_empty() {
            draft.keep_fields(THOUGHT, json!({ "field": "thinking" }));
            draft.add_thought(THOUGHT, thinking);
        }
        draft.add_tagged_text(THOUGHT, text(message, "content"));
        for call in list(message, "tool_calls") {
            let function = field(call, "function");
            let args = function.get("arguments").cloned().unwrap_or_default();
            draft.add_call(None, text(call, "id"), text(function, "name"), args);
        }
        let tokens = |field: &str| event.get(field).and_then(Value::as_u64);
        let (input, output) = (tokens("prompt_eval_count"), tokens("eval_count"));
        draft.set_usage(TokenCounts { input, output, ..TokenCounts::default() });
        if event.get("done").and_then(Value::as_bool) == Some(true) {
            draft.ended = true;
            // Newer servers send `stop`, even after calls. Older servers send nothing.
            draft.finish = finish_reason(event.get("done_reason")).or(Some(FinishReason::Stop));
        }
        Ok(())
    }
}

fn inner_options(options: &ModelOptions) -> Value {
    let mut inner = json!({});
    set(&mut inner, "temperature", options.temperature);
    set(&mut inner, "top_p", options.top_p);
    set(&mut inner, "num_predict", options.max_tokens);
    set(&mut inner, "seed", options.seed);
    set_list(&mut inner, "stop", &options.stop);
    inner
}

fn messages(wire_request: &WireRequest<'_>) -> Vec<Value> {
    let conversation = WireConversation::new(wire_request.request, wire_request.maker);
    let mut messages: Vec<Value> = shared::system_message(&conversation).into_iter().collect();
    for turn in &conversation.turns {
        match turn {
            ConversationTurn::User(content) => messages.push(with_images("user", content)),
            ConversationTurn::Model(turn) => {
                messages.push(model_message(turn));
                messages.extend(turn.calls.iter().map(result));
            }
        }
    }
    // The server holds the model to the schema, but does not show the schema to the model.
    let wanted = wire_request.request.output.as_ref().map(shared::schema_instruction);
    messages.extend(wanted.map(|wanted| json!({ "role": "system", "content": wanted })));
    messages
}

/// Returns a message of the model. It contains the model's thoughts only until a user message follows.
fn model_message(turn: &ModelTurn<'_>) -> Value {
    let mut message = json!({ "role": "assistant", "content": turn.text.as_deref().unwrap_or_default() });
    if !turn.calls.is_empty() {
        let call = |call: &AnsweredCall<'_>| json!({ "id": call.id, "function": { "name": call.name, "arguments": call.args } });
        message["tool_calls"] = turn.calls.iter().map(call).collect();
    }
    if turn.current {
        let thoughts: String = turn.all_thoughts().map(|thought| &*thought.text).collect();
        set_text(&mut message, "thinking", &thoughts);
    }
    message
}

fn result(call: &AnsweredCall<'_>) -> Value {
    let mut result = with_images("tool", &call.result);
    result["tool_name"] = json!(call.name);
    result["tool_call_id"] = json!(call.id);
    result
}

fn with_images(role: &str, content: &Content) -> Value {
    let (mut text, mut images) = (content.text(), Vec::new());
    for media in media_parts(content) {
        match media.base64 {
            Some(base64) if media.is_image => images.push(base64),
            _ => {
                let why = if media.is_image {
                    "Ollama accepts images only inside the request, not by URL: use \
                     `data:image/png;base64,…`"
                } else {
                    "Ollama accepts images but no other files"
                };
                let separator = if text.is_empty() { "" } else { "\n" };
                text = format!("{text}{separator}{}", media.omission_note(why));
            }
        }
    }
    let mut message = json!({ "role": role, "content": text });
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}
