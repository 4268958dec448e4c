//! The dialects in which servers are spoken to: what is sent, and how what comes back is read.

mod anthropic;
mod ollama;
mod openai;

use hier_core::agent::{ChatRequest, FinishReason};
use serde_json::Value;

use crate::draft::Draft;
use crate::error::Failure;

/// A dialect. Its functions are pure: requests and answers are JSON.
pub(crate) trait Wire: Send + Sync {
    /// The name of the provider, as OpenTelemetry's conventions spell it, and as [`Model::parse`](crate::Model::parse)
    /// takes it.
    fn name(&self) -> &'static str;

    /// Where the provider itself is.
    fn url(&self) -> &'static str;

    /// The environment variable that has the provider's key.
    fn key_variable(&self) -> Option<&'static str>;

    /// What stands behind the address.
    fn endpoint(&self) -> &'static str;

    /// The header that has the key, and the headers that each request has.
    fn headers(&self, key: Option<&str>) -> Vec<(&'static str, String)>;

    /// How a streamed answer is cut into pieces.
    fn framing(&self) -> Framing;

    /// Why the server cannot be asked this, if it cannot.
    fn unfit(&self, request: &ChatRequest) -> Option<String>;

    /// The request.
    fn body(&self, model: &str, request: &ChatRequest, streamed: bool) -> Value;

    /// Reads a whole answer.
    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure>;

    /// Reads a piece of a streamed answer.
    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure>;
}

/// How a streamed answer is cut into pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// A JSON value a line.
    Lines,
}

/// All dialects.
pub(crate) const ALL: [&dyn Wire; 3] = [OPENAI, ANTHROPIC, OLLAMA];
/// OpenAI's chat completions, which many servers speak.
pub(crate) const OPENAI: &dyn Wire = &openai::OpenAi;
/// Anthropic's messages.
pub(crate) const ANTHROPIC: &dyn Wire = &anthropic::Anthropic;
/// Ollama's own.
pub(crate) const OLLAMA: &dyn Wire = &ollama::Ollama;

/// What providers call the reasons for which answers end.
const REASONS: [(&[&str], FinishReason); 4] = [
    (&["stop", "end_turn", "stop_sequence", "eos"], FinishReason::Stop),
    (&["length", "max_tokens", "model_context_window_exceeded"], FinishReason::Length),
    (&["tool_calls", "tool_use", "function_call"], FinishReason::ToolCalls),
    (&["content_filter", "refusal"], FinishReason::ContentFilter),
];

/// The reason that a provider gives for the end of an answer.
fn finish(value: Option<&Value>) -> Option<FinishReason> {
    let text = value?.as_str().filter(|text| !text.is_empty())?;
    let known = REASONS.iter().find(|(names, _)| names.contains(&text)).map(|(_, reason)| reason.clone());
    Some(known.unwrap_or_else(|| FinishReason::Other(text.to_owned())))
}

/// Refuses what says that something went wrong.
fn no_error(answer: &Value) -> Result<(), Failure> {
    match answer.get("error") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(Failure::said(answer)),
    }
}

/// The text of a field; empty if there is none.
fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

/// The items of a field; none if there is no such list.
fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Sets a field, unless its value is none.
fn set<T: Into<Value>>(object: &mut Value, field: &str, value: Option<T>) {
    if let Some(value) = value {
        object[field] = value.into();
    }
}
