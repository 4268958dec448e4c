//! A model behind an HTTP server.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hier_core::agent::{ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError};
use hier_core::async_trait;
use hier_core::graph::Retry;

use crate::address::{self, Address};
use crate::endpoint::{Endpoint, Key};
use crate::error::ParseModelError;
use crate::secret::shown;
use crate::wire::{self, Wire};
use crate::{attempt, pieces};

/// A model behind an HTTP server. A clone is another handle to the same.
///
/// ```
/// use std::sync::Arc;
/// use hier_core::agent::ChatModel;
/// use hier_models::Model;
///
/// let model: Arc<dyn ChatModel> = Arc::new(Model::at("http://localhost:8080/v1", "smollm2"));
/// assert_eq!(model.name(), "smollm2");
/// ```
#[derive(Clone)]
pub struct Model(Arc<Endpoint>);

/// How long an answer may take, unless set: long ones of slow models take minutes.
const ANSWER: Duration = Duration::from_secs(600);

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

    /// The model that a text names: `openai:gpt-4o`, `anthropic:claude-sonnet-4-5`, `ollama:qwen3`, or the URL of a server
    /// that speaks like OpenAI's, with the model's name behind `#` (`http://localhost:8080/v1#smollm2`; without it,
    /// `default`).
    pub fn parse(text: &str) -> Result<Self, ParseModelError> {
        Ok(match address::parse(text)? {
            Address::Provider(wire, name) => Self::of(wire, name.to_owned()),
            Address::Url(url, name) => Self::at(url, name),
        })
    }

    fn of(wire: &'static dyn Wire, name: String) -> Self {
        let key = match wire.key_variable() {
            None => Key::None,
            Some(variable) => match std::env::var(variable) {
                Ok(key) if !key.trim().is_empty() => Key::Given(key.trim().to_owned()),
                _ => Key::Missing(variable),
            },
        };
        Self::make(wire, name, wire.url().to_owned(), key)
    }

    fn make(wire: &'static dyn Wire, name: String, url: String, key: Key) -> Self {
        let (retry, timeout, client) = (Retry::default(), ANSWER, OnceLock::new());
        Self(Arc::new(Endpoint { wire, name, url, key, retry, timeout, client }))
    }

    fn with(mut self, set: impl FnOnce(&mut Endpoint)) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        set(inner);
        inner.client = OnceLock::new();
        self
    }

    /// The same model with this key. White space around it is dropped.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|inner| inner.key = Key::Given(key.into().trim().to_owned()))
    }

    /// The same model at another address: that of a proxy, for instance. It is spoken to in the same way. The key and the
    /// conversation go to this address only: a server that redirects is an error.
    #[must_use]
    pub fn url(self, url: impl Into<String>) -> Self {
        self.with(|inner| inner.url = url.into())
    }

    /// The same model, tried this often (3 times unless said): only where another attempt may help, which is when the
    /// server cannot be reached, is too busy (429), or fails itself (5xx).
    #[must_use]
    pub fn retry(self, retry: impl Into<Retry>) -> Self {
        self.with(|inner| inner.retry = retry.into())
    }

    /// The same model, whose answers may take this long each (10 minutes unless said). It bounds a stream as a whole.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> Self {
        self.with(|inner| inner.timeout = timeout)
    }
}

#[async_trait]
impl ChatModel for Model {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn provider(&self) -> &str {
        self.0.wire.name()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let inner = &self.0;
        attempt::attempts(&inner.name, &inner.secrets(), inner.retry, || inner.answer(&request)).await
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let inner = &self.0;
        let open = || pieces::open(inner.clone(), request.clone());
        attempt::attempts(&inner.name, &inner.secrets(), inner.retry, open).await
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("provider", &self.0.wire.name())
            .field("name", &self.0.name)
            .field("url", &shown(&self.0.url))
            .finish_non_exhaustive()
    }
}
