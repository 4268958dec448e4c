//! What the client hands over, as an answer of ours.

use genai::chat::{MessageContent, Usage};
use hier_core::agent::{self, ChatResponse, Message, ModelError};

/// The answer of this model to this request.
pub(crate) fn response(
    model: &str,
    request: &agent::ChatRequest,
    content: MessageContent,
    usage: Option<&Usage>,
    reported: Option<String>,
) -> Result<ChatResponse, ModelError> {
    let text = content.texts().concat();
    let calls: Vec<_> = content.into_tool_calls().into_iter().map(call).collect();
    if request.output.is_some() && calls.is_empty() {
        serde_json::from_str::<serde_json::Value>(&text).map_err(|error| ModelError::BadAnswer {
            model: model.to_owned(),
            reason: format!("it was to be JSON of a given shape and is none: {error}"),
        })?;
    }
    let message = Message::calls(text, calls);
    let message = match usage.and_then(cost) {
        Some(usage) => message.with_usage(usage),
        None => message,
    };
    Ok(ChatResponse { message, model: reported })
}

/// Arguments that came as text are JSON; what is none stays text, which the tool refuses in words for the model.
fn call(call: genai::chat::ToolCall) -> agent::ToolCall {
    let args = match call.fn_arguments {
        serde_json::Value::String(text) if text.trim().is_empty() => serde_json::json!({}),
        serde_json::Value::String(text) => serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text)),
        value => value,
    };
    agent::ToolCall { name: call.fn_name, args, id: call.call_id }
}

/// What the answer cost, if the provider says anything about it.
fn cost(usage: &Usage) -> Option<agent::Usage> {
    let tokens = |count: Option<i32>| count.and_then(|count| u64::try_from(count).ok());
    match (tokens(usage.prompt_tokens), tokens(usage.completion_tokens)) {
        // No prompt is empty: this provider does not count.
        (None | Some(0), None | Some(0)) => None,
        (input, output) => Some(agent::Usage::new(input.unwrap_or(0), output.unwrap_or(0))),
    }
}
