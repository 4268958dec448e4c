//! A server: how a request is sent to it, once.

use std::sync::OnceLock;
use std::time::Duration;

use hier_agents::ModelError;
use hier_core::graph::Retry;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};
use serde_json::Value;

use crate::address;
use crate::error::Failure;
use crate::secret::Secrets;
use crate::transport::{self, Destination};

/// Default time limit of an answer. Long answers of slow models take minutes.
const ANSWER: Duration = Duration::from_mins(10);
/// Default time after which a silent stream is aborted.
const IDLE: Duration = Duration::from_mins(2);

/// A model of a server.
#[derive(Clone)]
pub(crate) struct Server {
    /// The name of the model.
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) key: Key,
    pub(crate) retry: Retry,
    pub(crate) timeout: Duration,
    /// Time after which a silent stream is aborted.
    pub(crate) idle: Duration,
    /// True for a model of the dialect's own provider, at any address.
    pub(crate) is_provider: bool,
    /// Configured number of tokens that the model can process at once.
    pub(crate) context_tokens: Option<u64>,
    /// Configured override: true if the model obeys schemas.
    pub(crate) native_output: Option<bool>,
    /// Made when the model is first asked, so that a setting made after it counts.
    client: OnceLock<Client>,
}

/// Where the key is.
#[derive(Clone)]
pub(crate) enum Key {
    None,
    Given(String),
    /// In this environment variable, when the model was made.
    Missing(&'static str),
}

impl Key {
    /// The key in an environment variable.
    pub(crate) fn in_variable(variable: Option<&'static str>) -> Self {
        let Some(variable) = variable else { return Self::None };
        match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Self::new(&key),
            _ => Self::Missing(variable),
        }
    }

    /// A key, without the white space around it.
    pub(crate) fn new(key: &str) -> Self {
        Self::Given(key.trim().to_owned())
    }
}

impl Server {
    pub(crate) fn new(name: String, url: String, key: Key) -> Self {
        Self {
            name,
            url,
            key,
            retry: Retry::default(),
            timeout: ANSWER,
            idle: IDLE,
            is_provider: false,
            context_tokens: None,
            native_output: None,
            client: OnceLock::new(),
        }
    }

    /// Changes a setting.
    pub(crate) fn set(&mut self, set: impl FnOnce(&mut Self)) {
        set(self);
        self.client = OnceLock::new();
    }

    /// What must not be shown.
    pub(crate) fn secrets(&self) -> Secrets {
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

    /// Sends a request to what stands behind this path, once. The headers are made of the key.
    pub(crate) async fn send(
        &self,
        path: &str,
        headers: impl FnOnce(Option<&str>) -> Vec<(&'static str, String)>,
        body: &Value,
    ) -> Result<Response, Failure> {
        let headers = self.headers(headers)?;
        let to = Destination { url: address::join(&self.url, path), headers, timeout: self.timeout };
        transport::send(self.client()?, &to, body).await
    }

    fn headers(&self, headers: impl FnOnce(Option<&str>) -> Vec<(&'static str, String)>) -> Result<HeaderMap, Failure> {
        let key = match &self.key {
            Key::Given(key) => Some(&**key),
            Key::None => None,
            Key::Missing(variable) => {
                let reason = format!("it needs a key: set `{variable}`, or give one with `key`");
                return Err(Failure::refused(reason));
            }
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers(key) {
            let mut value = HeaderValue::try_from(value)
                .map_err(|_| Failure::refused("its key has letters that no key has: look at what `key` is given"))?;
            value.set_sensitive(true);
            map.insert(HeaderName::from_static(name), value);
        }
        Ok(map)
    }

    fn client(&self) -> Result<&Client, Failure> {
        if let Some(client) = self.client.get() {
            return Ok(client);
        }
        let client = transport::client(self.timeout).map_err(|error| Failure::transport(&error, self.timeout))?;
        Ok(self.client.get_or_init(|| client))
    }
}
