//! A model behind an HTTP server.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hier_agents::{ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError, OutputSpec};
use hier_core::async_trait;
use hier_core::graph::Retry;

use crate::address::{self, Address};
use crate::endpoint::Endpoint;
use crate::error::ParseModelError;
use crate::pieces;
use crate::secret::shown;
use crate::server::{Key, Server};
use crate::wire::{self, Wire};

/// A model behind an HTTP server. A clone is another handle to the same.
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
pub struct Model(Arc<Endpoint>);

impl Model {
    /// A model of OpenAI. The key is in `OPENAI_API_KEY`, unless [given](Self::key).
    pub fn openai(name: impl Into<String>) -> Self {
        Self::of(wire::OPENAI, name.into())
    }

    /// A model of Anthropic. The key is in `ANTHROPIC_API_KEY`, unless [given](Self::key).
    pub fn anthropic(name: impl Into<String>) -> Self {
        Self::of(wire::ANTHROPIC, name.into())
    }

    /// A model of an Ollama server, which is at `http://localhost:11434` unless [said otherwise](Self::url).
    pub fn ollama(name: impl Into<String>) -> Self {
        Self::of(wire::OLLAMA, name.into())
    }

    /// A model of a server that speaks like OpenAI's, at this address (`http://localhost:8080/v1`): llama.cpp, vLLM, LM
    /// Studio and many providers. It is sent no key unless one is [given](Self::key).
    pub fn at(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self::make(wire::OPENAI, name.into(), url.into(), Key::None)
    }

    /// A model of Google's Gemini. The key is in `GEMINI_API_KEY`, unless [given](Self::key).
    pub fn gemini(name: impl Into<String>) -> Self {
        Self::of(wire::GEMINI, name.into())
    }

    /// A model of OpenAI, asked by way of its responses, which keep what a model thought between its calls. The key is in
    /// `OPENAI_API_KEY`, unless [given](Self::key). Nothing is stored there.
    pub fn responses(name: impl Into<String>) -> Self {
        Self::of(wire::RESPONSES, name.into())
    }

    /// The model that a text names: `openai:gpt-4o`, `responses:gpt-5`, `anthropic:claude-sonnet-4-5`, `gemini:…`,
    /// `ollama:qwen3`, or the URL of a server that speaks like OpenAI's, with the model's name behind `#`
    /// (`http://localhost:8080/v1#smollm2`; without it, `default`). A server that speaks otherwise has the dialect before
    /// it: `responses+https://…`, `anthropic+http://…`. A URL is sent no key unless one is [given](Self::key).
    pub fn parse(text: &str) -> Result<Self, ParseModelError> {
        let dialects = wire::ALL.map(|wire| (wire.name(), wire));
        Ok(match address::parse(text, &dialects)? {
            Address::Provider(wire, name) => Self::of(wire, name.to_owned()),
            Address::Url(wire, url, name) => {
                Self::make(wire.unwrap_or(wire::OPENAI), name.to_owned(), url.to_owned(), Key::None)
            }
        })
    }

    fn of(wire: &'static dyn Wire, name: String) -> Self {
        let model = Self::make(wire, name, wire.url().to_owned(), Key::in_variable(wire.key_variable()));
        model.with(|server| server.is_provider = true)
    }

    fn make(wire: &'static dyn Wire, name: String, url: String, key: Key) -> Self {
        Self(Arc::new(Endpoint { wire, server: Server::new(name, url, key) }))
    }

    fn with(mut self, set: impl FnOnce(&mut Server)) -> Self {
        Arc::make_mut(&mut self.0).server.set(set);
        self
    }

    /// The same model with this key. White space around it is dropped.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|server| server.key = Key::new(&key.into()))
    }

    /// The same model at another address: that of a proxy, for instance. It is spoken to in the same way. The key and the
    /// conversation go to this address only: a server that redirects is an error.
    #[must_use]
    pub fn url(self, url: impl Into<String>) -> Self {
        self.with(|server| server.url = url.into())
    }

    /// The same model, tried this often (3 times unless said): only where another attempt may help, which is when the
    /// server cannot be reached, is too busy (429), or fails itself (5xx).
    #[must_use]
    pub fn retry(self, retry: impl Into<Retry>) -> Self {
        self.with(|server| server.retry = retry.into())
    }

    /// The same model, of which it is known how many tokens it reads and writes at once
    /// ([`ChatModel::context_tokens`]). Those of OpenAI, Anthropic and Gemini say it themselves; of a server of one's own it is set
    /// there (`--ctx-size`, `num_ctx`).
    #[must_use]
    pub fn with_context_tokens(self, tokens: u64) -> Self {
        self.with(|server| server.context_tokens = Some(tokens))
    }

    /// Sets whether the model obeys the schema of an answer even when it may call tools. Defaults to true for OpenAI from `gpt-4o` on,
    /// for Anthropic from 4.5 on, and for Gemini from 3 on. Defaults to false for Ollama and custom [addresses](Self::at), since such
    /// servers accept either tools or a schema. If it is false, an agent with `answer:` offers the model a tool for the answer.
    #[must_use]
    pub fn with_native_output(self, native: bool) -> Self {
        self.with(|server| server.native_output = Some(native))
    }

    /// Sets the time limit of a complete answer, including its stream. Defaults to 10 minutes.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|server| server.timeout = timeout)
    }

    /// Sets the time after which a silent stream is aborted. Defaults to 2 minutes. Only data counts, not comments or pings. If a stream
    /// stalls before it has sent text or a call, the request is retried as often as [`retry`](Self::retry) allows. A model that thinks
    /// for longer without sending its thoughts needs a longer limit.
    #[must_use]
    pub fn idle(self, idle: Duration) -> Self {
        self.with(|server| server.idle = idle)
    }
}

#[async_trait]
impl ChatModel for Model {
    fn name(&self) -> &str {
        &self.0.server.name
    }

    fn provider(&self) -> &str {
        self.0.wire.provider()
    }

    fn native_output(&self, shape: &OutputSpec) -> bool {
        let Endpoint { wire, server } = &*self.0;
        let keeps = server.native_output.unwrap_or_else(|| server.is_provider && wire.keeps_to_schemas(&server.name));
        keeps && wire.takes(&shape.schema)
    }

    fn context_tokens(&self) -> Option<u64> {
        let Endpoint { wire, server } = &*self.0;
        let known = || wire.context_tokens(&server.name).filter(|_| server.is_provider);
        server.context_tokens.or_else(known)
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.0.answer(&request).await
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        pieces::open(self.0.clone(), request).await
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("provider", &self.0.wire.provider())
            .field("name", &self.0.server.name)
            .field("url", &shown(&self.0.server.url))
            .finish_non_exhaustive()
    }
}
