//! Providers that offer the APIs of other providers at their own addresses.

use hier_agents::Usd;
use serde_json::{Value, json};

use super::{ANTHROPIC, Dialect, DialectInfo, Framing, GEMINI, OPENAI, WireRequest, claude, gemini};
use crate::draft::AnswerDraft;
use crate::error::ModelFailure;

/// Azure's deployments of OpenAI's models.
pub(crate) const AZURE: &dyn Dialect = &Hosted {
    dialect: OPENAI,
    info: DialectInfo {
        name: "azure",
        provider: "azure.ai.openai",
        url: "",
        key_variable: Some("AZURE_OPENAI_API_KEY"),
        path: "chat/completions",
        framing: Framing::Events,
    },
    key_header: Some("api-key"),
    cost: None,
    adapt: |_| {},
};
pub(crate) const OPENROUTER: &dyn Dialect = &Hosted {
    dialect: OPENAI,
    info: DialectInfo {
        name: "openrouter",
        provider: "openrouter",
        url: "https://openrouter.ai/api/v1",
        key_variable: Some("OPENROUTER_API_KEY"),
        path: "chat/completions",
        framing: Framing::Events,
    },
    key_header: None,
    cost: Some(cost_in_credits),
    adapt: |_| {},
};
/// Google's models on Vertex AI.
pub(crate) const VERTEX: &dyn Dialect = &Hosted {
    dialect: GEMINI,
    info: DialectInfo {
        name: "vertex",
        provider: "gcp.vertex_ai",
        url: "",
        key_variable: None,
        path: "",
        framing: Framing::Events,
    },
    key_header: None,
    cost: None,
    adapt: remove_invocations,
};
pub(crate) const VERTEX_CLAUDE: &dyn Dialect = &VertexClaude;

/// A provider that offers the API of another provider.
struct Hosted {
    dialect: &'static dyn Dialect,
    info: DialectInfo,
    /// The header for API keys. Defaults to the header of the dialect.
    key_header: Option<&'static str>,
    /// Finds the cost in an answer or an event, if the provider reports it.
    cost: Option<fn(&Value) -> Option<Usd>>,
    /// Changes a request where the provider differs from the dialect.
    adapt: fn(&mut Value),
}

impl Dialect for Hosted {
    fn info(&self) -> &DialectInfo {
        &self.info
    }

    fn path(&self, model: &str, streamed: bool) -> String {
        self.dialect.path(model, streamed)
    }

    fn headers(&self, model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        match (self.key_header, key) {
            (Some(header), Some(key)) => {
                let mut headers = self.dialect.headers(model, None);
                headers.push((header, key.to_owned()));
                headers
            }
            _ => self.dialect.headers(model, key),
        }
    }

    fn obeys_schemas(&self, model: &str) -> bool {
        self.dialect.obeys_schemas(model)
    }

    fn accepts_schema(&self, schema: &Value) -> bool {
        self.dialect.accepts_schema(schema)
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        self.dialect.context_tokens(model)
    }

    fn reports_cost(&self) -> bool {
        self.cost.is_some()
    }

    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
        let mut body = self.dialect.body(wire_request)?;
        (self.adapt)(&mut body);
        Ok(body)
    }

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
        self.dialect.read_answer(draft, answer)?;
        self.read_cost(draft, answer);
        Ok(())
    }

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
        self.dialect.read_event(draft, event)?;
        self.read_cost(draft, event);
        Ok(())
    }
}

impl Hosted {
    fn read_cost(&self, draft: &mut AnswerDraft, answer: &Value) {
        if let Some(cost) = self.cost.and_then(|cost| cost(answer)) {
            draft.set_cost(cost);
        }
    }
}

/// Reads the cost that `OpenRouter` reports, in credits of one dollar. If the user has configured a key of the
/// provider, the provider charges another amount directly, which is added.
fn cost_in_credits(answer: &Value) -> Option<Usd> {
    let usage = answer.get("usage")?;
    let is_amount = |usd: &f64| (0.0..=Usd::MAX.dollars()).contains(usd);
    let amount = |path: &str| Some(Usd::from_dollars(usage.pointer(path)?.as_f64().filter(is_amount)?));
    let charged = amount("/cost")?;
    if usage.get("is_byok").and_then(Value::as_bool) != Some(true) {
        return Some(charged);
    }
    Some(charged + amount("/cost_details/upstream_inference_cost")?)
}

/// Removes the request for the calls of Google's own tools, a field that Vertex AI refuses.
fn remove_invocations(body: &mut Value) {
    let Some(Value::Object(config)) = body.get_mut("toolConfig") else { return };
    config.remove(gemini::INVOCATIONS);
    if config.is_empty()
        && let Value::Object(fields) = body
    {
        fields.remove("toolConfig");
    }
}

/// The version of the API, which Vertex AI takes in the body.
const VERTEX_VERSION: &str = "vertex-2023-10-16";

/// Anthropic's API with the model in the path.
struct VertexClaude;

impl Dialect for VertexClaude {
    fn info(&self) -> &DialectInfo {
        &DialectInfo {
            name: "anthropic",
            provider: "gcp.vertex_ai",
            url: "",
            key_variable: None,
            path: "",
            framing: Framing::Events,
        }
    }

    fn path(&self, model: &str, streamed: bool) -> String {
        let method = if streamed { "streamRawPredict" } else { "rawPredict" };
        format!("{}:{method}", gemini::resource(model))
    }

    fn headers(&self, model: &str, key: Option<&str>) -> Vec<(&'static str, String)> {
        let key = key.map(|key| ("authorization", format!("Bearer {key}")));
        let binding =
            claude::binds_thoughts(&plain_name(model)).then(|| (claude::BINDING.0, claude::BINDING.1.to_owned()));
        key.into_iter().chain(binding).collect()
    }

    fn maker(&self, model: &str, url: &str) -> String {
        ANTHROPIC.maker(model, url)
    }

    fn accepts_schema(&self, schema: &Value) -> bool {
        ANTHROPIC.accepts_schema(schema)
    }

    fn context_tokens(&self, model: &str) -> Option<u64> {
        ANTHROPIC.context_tokens(&plain_name(model))
    }

    /// Off by default, because some versions of the platform require a header for the search.
    fn searches_tools(&self, _model: &str) -> Option<bool> {
        Some(false)
    }

    fn body(&self, wire_request: &WireRequest<'_>) -> Result<Value, ModelFailure> {
        // By default, an organization's policy on the platform refuses schemas.
        let native_output = Some(wire_request.native_output == Some(true));
        let model = &*plain_name(wire_request.model);
        let mut body = ANTHROPIC.body(&WireRequest { model, native_output, ..*wire_request })?;
        if let Some(fields) = body.as_object_mut() {
            fields.remove("model");
        }
        body["anthropic_version"] = json!(VERTEX_VERSION);
        Ok(body)
    }

    fn read_answer(&self, draft: &mut AnswerDraft, answer: &Value) -> Result<(), ModelFailure> {
        ANTHROPIC.read_answer(draft, answer)
    }

    fn read_event(&self, draft: &mut AnswerDraft, event: &Value) -> Result<(), ModelFailure> {
        ANTHROPIC.read_event(draft, event)
    }
}

/// Returns Anthropic's form of a name: Vertex AI writes `@` in front of the date.
fn plain_name(model: &str) -> String {
    model.replace('@', "-")
}

/// The URL of Azure's API for a resource, such as `https://NAME.openai.azure.com`.
pub(crate) fn azure_url(resource: &str) -> String {
    let resource = resource.trim_end_matches('/');
    if resource.contains("/openai") { resource.to_owned() } else { format!("{resource}/openai/v1") }
}

/// Returns the dialect of a model on Vertex AI, and the URL of its publisher.
pub(crate) fn vertex(project: &str, location: &str, model: &str) -> (&'static dyn Dialect, String) {
    let (dialect, publisher) =
        if model.starts_with("claude") { (VERTEX_CLAUDE, "anthropic") } else { (VERTEX, "google") };
    let host = match location {
        "global" => "aiplatform.googleapis.com".to_owned(),
        // Locations of several regions.
        "us" | "eu" => format!("aiplatform.{location}.rep.googleapis.com"),
        region => format!("{region}-aiplatform.googleapis.com"),
    };
    let url = format!("https://{host}/v1/projects/{project}/locations/{location}/publishers/{publisher}");
    (dialect, url)
}
