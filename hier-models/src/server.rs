//! The connection of a model: its settings, and single requests.

use std::sync::OnceLock;
use std::time::Duration;

use hier_agents::ModelError;
use hier_core::graph::Retry;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use serde_json::Value;

use crate::address;
#[cfg(feature = "bedrock")]
use crate::aws::{self, AwsRegion};
use crate::error::ModelFailure;
use crate::key::{ApiKey, Credential};
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
        /// Sets the API key, without the white space around it.
        pub fn key(self, key: impl Into<String>) -> Self {
            self.with(|server| server.key = $crate::key::ApiKey::new(&key.into()))
        }

        /// Sets a function that returns the API key. hier calls the function for each request, so the function should
        /// cache the key.
        ///
        /// hier sends the key in the header that the provider uses for keys. An error of the function counts as a
        /// temporary failure and is retried.
        pub fn key_with<F, R, E>(self, key: F) -> Self
        where
            F: Fn() -> R + Send + Sync + 'static,
            R: Future<Output = Result<String, E>> + Send + 'static,
            E: Into<Box<dyn std::error::Error + Send + Sync>>,
        {
            let source = $crate::key::KeySource::new(key, $crate::key::Credential::Key, "key_with");
            self.with(|server| server.key = $crate::key::ApiKey::Fetched(source))
        }

        /// Sets a function that returns a bearer token, such as a token of Microsoft Entra ID or Google Cloud, in place
        /// of a key. hier calls the function for each request, so the function should cache the token until it expires.
        ///
        /// An error of the function counts as a temporary failure and is retried.
        pub fn token_with<F, R, E>(self, token: F) -> Self
        where
            F: Fn() -> R + Send + Sync + 'static,
            R: Future<Output = Result<String, E>> + Send + 'static,
            E: Into<Box<dyn std::error::Error + Send + Sync>>,
        {
            let source = $crate::key::KeySource::new(token, $crate::key::Credential::Token, "token_with");
            self.with(|server| server.key = $crate::key::ApiKey::Fetched(source))
        }

        /// Adds a header to each request, and replaces an earlier header with the same name. Errors and logs do not
        /// show the header's value.
        ///
        /// If HTTP does not allow the name or the value, the first request fails.
        pub fn header(self, name: impl Into<String>, value: impl Into<String>) -> Self {
            self.with(|server| server.headers.push((name.into(), value.into())))
        }

        /// Sets the HTTP client, for example one with a proxy or a private certificate authority.
        ///
        /// Build the client with `redirect(Policy::none())`, because a client that follows redirects may send the
        /// conversation to another address. The time limits of the model apply in addition to those of the client.
        pub fn client(self, client: reqwest::Client) -> Self {
            self.with(|server| server.own_client = Some(client))
        }

        /// Sets the URL of the server, for example of a proxy. The server must offer the provider's API.
        ///
        /// The key and the conversation are sent only to this URL. If the server responds with a redirect, the request
        /// fails.
        pub fn url(self, url: impl Into<String>) -> Self {
            self.with(|server| server.url = url.into())
        }

        /// Sets the retry policy. Defaults to 3 attempts.
        ///
        /// hier retries only temporary failures: an unreachable server, a reply that does not arrive in time, the
        /// statuses 408, 409, 424, 425 and 429, and server errors (5xx). It does not retry if the account has no
        /// credit. If the server asks for a longer delay than the policy, hier waits for the delay of the server, but
        /// not longer than the policy's `cap`. A server asks for a delay with the headers `retry-after-ms`,
        /// `retry-after` and `x-ratelimit-reset-*`, or with a `RetryInfo` in the error.
        pub fn retry(self, retry: impl Into<hier_core::graph::Retry>) -> Self {
            self.with(|server| server.retry = retry.into())
        }

        /// Sets the time limit of an HTTP request, from the time when hier sends the request to the end of the reply or
        /// stream. Each retry has this limit again. Defaults to 10 minutes.
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
    /// The configured context size, in tokens.
    pub(crate) context_tokens: Option<u64>,
    /// The configured override of [`ChatModel::native_output`](hier_agents::ChatModel::native_output).
    pub(crate) native_output: Option<bool>,
    /// The configured override of [`ChatModel::searches_tools`](hier_agents::ChatModel::searches_tools).
    pub(crate) searches_tools: Option<bool>,
    /// Further headers, by name.
    pub(crate) headers: Vec<(String, String)>,
    /// The HTTP client that the program has configured.
    pub(crate) own_client: Option<Client>,
    #[cfg(feature = "bedrock")]
    pub(crate) region: Option<AwsRegion>,
    /// Built for the first request, so that every earlier setting counts.
    client: OnceLock<Client>,
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
            searches_tools: None,
            headers: Vec::new(),
            own_client: None,
            #[cfg(feature = "bedrock")]
            region: None,
            client: OnceLock::new(),
        }
    }

    /// Changes a setting. The client is built again for the next request.
    pub(crate) fn set(&mut self, set: impl FnOnce(&mut Self)) {
        set(self);
        self.client = OnceLock::new();
    }

    pub(crate) fn secrets(&self) -> Secrets {
        Secrets::new(self.key.known(), self.headers.iter().map(|(_, value)| value.clone()), &self.url)
    }

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
        #[cfg(feature = "bedrock")]
        if let Some(region) = self.region.as_ref().filter(|_| self.url.is_empty()) {
            region.name()?;
        }
        let url = address::join(&self.url, path);
        let body = body.to_string().into_bytes();
        let headers = self.request_headers(headers, &url, &body).await?;
        let to = RequestTarget { url, headers, timeout: self.timeout };
        transport::post_json(self.client()?, &to, body).await
    }

    async fn request_headers(
        &self,
        headers: impl FnOnce(Option<&str>) -> Vec<(&'static str, String)>,
        #[cfg_attr(not(feature = "bedrock"), expect(unused, reason = "only signatures contain it"))] url: &str,
        #[cfg_attr(not(feature = "bedrock"), expect(unused, reason = "only signatures contain it"))] body: &[u8],
    ) -> Result<HeaderMap, ModelFailure> {
        let of_provider = match self.key.credential(self.timeout).await? {
            None => headers(None),
            Some(Credential::Key(key)) => headers(Some(&key)),
            Some(Credential::Token(token)) => {
                let mut headers = headers(None);
                headers.push((AUTHORIZATION.as_str(), format!("Bearer {token}")));
                headers
            }
            #[cfg(feature = "bedrock")]
            Some(Credential::Aws(credentials)) => {
                let mut headers = headers(None);
                let region = self.region.as_ref().ok_or_else(|| ModelFailure::refused(aws::NOT_OF_AWS))?;
                headers.extend(aws::sign(credentials, region.name()?, url, body)?);
                headers
            }
        };
        let mut map = HeaderMap::new();
        for (name, value) in of_provider {
            let value = HeaderValue::try_from(value).map_err(|_| ModelFailure::refused(BAD_KEY))?;
            map.insert(HeaderName::from_static(name), value);
        }
        for (name, value) in &self.headers {
            let invalid =
                |part: &str| ModelFailure::refused(format!("invalid header `{name}`: HTTP does not allow its {part}"));
            let value = HeaderValue::try_from(value).map_err(|_| invalid("value"))?;
            map.insert(HeaderName::try_from(name).map_err(|_| invalid("name"))?, value);
        }
        map.values_mut().for_each(|value| value.set_sensitive(true));
        Ok(map)
    }

    fn client(&self) -> Result<&Client, ModelFailure> {
        if let Some(client) = self.own_client.as_ref().or(self.client.get()) {
            return Ok(client);
        }
        let client = transport::build_client(self.timeout)
            .map_err(|error| ModelFailure::from_transport(&error, self.timeout))?;
        Ok(self.client.get_or_init(|| client))
    }
}
