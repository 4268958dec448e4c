use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

#[cfg(feature = "bedrock")]
use crate::aws::{AwsCredentials, Credentials};
use crate::error::{ModelFailure, error_chain};
use crate::secret::RecentSecrets;

#[derive(Clone)]
pub(crate) enum ApiKey {
    None,
    Given(String),
    /// No key was found in this environment variable when the model was created.
    Missing(&'static str),
    /// The provider accepts only tokens, and the program has not configured one.
    NoToken,
    Fetched(KeySource),
    /// Requests are signed.
    #[cfg(feature = "bedrock")]
    Aws(AwsCredentials),
    /// No AWS credentials were found in the environment when the model was created.
    #[cfg(feature = "bedrock")]
    NoAws,
}

/// A key, or a token that replaces it.
#[derive(Debug)]
pub(crate) enum Credential {
    /// Sent in the header that the provider has for keys.
    Key(String),
    /// Sent as a bearer token.
    Token(String),
    /// Signs the request.
    #[cfg(feature = "bedrock")]
    Aws(Credentials),
}

type KeyFuture = Pin<Box<dyn Future<Output = Result<String, Box<dyn Error + Send + Sync>>> + Send>>;

/// A function that returns the key or token of the next request.
#[derive(Clone)]
pub(crate) struct KeySource {
    fetch: Arc<dyn Fn() -> KeyFuture + Send + Sync>,
    wrap: fn(String) -> Credential,
    /// The setting that the program has used, for error texts.
    setting: &'static str,
    fetched: RecentSecrets,
}

impl KeySource {
    pub(crate) fn new<F, R, E>(fetch: F, wrap: fn(String) -> Credential, setting: &'static str) -> Self
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, E>> + Send + 'static,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let fetch = move || -> KeyFuture {
            let key = fetch();
            Box::pin(async move { key.await.map_err(Into::into) })
        };
        Self { fetch: Arc::new(fetch), wrap, setting, fetched: RecentSecrets::default() }
    }

    async fn fetch(&self, limit: Duration) -> Result<Credential, ModelFailure> {
        let setting = self.setting;
        let failed = |reason: String| ModelFailure::unavailable(format!("the function of `{setting}` {reason}"));
        let key = timeout(limit, (self.fetch)())
            .await
            .map_err(|_| failed(format!("took longer than {limit:?}, the limit set by `Model::timeout`")))?
            .map_err(|error| failed(format!("failed: {}", error_chain(&*error))))?;
        let key = key.trim().to_owned();
        if key.is_empty() {
            return Err(ModelFailure::refused(format!("the function of `{setting}` returned an empty text")));
        }
        self.fetched.add(&key);
        Ok((self.wrap)(key))
    }
}

impl ApiKey {
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

    pub(crate) async fn credential(&self, limit: Duration) -> Result<Option<Credential>, ModelFailure> {
        match self {
            Self::None => Ok(None),
            Self::Given(key) => Ok(Some(Credential::Key(key.clone()))),
            Self::Missing(variable) => {
                let reason = format!("no API key: set `{variable}`, or pass one to `key`");
                Err(ModelFailure::refused(reason))
            }
            Self::NoToken => Err(ModelFailure::refused("no token: pass a function that returns one to `token_with`")),
            Self::Fetched(source) => source.fetch(limit).await.map(Some),
            #[cfg(feature = "bedrock")]
            Self::Aws(source) => source.fetch(limit).await.map(|credentials| Some(Credential::Aws(credentials))),
            #[cfg(feature = "bedrock")]
            Self::NoAws => Err(ModelFailure::refused(crate::aws::NO_CREDENTIALS)),
        }
    }

    /// Returns the keys that errors must not show.
    pub(crate) fn known(&self) -> Vec<String> {
        match self {
            Self::None | Self::Missing(_) | Self::NoToken => Vec::new(),
            Self::Given(key) => vec![key.clone()],
            Self::Fetched(source) => source.fetched.list(),
            #[cfg(feature = "bedrock")]
            Self::Aws(source) => source.recent(),
            #[cfg(feature = "bedrock")]
            Self::NoAws => Vec::new(),
        }
    }
}
