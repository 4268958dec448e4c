//! Ollama's own dialect.

use hier_core::agent::{ChatRequest, Content};
use serde_json::{Value, json};

use super::{Framing, Wire, finish, list, no_error, set, text};
use crate::conversation::{Conversation, Image, Turn, has_addresses, images};
use crate::draft::Draft;
use crate::error::Failure;

pub(super) struct Ollama;

/// What a provider that takes no addresses of images says.
pub(super) const NO_ADDRESSES: &str =
    "it takes images with the request only, and none by their address: give it as `data:image/png;base64,…`";

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

    fn endpoint(&self) -> &'static str {
        "api/chat"
    }

    /// A server behind a proxy may want a key.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn unfit(&self, request: &ChatRequest) -> Option<String> {
        has_addresses(request).then(|| NO_ADDRESSES.to_owned())
    }

    fn body(&self, model: &str, request: &ChatRequest, streamed: bool) -> Value {
        let mut body = json!({ "model": model, "messages": messages(request), "stream": streamed });
        if !request.tools.is_empty() {
            let tool = |tool: &hier_core::agent::ToolSpec| {
                let function =
                    json!({ "name": tool.name, "description": tool.description, "parameters": tool.parameters });
                json!({ "type": "function", "function": function })
            };
            body["tools"] = request.tools.iter().map(tool).collect();
        }
        set(&mut body, "format", request.output.as_ref().map(|output| output.schema.clone()));
        let mut options = json!({});
        set(&mut options, "temperature", request.options.temperature);
        set(&mut options, "num_predict", request.options.max_tokens);
        if options != json!({}) {
            body["options"] = options;
        }
        body
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
        let message = piece.get("message").unwrap_or(&Value::Null);
        draft.say(text(message, "content"));
        for call in list(message, "tool_calls") {
            let function = call.get("function").unwrap_or(&Value::Null);
            let args = function.get("arguments").cloned().unwrap_or_default();
            draft.call(None, text(call, "id"), text(function, "name"), args);
        }
        let tokens = |field: &str| piece.get(field).and_then(Value::as_u64);
        draft.count(tokens("prompt_eval_count"), tokens("eval_count"));
        if piece.get("done").and_then(Value::as_bool) == Some(true) {
            draft.ended = true;
            // Servers that call tools say `stop`, and older ones say nothing.
            draft.finish = finish(piece.get("done_reason")).or(Some(hier_core::agent::FinishReason::Stop));
        }
        Ok(())
    }
}

fn messages(request: &ChatRequest) -> Vec<Value> {
    let conversation = Conversation::new(request);
    let system = conversation.system.iter().map(|text| json!({ "role": "system", "content": text }));
    let mut messages: Vec<Value> = system.collect();
    for turn in &conversation.turns {
        match turn {
            Turn::User(content) => messages.push(with_images("user", content)),
            Turn::Model(said) => {
                let mut message = json!({ "role": "assistant", "content": said.text.as_deref().unwrap_or_default() });
                if !said.calls.is_empty() {
                    let call = |call: &crate::conversation::Call<'_>| json!({ "id": call.id, "function": { "name": call.name, "arguments": call.args } });
                    message["tool_calls"] = said.calls.iter().map(call).collect();
                }
                messages.push(message);
                for call in &said.calls {
                    let mut result = with_images("tool", &call.result);
                    result["tool_name"] = json!(call.name);
                    result["tool_call_id"] = json!(call.id);
                    messages.push(result);
                }
            }
        }
    }
    if let Some(output) = &request.output {
        // The server holds the model to the schema, but does not show it to the model.
        let wanted = format!("Answer with JSON of this schema, and with nothing else: {}", output.schema);
        messages.push(json!({ "role": "system", "content": wanted }));
    }
    messages
}

fn with_images(role: &str, content: &Content) -> Value {
    let mut message = json!({ "role": role, "content": content.text() });
    let data: Vec<&str> = images(content)
        .filter_map(|image| match image {
            Image::Data { base64, .. } => Some(base64),
            Image::Address(_) => None,
        })
        .collect();
    if !data.is_empty() {
        message["images"] = json!(data);
    }
    message
}
