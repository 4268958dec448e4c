use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hier_agents::{ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError, OutputSpec};
use hier_core::async_trait;

use crate::address::{self, ModelAddress};
use crate::endpoint::ChatEndpoint;
use crate::error::ParseModelError;
use crate::key::ApiKey;
use crate::provider_tools::{FileSearch, ProviderTools, WebSearch};
use crate::secret::redacted_url;
use crate::server::ModelServer;
use crate::streaming;
use crate::wire::{self, Dialect};

#[cfg(feature = "bedrock")]
mod bedrock;

/// The environment variable with the URL of the Azure OpenAI resource.
const AZURE_ENDPOINT: &str = "AZURE_OPENAI_ENDPOINT";

/// A chat model on an HTTP server. Clones share the model.
///
/// ```
/// use std::sync::Arc;
/// use hier_agents::ChatModel;
/// use hier_models::Model;
///
/// let model: Arc<dyn ChatModel> = Arc::new(Model::at("http://localhost:8080/v1", "smollm2"));
/// assert_eq!(model.name(), "smollm2");
/// ```
#[derive(Clone)]
#[must_use]
pub struct Model(Arc<ChatEndpoint>);

impl Model {
    /// Creates an OpenAI model. The key defaults to the environment variable `OPENAI_API_KEY`.
    pub fn openai(name: impl Into<String>) -> Self {
        Self::of_provider(wire::OPENAI, name.into())
    }

    /// Creates an Anthropic model. The key defaults to the environment variable `ANTHROPIC_API_KEY`.
    pub fn anthropic(name: impl Into<String>) -> Self {
        Self::of_provider(wire::ANTHROPIC, name.into())
    }

    /// Creates a model of an Ollama server. The URL defaults to `http://localhost:11434`.
    pub fn ollama(name: impl Into<String>) -> Self {
        Self::of_provider(wire::OLLAMA, name.into())
    }

    /// Creates a model of an OpenAI-compatible server. `url` is the base URL, such as `http://localhost:8080/v1`.
    /// llama.cpp, vLLM, LM Studio and many providers offer this API. By default, the model does not send a key. To send
    /// one, use [`key`](Self::key).
    pub fn at(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self::make(wire::OPENAI, name.into(), url.into(), ApiKey::None)
    }

    /// Creates a Google Gemini model. The key defaults to the environment variable `GEMINI_API_KEY`.
    pub fn gemini(name: impl Into<String>) -> Self {
        Self::of_provider(wire::GEMINI, name.into())
    }

    /// Creates an OpenAI model that uses the responses API. The key defaults to the environment variable
    /// `OPENAI_API_KEY`.
    ///
    /// In this API, the model keeps its reasoning between tool calls: hier sends the reasoning back in encrypted form.
    /// OpenAI does not store the conversation.
    pub fn responses(name: impl Into<String>) -> Self {
        Self::of_provider(wire::RESPONSES, name.into())
    }

    /// Creates a model from a deployment of an Azure OpenAI resource. `resource` is the URL of the resource, such as
    /// `https://NAME.openai.azure.com`. `deployment` is the name of the deployment. The key defaults to the environment
    /// variable `AZURE_OPENAI_API_KEY`. For Microsoft Entra ID, use [`token_with`](Self::token_with).
    ///
    /// The model uses the chat completions of Azure's version 1 API. hier knows the properties of a model by its name.
    /// If the deployment has another name than its model, set [`with_context_tokens`](Self::with_context_tokens) and
    /// [`with_native_output`](Self::with_native_output).
    pub fn azure(resource: impl AsRef<str>, deployment: impl Into<String>) -> Self {
        Self::of_provider(wire::AZURE, deployment.into()).url(wire::azure_url(resource.as_ref()))
    }

    /// Creates an `OpenRouter` model, such as `qwen/qwen3-32b`. The key defaults to the environment variable
    /// `OPENROUTER_API_KEY`.
    ///
    /// `OpenRouter` reports the cost of each reply, so a cost limit works without a price for the model.
    pub fn openrouter(name: impl Into<String>) -> Self {
        Self::of_provider(wire::OPENROUTER, name.into())
    }

    /// Creates a model on Google Vertex AI. If the name starts with `claude`, hier uses Anthropic's API, and otherwise
    /// Google's. The location is a region or `global`. Call [`token_with`](Self::token_with) to set a function that
    /// returns an access token.
    pub fn vertex(project: impl AsRef<str>, location: impl AsRef<str>, name: impl Into<String>) -> Self {
        let name = name.into();
        let (wire, url) = wire::vertex(project.as_ref(), location.as_ref(), &name);
        Self::make(wire, name, url, ApiKey::NoToken).with(|server| server.is_provider = true)
    }

    /// Parses `PROVIDER:NAME` or `URL#NAME`.
    ///
    /// * The providers are `openai`, `responses`, `anthropic`, `gemini`, `ollama`, `openrouter` and `azure`, and, with
    ///   the crate feature `bedrock`, also `bedrock`. Example: `anthropic:claude-sonnet-4-5`.
    /// * With `azure`, give the name of the deployment, and set the environment variable `AZURE_OPENAI_ENDPOINT` to the
    ///   URL of the resource.
    /// * A URL refers to an OpenAI-compatible server: `http://localhost:8080/v1#smollm2`. The name defaults to
    ///   `default`. For another API, put the provider and `+` in front: `responses+https://…`. By default, the model
    ///   does not send a key to a URL. To send one, use [`key`](Self::key).
    pub fn parse(text: &str) -> Result<Self, ParseModelError> {
        #[cfg(not(feature = "bedrock"))]
        if text.starts_with("bedrock:") || text.starts_with("bedrock+") {
            let reason = "enable the feature `bedrock` of `hier-graph` or `hier-models`".to_owned();
            return Err(ParseModelError { text: redacted_url(text), reason });
        }
        let dialects = wire::ALL.iter().chain(wire::HOSTED).map(|wire| (wire.info().name, *wire));
        let dialects: Vec<(&str, _)> = dialects.collect();
        Ok(match address::parse(text, &dialects)? {
            ModelAddress::Provider(wire, name) if wire.info().name == wire::AZURE.info().name => {
                let resource = std::env::var(AZURE_ENDPOINT).map_err(|_| ParseModelError {
                    text: text.to_owned(),
                    reason: format!("set `{AZURE_ENDPOINT}` to the URL of the resource, or use `Model::azure`"),
                })?;
                Self::azure(resource, name)
            }
            #[cfg(feature = "bedrock")]
            ModelAddress::Provider(wire, name) if wire.info().name == wire::BEDROCK.info().name => Self::bedrock(name),
            #[cfg(feature = "bedrock")]
            ModelAddress::Url(Some(wire), url, name) if wire.info().name == wire::BEDROCK.info().name => {
                Self::bedrock_at(url.to_owned(), name.to_owned(), ApiKey::None)
            }
            ModelAddress::Provider(wire, name) => Self::of_provider(wire, name.to_owned()),
            ModelAddress::Url(wire, url, name) => {
                Self::make(wire.unwrap_or(wire::OPENAI), name.to_owned(), url.to_owned(), ApiKey::None)
            }
        })
    }

    fn of_provider(wire: &'static dyn Dialect, name: String) -> Self {
        let info = wire.info();
        let model = Self::make(wire, name, info.url.to_owned(), ApiKey::in_variable(info.key_variable));
        // OpenRouter offers models of other providers in OpenAI's dialect.
        let is_provider = info.name != wire::OPENROUTER.info().name;
        model.with(|server| server.is_provider = is_provider)
    }

    fn make(wire: &'static dyn Dialect, name: String, url: String, key: ApiKey) -> Self {
        Self(Arc::new(ChatEndpoint { wire, server: ModelServer::new(name, url, key), tools: ProviderTools::default() }))
    }

    fn with(mut self, set: impl FnOnce(&mut ModelServer)) -> Self {
        Arc::make_mut(&mut self.0).server.set(set);
        self
    }

    fn with_tools(mut self, set: impl FnOnce(&mut ProviderTools)) -> Self {
        set(&mut Arc::make_mut(&mut self.0).tools);
        self
    }

    crate::server::server_settings!();

    /// Lets the model search the web with a tool of its provider.
    /// [`Message::citations`](hier_agents::Message::citations) returns the sources of a reply.
    ///
    /// This option works with [`anthropic`](Self::anthropic), [`responses`](Self::responses) and
    /// [`gemini`](Self::gemini). A Gemini model before Gemini 3 cannot have the program's tools in the same request.
    /// For [`vertex`](Self::vertex), hier sends the option, and Google decides if the model accepts it. Requests to
    /// other models fail with [`ModelError::Refused`].
    pub fn web_search(self, search: WebSearch) -> Self {
        self.with_tools(|tools| tools.web_search = Some(search))
    }

    /// Lets the model run code in a sandbox of its provider.
    ///
    /// This option works with [`anthropic`](Self::anthropic), [`responses`](Self::responses) and
    /// [`gemini`](Self::gemini). A Gemini model before Gemini 3 cannot have the program's tools in the same request.
    /// For [`vertex`](Self::vertex), hier sends the option, and Google decides if the model accepts it. Requests to
    /// other models fail with [`ModelError::Refused`].
    pub fn code_execution(self) -> Self {
        self.with_tools(|tools| tools.code_execution = true)
    }

    /// Lets the model search files that were uploaded to its provider.
    ///
    /// This option works with [`responses`](Self::responses) and [`gemini`](Self::gemini). A Gemini model before Gemini
    /// 3 cannot have the program's tools in the same request. For Gemini models on [`vertex`](Self::vertex), hier sends
    /// the option, and Google decides if the model accepts it. Requests to other models fail with
    /// [`ModelError::Refused`].
    pub fn file_search(self, search: FileSearch) -> Self {
        self.with_tools(|tools| tools.file_search = Some(search))
    }

    /// Sets the size of the model's context in tokens ([`ChatModel::context_tokens`]). hier knows the sizes of many
    /// models of OpenAI, Anthropic and Gemini, and uses them by default. For your own server, set the same size as in
    /// the server's options, such as `--ctx-size` or `num_ctx`.
    pub fn with_context_tokens(self, tokens: u64) -> Self {
        self.with(|server| server.context_tokens = Some(tokens))
    }

    /// Sets whether the provider enforces an output schema in a request that also has tools. If `native` is false, an
    /// agent with a typed answer does not send a schema. The agent offers the model the tool `final_answer` instead.
    /// For Claude models, hier then also sends no schema in requests without tools, but describes it in an instruction.
    ///
    /// | API | default |
    /// |---|---|
    /// | OpenAI | True for `gpt-4o` and later models, except for `gpt-4o-2024-05-13`, `o1-mini` and `o1-preview`. |
    /// | Anthropic | True from 4.5 on, and for Opus from 4.1 on. |
    /// | Bedrock | True for Claude Opus and Sonnet 4.5 and 4.6, and for Haiku 4.5. |
    /// | Claude on Vertex AI | False, because Google's default policy for organizations rejects schemas. |
    /// | Gemini | True from 3 on. |
    /// | `OpenRouter`, Ollama, [URLs](Self::at) | False, because such servers may reject a request with both tools and a schema. |
    ///
    /// The schemas of some providers cannot describe every type. For such a type, an agent offers the tool even if
    /// `native` is true:
    ///
    /// * Anthropic: types that are recursive, contain maps or arbitrary JSON, or have more than 24 optional fields or more
    ///   than 16 fields with several types, such as `Option`.
    /// * Gemini: types that are recursive.
    ///
    /// For OpenAI, an agent always sends a schema if `native` is true. The schema is not strict if the type contains
    /// maps, arbitrary JSON, or a field that may be missing but not null.
    pub fn with_native_output(self, native: bool) -> Self {
        self.with(|server| server.native_output = Some(native))
    }

    /// Sets whether the provider searches the tools of an agent that has the option `search`. If `searches` is false,
    /// the agent offers the model the tool `search_tools` instead.
    ///
    /// Defaults to true for [`anthropic`](Self::anthropic) from version 4.5 on, and for [`responses`](Self::responses)
    /// from `gpt-5.4` on. For Claude models on [`vertex`](Self::vertex), and for models of these two APIs at another
    /// [URL](Self::parse), defaults to false. The setting has no effect on other models, because their APIs have no
    /// such search.
    pub fn with_tool_search(self, searches: bool) -> Self {
        self.with(|server| server.searches_tools = Some(searches))
    }

    /// Sets the time after which hier aborts a stream that sends no data. Comments do not count as data. Pings count only
    /// if they come from Anthropic's API, because its newer models may reason for minutes without other events. Defaults
    /// to 2 minutes.
    ///
    /// If hier aborts a stream that has not sent text or a tool call yet, hier sends the request again, as often as
    /// [`retry`](Self::retry) allows. Set a longer time for a model that reasons for longer than 2 minutes without
    /// streaming its reasoning.
    pub fn idle_timeout(self, idle_timeout: Duration) -> Self {
        self.with(|server| server.idle_timeout = idle_timeout)
    }
}

#[async_trait]
impl ChatModel for Model {
    fn name(&self) -> &str {
        &self.0.server.name
    }

    fn provider(&self) -> &str {
        self.0.wire.info().provider
    }

    fn native_output(&self, shape: &OutputSpec) -> bool {
        let ChatEndpoint { wire, server, .. } = &*self.0;
        let keeps = server.native_output.unwrap_or_else(|| server.is_provider && wire.obeys_schemas(&server.name));
        keeps && wire.accepts_schema(&shape.schema)
    }

    fn context_tokens(&self) -> Option<u64> {
        let ChatEndpoint { wire, server, .. } = &*self.0;
        let known = || wire.context_tokens(&server.name).filter(|_| server.is_provider);
        server.context_tokens.or_else(known)
    }

    fn reports_cost(&self) -> bool {
        self.0.wire.reports_cost()
    }

    fn searches_tools(&self) -> bool {
        self.0.searches_tools()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.answer(&request).await
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        streaming::open_stream(self.0.clone(), request).await
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("provider", &self.0.wire.info().provider)
            .field("name", &self.0.server.name)
            .field("url", &redacted_url(&self.0.server.url))
            .finish_non_exhaustive()
    }
}
