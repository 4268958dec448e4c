//! A model behind an HTTP server.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::Stream;
use genai::chat::{ChatOptions, ChatStreamEvent};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget, WebConfig};
use hier_core::agent::{ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError};
use hier_core::async_trait;
use hier_core::graph::Retry;
use tracing::instrument::{WithDispatch, WithSubscriber};
use tracing::subscriber::NoSubscriber;

use crate::dialect::{self, Address, Dialect};
use crate::error::{Failure, ParseModelError, failure};
use crate::{answer, ask, attempt, pieces};

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
    dialect: Dialect,
    name: String,
    url: String,
    key: Key,
    retry: Retry,
    timeout: Duration,
    /// Made when the model is first asked, so that a setting made after it counts.
    client: std::sync::OnceLock<Client>,
}

/// Where the key is.
#[derive(Clone)]
enum Key {
    None,
    Given(String),
    /// In this environment variable, when the model was made.
    Missing(&'static str),
}

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(10);
/// How long an answer may take, unless set: long ones of slow models take minutes.
const ANSWER: Duration = Duration::from_secs(600);

impl Model {
    /// A model of OpenAI. The key is in `OPENAI_API_KEY`, unless [given](Self::key).
    pub fn openai(name: impl Into<String>) -> Self {
        Self::of(Dialect::OpenAi, name.into())
    }

    /// A model of Anthropic. The key is in `ANTHROPIC_API_KEY`, unless [given](Self::key).
    pub fn anthropic(name: impl Into<String>) -> Self {
        Self::of(Dialect::Anthropic, name.into())
    }

    /// A model of an Ollama server, which is at `http://localhost:11434` unless [said otherwise](Self::url).
    pub fn ollama(name: impl Into<String>) -> Self {
        Self::of(Dialect::Ollama, name.into())
    }

    /// A model of a server that speaks like OpenAI's, at this address (`http://localhost:8080/v1`): llama.cpp, vLLM, LM
    /// Studio and many providers. It is sent no key unless one is [given](Self::key).
    pub fn at(url: impl Into<String>, name: impl Into<String>) -> Self {
        Self::make(Dialect::OpenAi, name.into(), &url.into(), Key::None)
    }

    /// The model that a text names: `openai:gpt-4o`, `anthropic:claude-sonnet-4-5`, `ollama:qwen3`, or the URL of a server
    /// that speaks like OpenAI's, with the model's name behind `#` (`http://localhost:8080/v1#smollm2`; without it,
    /// `default`).
    pub fn parse(text: &str) -> Result<Self, ParseModelError> {
        Ok(match dialect::parse(text)? {
            Address::Provider(dialect, name) => Self::of(dialect, name.to_owned()),
            Address::Url(url, name) => Self::at(url, name),
        })
    }

    fn of(dialect: Dialect, name: String) -> Self {
        let key = match dialect.key_variable() {
            None => Key::None,
            Some(variable) => match std::env::var(variable) {
                Ok(key) if !key.trim().is_empty() => Key::Given(key.trim().to_owned()),
                _ => Key::Missing(variable),
            },
        };
        Self::make(dialect, name, dialect.url(), key)
    }

    fn make(dialect: Dialect, name: String, url: &str, key: Key) -> Self {
        let inner = Inner {
            dialect,
            name,
            url: slashed(url),
            key,
            retry: Retry::default(),
            timeout: ANSWER,
            client: std::sync::OnceLock::new(),
        };
        Self(Arc::new(inner))
    }

    fn with(mut self, set: impl FnOnce(&mut Inner)) -> Self {
        let inner = Arc::make_mut(&mut self.0);
        set(inner);
        inner.client = std::sync::OnceLock::new();
        self
    }

    /// The same model with this key.
    #[must_use]
    pub fn key(self, key: impl Into<String>) -> Self {
        self.with(|inner| inner.key = Key::Given(key.into()))
    }

    /// The same model at another address: that of a proxy, for instance. It is spoken to in the same way.
    #[must_use]
    pub fn url(self, url: impl Into<String>) -> Self {
        self.with(|inner| inner.url = slashed(&url.into()))
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

/// The client logs what servers answer, and a server may repeat a key. What is worth a log line we write ourselves.
pub(crate) fn silent<F: Future>(call: F) -> WithDispatch<F> {
    call.with_subscriber(NoSubscriber::new())
}

/// The client joins a path to the address, which replaces what stands behind its last slash.
fn slashed(url: &str) -> String {
    let (path, query) = url.split_at(url.find('?').unwrap_or(url.len()));
    format!("{}/{query}", path.trim_end_matches('/'))
}

impl Inner {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn key(&self) -> Option<&str> {
        match &self.key {
            Key::Given(key) => Some(key),
            Key::None | Key::Missing(_) => None,
        }
    }

    pub(crate) fn failure(&self, error: &genai::Error) -> Failure {
        failure(&self.name, self.key(), &self.url, error)
    }

    /// Whether a stream that ends has always said what it cost.
    pub(crate) fn tells_cost(&self) -> bool {
        self.dialect == Dialect::Ollama
    }

    /// Asks, once.
    async fn answer(&self, request: &ChatRequest) -> Result<ChatResponse, Failure> {
        let (asked, options) = self.asked(request)?;
        let answer = silent(self.client()?.exec_chat(self.target()?, asked, Some(&options))).await;
        let answer = answer.map_err(|error| self.failure(&error))?;
        let reported = answer.provider_model_iden.model_name.to_string();
        Ok(answer::response(&self.name, request, answer.content, Some(&answer.usage), Some(reported))?)
    }

    /// Asks, once, for an answer piece by piece.
    pub(crate) async fn events(
        &self,
        request: &ChatRequest,
    ) -> Result<Pin<Box<dyn Stream<Item = genai::Result<ChatStreamEvent>> + Send>>, Failure> {
        let (asked, options) = self.asked(request)?;
        let answer = silent(self.client()?.exec_chat_stream(self.target()?, asked, Some(&options))).await;
        answer.map(|answer| Box::pin(answer.stream) as _).map_err(|error| self.failure(&error))
    }

    /// The request in the words of the client.
    fn asked(&self, request: &ChatRequest) -> Result<(genai::chat::ChatRequest, ChatOptions), Failure> {
        if let Some(reason) = ask::unfit(request, self.dialect) {
            return Err(ModelError::Refused { model: self.name.clone(), reason }.into());
        }
        Ok((ask::request(request, self.dialect), ask::options(request, self.dialect)))
    }

    fn target(&self) -> Result<ServiceTarget, Failure> {
        Ok(ServiceTarget {
            endpoint: Endpoint::from_owned(self.url.as_str()),
            auth: self.auth()?,
            model: ModelIden::new(self.dialect.adapter(self.key().is_some()), self.name.as_str()),
        })
    }

    fn auth(&self) -> Result<AuthData, Failure> {
        match &self.key {
            Key::Given(key) => Ok(AuthData::from_single(key)),
            Key::None if self.dialect == Dialect::OpenAi => {
                // The client sends a key in this dialect, even an empty one, unless it is told all headers.
                let (path, query) = self.url.split_at(self.url.find('?').unwrap_or(self.url.len()));
                let url = format!("{path}chat/completions{query}");
                Ok(AuthData::RequestOverride { url, headers: genai::Headers::default() })
            }
            Key::None => Ok(AuthData::None),
            Key::Missing(variable) => {
                let reason = format!("it needs a key: set `{variable}`, or give one with `Model::key`");
                Err(ModelError::Refused { model: self.name.clone(), reason }.into())
            }
        }
    }

    fn client(&self) -> Result<&Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let config = WebConfig::default().with_connect_timeout(CONNECT).with_timeout(self.timeout);
        let client = Client::builder().with_web_config(config).build();
        let client = client.map_err(|error| self.failure(&error))?;
        Ok(self.client.get_or_init(|| client))
    }
}

#[async_trait]
impl ChatModel for Model {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn provider(&self) -> &str {
        self.0.dialect.name()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        let inner = &self.0;
        attempt::attempts(&inner.name, inner.retry, || inner.answer(&request)).await
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let inner = &self.0;
        attempt::attempts(&inner.name, inner.retry, || pieces::open(inner.clone(), request.clone())).await
    }
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model")
            .field("provider", &self.0.dialect.name())
            .field("name", &self.0.name)
            .field("url", &dialect::without_secrets(&self.0.url))
            .finish_non_exhaustive()
    }
}
