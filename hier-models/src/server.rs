//! The connection of a model: its settings, and single requests.

use std::sync::OnceLock;
use std::time::Duration;

use hier_agents::ModelError;
use hier_core::graph::Retry;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use serde_json::Value;

use crate::address;
use crate::error::ModelFailure;
use crate::secret::Secrets;
use crate::transport::{self, RequestTarget};

/// Default time limit of an answer. Slow models need minutes for long answers.
const ANSWER: Duration = Duration::from_mins(10);
/// Default time after which a silent stream is aborted.
const IDLE: Duration = Duration::from_mins(2);
/// The error for a key that cannot be sent in a header.
const BAD_KEY: &str = "the API key contains characters that HTTP headers do not allow: check the value passed to `key`";

/// The settings that chat and embedding models share, as methods of their builders.
macro_rules! server_settings {
    () => {
        /// Sets the API key. Removes white space around it.
        #[must_use]
        pub fn key(self, key: impl Into<String>) -> Self {
            self.with(|server| server.key = $crate::server::ApiKey::new(&key.into()))
        }

        /// Sets the URL, for example of a proxy. The provider's API stays the same.
        ///
        /// The key and the conversation are sent to this URL only: a redirect is an error.
        #[must_use]
        pub fn url(self, url: impl Into<String>) -> Self {
            self.with(|server| server.url = url.into())
        }

        /// Sets the retry policy. Defaults to 3 attempts.
        ///
        /// Only temporary failures are retried: an unreachable server, a busy one (429), or a server error (5xx).
        #[must_use]
        pub fn retry(self, retry: impl Into<hier_core::graph::Retry>) -> Self {
            self.with(|server| server.retry = retry.into())
        }

        /// Sets the time limit of an answer, including its stream. Defaults to 10 minutes.
        #[must_use]
        pub fn timeout(self, timeout: std::time::Duration) -> Self {
            self.with(|server| server.timeout = timeout)
        }
    };
}
pub(crate) use server_settings;

#[derive(Clone)]
pub(crate) struct ModelServer {
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) key: ApiKey,
    pub(crate) retry: Retry,
    pub(crate) timeout: Duration,
    pub(crate) idle_timeout: Duration,
    /// True for a model of the dialect's own provider, at any address.
    pub(crate) is_provider: bool,
    /// The configured context size.
    pub(crate) context_tokens: Option<u64>,
    /// The configured override of [`ChatModel::native_output`](hier_agents::ChatModel::native_output).
    pub(crate) native_output: Option<bool>,
    /// Built for the first request, so that every earlier setting counts.
    client: OnceLock<Client>,
}

#[derive(Clone)]
pub(crate) enum ApiKey {
    None,
    Given(String),
    /// Read from this environment variable when the model was created, and not found.
    Missing(&'static str),
}

impl ApiKey {
    /// Reads a key from an environment variable.
    pub(crate) fn in_variable(variable: Option<&'static str>) -> Self {
        let Some(variable) = variable else { return Self::None };
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Self::new(&key),
            _ => Self::Missing(variable),
        }
    }

    pub(crate) fn new(key: &str) -> Self {
        Self::Given(key.trim().to_owned())
    }
}

impl ModelServer {
    pub(crate) fn new(name: String, url: String, key: ApiKey) -> Self {
        Self {
            name,
            url,
            key,
            retry: Retry::default(),
            timeout: ANSWER,
            idle_timeout: IDLE,
            is_provider: false,
            context_tokens: None,
            native_output: None,
            client: OnceLock::new(),
        }
    }

    /// Changes a setting. The client is built again for the next request.
    pub(crate) fn set(&mut self, set: impl FnOnce(&mut Self)) {
        set(self);
        self.client = OnceLock::new();
    }

    pub(crate) fn secrets(&self) -> Secrets {
        let key = match &self.key {
            ApiKey::Given(key) => Some(&**key),
            ApiKey::None | ApiKey::Missing(_) => None,
        };
        Secrets::new(key, &self.url)
    }

    /// Returns the public error, without secrets.
    pub(crate) fn model_error(&self, failure: ModelFailure) -> ModelError {
        failure.into_model_error(&self.name, &self.secrets())
    }

    /// Sends one request to a path of the server. `headers` receives the key.
    pub(crate) async fn send(
        &self,
        path: &str,
        headers: impl FnOnce(Option<&str>) -> Vec<(&'static str, String)>,
        body: &Value,
    ) -> Result<Response, ModelFailure> {
        let headers = self.headers(headers)?;
        let to = RequestTarget { url: address::join(&self.url, path), headers, timeout: self.timeout };
        transport::post_json(self.client()?, &to, body).await
    }

    fn headers(
        &self,
        headers: impl FnOnce(Option<&str>) -> Vec<(&'static str, String)>,
    ) -> Result<HeaderMap, ModelFailure> {
        let key = match &self.key {
            ApiKey::Given(key) => Some(&**key),
            ApiKey::None => None,
            ApiKey::Missing(variable) => {
                let reason = format!("no API key: set `{variable}`, or pass one to `key`");
                return Err(ModelFailure::refused(reason));
            }
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers(key) {
            let mut value = HeaderValue::try_from(value).map_err(|_| ModelFailure::refused(BAD_KEY))?;
            value.set_sensitive(true);
            map.insert(HeaderName::from_static(name), value);
        }
        Ok(map)
    }

    fn client(&self) -> Result<&Client, ModelFailure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = transport::build_client(self.timeout)
            .map_err(|error| ModelFailure::from_transport(&error, self.timeout))?;
        Ok(self.client.get_or_init(|| client))
    }
}
