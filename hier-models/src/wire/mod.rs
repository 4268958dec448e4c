//! The dialects in which servers are spoken to: what is sent, and how what comes back is read.

mod anthropic;
mod blocks;
mod claude;
mod gemini;
mod ollama;
mod openai;
#[cfg(test)]
pub(crate) mod recorded;
mod responses;
mod schema;
mod shared;
mod thinking;

pub(crate) use gemini::resource;
pub(crate) use shared::no_error;

use hier_agents::ChatRequest;
use serde_json::Value;

use crate::draft::Draft;
use crate::error::Failure;

/// A dialect. Its functions are pure: requests and answers are JSON.
pub(crate) trait Wire: Send + Sync {
    /// Its name, as [`Model::parse`](crate::Model::parse) takes it.
    fn name(&self) -> &'static str;

    /// The name of the provider, as OpenTelemetry's conventions spell it.
    fn provider(&self) -> &'static str {
        self.name()
    }

    /// Where the provider itself is.
    fn url(&self) -> &'static str;

    /// The environment variable that has the provider's key.
    fn key_variable(&self) -> Option<&'static str>;

    /// What stands behind the address.
    fn endpoint(&self, model: &str, streamed: bool) -> String;

    /// The header that has the key, and the headers that each request to this model has.
    fn headers(&self, model: &str, key: Option<&str>) -> Vec<(&'static str, String)>;

    /// How a streamed answer is cut into pieces.
    fn framing(&self) -> Framing;

    /// Whether what a model thought can be sent back to this dialect wherever it is spoken, and not only to the host that
    /// answered.
    fn is_one_maker(&self) -> bool {
        false
    }

    /// Whether this model keeps to a schema also where it may call tools.
    fn keeps_to_schemas(&self, _model: &str) -> bool {
        false
    }

    /// Returns true if the dialect can hold an answer to this schema.
    fn takes(&self, _schema: &Value) -> bool {
        true
    }

    /// How many tokens this model reads and writes at once, as the provider says. None if it says nothing, or if it is set where the
    /// model is served.
    fn context_tokens(&self, _model: &str) -> Option<u64> {
        None
    }

    /// The request, without the options' `extra`. A failure if the server cannot be asked this.
    fn body(&self, asked: &Asked<'_>) -> Result<Value, Failure>;

    /// Reads a whole answer.
    fn whole(&self, draft: &mut Draft, answer: &Value) -> Result<(), Failure>;

    /// Reads a piece of a streamed answer.
    fn piece(&self, draft: &mut Draft, piece: &Value) -> Result<(), Failure>;
}

/// Who is asked what.
#[derive(Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) model: &'a str,
    /// Who made the thoughts that are sent back.
    pub(crate) maker: &'a str,
    pub(crate) request: &'a ChatRequest,
    pub(crate) streamed: bool,
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
pub(crate) const ALL: [&dyn Wire; 5] = [OPENAI, RESPONSES, ANTHROPIC, GEMINI, OLLAMA];
/// OpenAI's chat completions, which many servers speak.
pub(crate) const OPENAI: &dyn Wire = &openai::OpenAi;
/// OpenAI's responses.
pub(crate) const RESPONSES: &dyn Wire = &responses::Responses;
/// Anthropic's messages.
pub(crate) const ANTHROPIC: &dyn Wire = &anthropic::Anthropic;
/// Google's Gemini.
pub(crate) const GEMINI: &dyn Wire = &gemini::Gemini;
/// Ollama's own.
pub(crate) const OLLAMA: &dyn Wire = &ollama::Ollama;

/// Who makes the thoughts of a model at this address: the dialect, and the host unless the dialect is one maker.
pub(crate) fn maker(wire: &dyn Wire, url: &str) -> String {
    if wire.is_one_maker() {
        return wire.name().to_owned();
    }
    format!("{}@{}", wire.name(), host(url))
}

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    rest.rsplit_once('@').map_or(rest, |(_, host)| host)
}

/// The whole request: the dialect's body with the options' `extra` merged into it.
pub(crate) fn request(wire: &dyn Wire, asked: &Asked<'_>) -> Result<Value, Failure> {
    let mut body = wire.body(asked)?;
    match &asked.request.options.extra {
        Value::Null => {}
        extra @ Value::Object(_) => merge(&mut body, extra),
        _ => return Err(Failure::refused("`ModelOptions::extra` is no JSON object: its fields go into the request")),
    }
    Ok(body)
}

/// Merges objects field by field at every level and appends lists, so that a provider's own tools are added to those of the program.
/// Other values are replaced.
fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Array(into), Value::Array(from)) => {
            let new: Vec<Value> = from.iter().filter(|value| !into.contains(value)).cloned().collect();
            into.extend(new);
        }
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (into, from) => *into = from.clone(),
    }
}

#[cfg(test)]
mod tests;
