//! A model behind an HTTP server.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hier_core::agent::{ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError};
use hier_core::async_trait;
use hier_core::graph::Retry;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};

use crate::address::{self, Address};
use crate::draft::Draft;
use crate::error::{Failure, ParseModelError};
use crate::secret::{Secrets, shown};
use crate::transport::{self, Destination};
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
pub struct Model(Arc<Inner>);

#[derive(Clone)]
pub(crate) struct Inner {
    wire: &'static dyn Wire,
    name: String,
    url: String,
    key: Key,
    retry: Retry,
    timeout: Duration,
    /// Made when the model is first asked, so that a setting made after it counts.
    client: OnceLock<Client>,
}

/// Where the key is.
#[derive(Clone)]
enum Key {
    None,
    Given(String),
    /// In this environment variable, when the model was made.
    Missing(&'static str),
}

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
        Self(Arc::new(Inner { wire, name, url, key, retry, timeout, client }))
    }

    fn with(mut self, set: impl FnOnce(&mut Inner)) -> Self {
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

impl Inner {
    pub(crate) fn wire(&self) -> &'static dyn Wire {
        self.wire
    }

    pub(crate) fn timeout(&self) -> Duration {
        self.timeout
    }

    fn secrets(&self) -> Secrets {
        let key = match &self.key {
            Key::Given(key) => Some(&**key),
            Key::None | Key::Missing(_) => None,
        };
        Secrets::new(key, &self.url)
    }

    /// A failure as users see it.
    pub(crate) fn told(&self, failure: Failure) -> ModelError {
        failure.told(&self.name, &self.secrets())
    }

    /// Sends a request, once.
    pub(crate) async fn send(&self, request: &ChatRequest, streamed: bool) -> Result<Response, Failure> {
        if let Some(reason) = self.wire.unfit(request) {
            return Err(Failure::refused(reason));
        }
        let headers = self.headers()?;
        let url = address::join(&self.url, self.wire.endpoint());
        let to = Destination { url, headers, timeout: self.timeout };
        transport::send(self.client()?, &to, &self.wire.body(&self.name, request, streamed)).await
    }

    /// Reads a whole answer.
    pub(crate) async fn read(&self, request: &ChatRequest, answer: Response) -> Result<ChatResponse, Failure> {
        let answer = transport::json(answer, self.timeout).await?;
        let mut draft = Draft::default();
        self.wire.whole(&mut draft, &answer)?;
        draft.answer(request)
    }

    /// Asks, once.
    async fn answer(&self, request: &ChatRequest) -> Result<ChatResponse, Failure> {
        let answer = self.send(request, false).await?;
        self.read(request, answer).await
    }

    fn headers(&self) -> Result<HeaderMap, Failure> {
        let key = match &self.key {
            Key::Given(key) => Some(&**key),
            Key::None => None,
            Key::Missing(variable) => {
                let reason = format!("it needs a key: set `{variable}`, or give one with `Model::key`");
                return Err(Failure::refused(reason));
            }
        };
        let mut headers = HeaderMap::new();
        for (name, value) in self.wire.headers(key) {
            let mut value = HeaderValue::try_from(value).map_err(|_| {
                Failure::refused("its key has letters that no key has: look at what `Model::key` is given")
            })?;
            value.set_sensitive(true);
            headers.insert(HeaderName::from_static(name), value);
        }
        Ok(headers)
    }

    fn client(&self) -> Result<&Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = transport::client(self.timeout).map_err(|error| Failure::transport(&error, self.timeout))?;
        Ok(self.client.get_or_init(|| client))
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
