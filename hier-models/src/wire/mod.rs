//! The dialects of servers: their requests and answers.

mod anthropic;
#[cfg(feature = "bedrock")]
mod bedrock;
mod blocks;
mod claude;
mod gemini;
mod grounding;
mod hosted;
mod ollama;
mod openai;
mod own_tools;
#[cfg(test)]
pub(crate) mod recorded;
mod responses;
mod schema;
mod shared;
mod thinking;
mod tool_search;

pub(crate) use gemini::resource;
pub(crate) use hosted::{AZURE, OPENROUTER, azure_url, vertex};
pub(crate) use shared::check_no_error;

use hier_agents::ChatRequest;
use serde_json::Value;

use crate::draft::AnswerDraft;
use crate::error::ModelFailure;
use crate::provider_tools::ProviderTools;

/// A dialect: the API of a provider, as pure functions from and to JSON.
pub(crate) trait Dialect: Send + Sync {
    fn info(&self) -> &DialectInfo;

    /// The path of the request, relative to the server's URL.
    fn path(&self, _model: &str, _streamed: bool) -> String {
        self.info().path.to_owned()
    }

    /// The headers of a request to this model. Defaults to the key as a bearer token.
    fn headers(&self, _model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        key.map(|key| ("authorization", format!("Bearer {key}"))).into_iter().collect()
    }

    /// Returns the maker of a model's thoughts, which are sent back only to their maker. Defaults to the dialect and
    /// the host.
    fn maker(&self, _model: &str, url: &str) -> String {
        format!("{}@{}", self.info().name, host(url))
    }

    /// Returns true if this model obeys a schema even when it may call tools.
    fn obeys_schemas(&self, _model: &str) -> bool {
        false
    }

    fn accepts_schema(&self, _schema: &Value) -> bool {
        true
    }

    /// Returns the context size of this model in tokens, if it is known.
    fn context_tokens(&self, _model: &str) -> Option<u64> {
        None
    }

    fn reports_cost(&self) -> bool {
        false
    }

    /// Returns true if the provider searches the deferred tools of this model's requests. `None` if the API has no such
    /// search.
    fn searches_tools(&self, _model: &str) -> Option<bool> {
        None
    }

    /// Builds the request, without the `extra` options. Fails if the provider lacks an option.
    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure>;

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure>;

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure>;
}

#[derive(Debug)]
pub(crate) struct DialectInfo {
    /// The name in [`Model::parse`](crate::Model::parse).
    pub(crate) name: &'static str,
    /// The provider's name in the conventions of OpenTelemetry.
    pub(crate) provider: &'static str,
    pub(crate) url: &'static str,
    /// The environment variable with the provider's key.
    pub(crate) key_variable: Option<&'static str>,
    /// The default of [`Dialect::path`].
    pub(crate) path: &'static str,
    pub(crate) framing: Framing,
}

/// A request before it is written in a dialect.
#[derive(Clone, Copy)]
pub(crate) struct WireRequest<'a> {
    pub(crate) model: &'a str,
    /// The maker of the thoughts that are sent back.
    pub(crate) maker: &'a str,
    pub(crate) request: &'a ChatRequest,
    pub(crate) tools: &'a ProviderTools,
    /// The configured override of [`Dialect::obeys_schemas`].
    pub(crate) native_output: Option<bool>,
    pub(crate) searches_tools: bool,
    pub(crate) streamed: bool,
}

/// The format of a streamed answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Events,
    /// One JSON value per line.
    Lines,
    /// Binary frames with checksums.
    #[cfg(feature = "bedrock")]
    Frames,
}

/// The dialects themselves, without [`HOSTED`].
pub(crate) const ALL: [&dyn Dialect; 5] = [OPENAI, RESPONSES, ANTHROPIC, GEMINI, OLLAMA];
/// Other providers that [`Model::parse`](crate::Model::parse) knows.
pub(crate) const HOSTED: &[&dyn Dialect] = &[
    AZURE,
    OPENROUTER,
    #[cfg(feature = "bedrock")]
    BEDROCK,
];
#[cfg(feature = "bedrock")]
pub(crate) const BEDROCK: &dyn Dialect = &bedrock::Bedrock;
/// OpenAI's chat completions API, which many servers offer.
pub(crate) const OPENAI: &dyn Dialect = &openai::OpenAi;
pub(crate) const RESPONSES: &dyn Dialect = &responses::Responses;
pub(crate) const ANTHROPIC: &dyn Dialect = &anthropic::Anthropic;
pub(crate) const GEMINI: &dyn Dialect = &gemini::Gemini;
pub(crate) const OLLAMA: &dyn Dialect = &ollama::Ollama;

fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    rest.rsplit_once('@').map_or(rest, |(_, host)| host)
}

/// Builds a request, with the `extra` options merged into it.
pub(crate) fn request(wire: &dyn Dialect, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
    let mut body = wire.body(wire_request)?;
    match &wire_request.request.options.extra {
        Value::Null => {}
        extra @ Value::Object(_) => merge(&mut body, extra),
        _ => {
            return Err(ModelFailure::refused(
                "`ModelOptions::extra` must be a JSON object: its fields go into the request",
            ));
        }
    }
    Ok(body)
}

/// Merges objects field by field at every level, and appends lists, so that the provider's own tools are added to the
/// program's. Replaces other values.
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
