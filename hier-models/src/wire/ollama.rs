//! Ollama's own dialect.

use hier_agents::{Content, FinishReason, ModelOptions, Reasoning, ToolChoice};
use serde_json::{Value, json};

use super::shared::{bearer, field, finish, functions, lacks, list, no_error, set, set_list, text};
use super::{Asked, Framing, Wire, shared, thinking};
use crate::conversation::{Call, Conversation, Said, Turn};
use crate::draft::{Draft, Tokens};
use crate::error::Failure;
use crate::media::media;

pub(super) struct Ollama;

/// The number of what a model thinks: all of an answer is one thought.
const THOUGHT: u64 = 0;

impl Wire for Ollama {
    fn name(&self) -> &'static str {
        "ollama"
    }

    fn url(&self) -> &'static str {
        "http://localhost:11434"
    }

    fn key_variable(&self) -> Option<&'static str> {
        None
    }

    fn endpoint(&self, _model: &str, _streamed: bool) -> String {
        "api/chat".to_owned()
    }

    /// A server behind a proxy may want a key.
    fn headers(&self, _model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        bearer(key)
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn body(&self, asked: &Asked<'_>) -> Result<Value, Failure> {
        let Asked { model, request, .. } = *asked;
        let options = &request.options;
        let forced = shared::forces_a_call(options);
        let single = options.parallel_calls == Some(false);
        lacks("Ollama", &[("tool_choice", forced), ("parallel_calls", single)])?;
        let mut body = json!({ "model": model, "messages": messages(asked), "stream": asked.streamed });
        let tools = functions(request).filter(|_| options.tool_choice != Some(ToolChoice::None));
        set(&mut body, "tools", tools);
        set(&mut body, "format", request.output.as_ref().map(|output| output.schema.clone()));
        set(&mut body, "think", thinking::ollama(model, options));
        set(&mut body, "options", Some(inner_options(options)).filter(|options| *options != json!({})));
        Ok(body)
    }

    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure> {
        self.piece(draft, answer)
    }

    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure> {
        no_error(piece)?;
        let model = text(piece, "model");
        if !model.is_empty() {
            draft.model = Some(model.to_owned());
        }
        let message = field(piece, "message");
        let thinking = text(message, "thinking");
        if !thinking.is_empty() {
            draft.keep(THOUGHT, json!({ "field": "thinking" }));
            draft.think(THOUGHT, thinking);
        }
        draft.say_tagged(THOUGHT, text(message, "content"));
        for call in list(message, "tool_calls") {
            let function = field(call, "function");
            let args = function.get("arguments").cloned().unwrap_or_default();
            draft.call(None, text(call, "id"), text(function, "name"), args);
        }
        let tokens = |field: &str| piece.get(field).and_then(Value::as_u64);
        let (input, output) = (tokens("prompt_eval_count"), tokens("eval_count"));
        draft.count(Tokens { input, output, ..Tokens::default() });
        if piece.get("done").and_then(Value::as_bool) == Some(true) {
            draft.ended = true;
            // Servers that call tools say `stop`, and older ones say nothing.
            draft.finish = finish(piece.get("done_reason")).or(Some(FinishReason::Stop));
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

fn messages(asked: &Asked<'_>) -> Vec<Value> {
    let conversation = Conversation::new(asked.request, asked.maker);
    let system = conversation.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let mut messages: Vec<Value> = system.collect();
    for turn in &conversation.turns {
        match turn {
            Turn::User(content) => messages.push(with_images("user", content)),
            Turn::Model(said) => {
                messages.push(model(said));
                messages.extend(said.calls.iter().map(result));
            }
        }
    }
    // The server holds the model to a schema, but does not show it to the model.
    let wanted = asked.request.output.as_ref().map(shared::wanted);
    messages.extend(wanted.map(|wanted| json!({ "role": "system", "content": wanted })));
    messages
}

/// What the model said; what it thought only within the turn that it thought it in.
fn model(said: &Said<'_>) -> Value {
    let mut message = json!({ "role": "assistant", "content": said.text.as_deref().unwrap_or_default() });
    if !said.calls.is_empty() {
        let call =
            |call: &Call<'_>| json!({ "id": call.id, "function": { "name": call.name, "arguments": call.args } });
        message["tool_calls"] = said.calls.iter().map(call).collect();
    }
    if said.current {
        let thoughts: String = said.all_thoughts().map(|thought: &Reasoning| &*thought.text).collect();
        set(&mut message, "thinking", Some(thoughts).filter(|text| !text.is_empty()));
    }
    message
}

fn result(call: &Call<'_>) -> Value {
    let mut result = with_images("tool", &call.result);
    result["tool_name"] = json!(call.name);
    result["tool_call_id"] = json!(call.id);
    result
}

fn with_images(role: &str, content: &Content) -> Value {
    let (mut text, mut images) = (content.text(), Vec::new());
    for media in media(content) {
        match media.base64 {
            Some(base64) if media.is_image => images.push(base64),
            _ => {
                let why = if media.is_image {
                    "Ollama takes images with the request only, and none by their address: give it as \
                     `data:image/png;base64,…`"
                } else {
                    "Ollama takes images and no files"
                };
                let separator = if text.is_empty() { "" } else { "\n" };
                text = format!("{text}{separator}{}", media.left_out(why));
            }
        }
    }
    let mut message = json!({ "role": role, "content": text });
    if !images.is_empty() {
        message["images"] = json!(images);
    }
    message
}
