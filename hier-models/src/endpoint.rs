//! One model of one server: how a request is sent to it, once, and its answer read.

use std::sync::OnceLock;
use std::time::Duration;

use hier_core::agent::{ChatRequest, ChatResponse, ModelError};
use hier_core::graph::Retry;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Response};

use crate::address;
use crate::conversation::has_files;
use crate::draft::Draft;
use crate::error::Failure;
use crate::secret::Secrets;
use crate::transport::{self, Destination};
use crate::wire::Wire;

/// One model of one server.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) wire: &'static dyn Wire,
    pub(crate) name: String,
    pub(crate) url: String,
    pub(crate) key: Key,
    pub(crate) retry: Retry,
    pub(crate) timeout: Duration,
    /// Made when the model is first asked, so that a setting made after it counts.
    pub(crate) client: OnceLock<Client>,
}

/// Where the key is.
#[derive(Clone)]
pub(crate) enum Key {
    None,
    Given(String),
    /// In this environment variable, when the model was made.
    Missing(&'static str),
}

impl Endpoint {
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

    /// Sends a request, once.
    pub(crate) async fn send(&self, request: &ChatRequest, streamed: bool) -> Result<Response, Failure> {
        if let Some(reason) = self.wire.unfit(request) {
            return Err(Failure::refused(reason));
        }
        if has_files(request) {
            return Err(Failure::refused("files are not sent to models yet"));
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
    pub(crate) async fn answer(&self, request: &ChatRequest) -> Result<ChatResponse, Failure> {
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
