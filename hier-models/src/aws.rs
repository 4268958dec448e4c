//! Regions, credentials and signatures of AWS.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{self, SignableBody, SignableRequest, SigningSettings};
use aws_sigv4::sign::v4;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tracing::dispatcher::{self, Dispatch};

pub(crate) use aws_credential_types::Credentials;

use crate::error::{ModelFailure, error_chain};
use crate::secret::RecentSecrets;
use crate::transport::JSON;

/// The name of Bedrock in signatures.
const SERVICE: &str = "bedrock";
/// The environment variables with the region, in the order of their precedence.
const REGION: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
pub(crate) const NO_CREDENTIALS: &str = "no AWS credentials: set `AWS_BEARER_TOKEN_BEDROCK`, or `AWS_ACCESS_KEY_ID` and \
     `AWS_SECRET_ACCESS_KEY`, or pass a provider to `aws_credentials`";
pub(crate) const NOT_OF_AWS: &str =
    "`aws_credentials` is a setting of models of Amazon Bedrock: remove it, or use `Model::bedrock`";
/// Credentials are fetched again this long before they expire.
const FRESH: Duration = Duration::from_mins(1);
/// The domains of the regions outside of the standard partition, by prefix.
const DOMAINS: [(&str, &str); 6] = [
    ("cn-", "amazonaws.com.cn"),
    ("eusc-", "amazonaws.eu"),
    ("us-iso-", "c2s.ic.gov"),
    ("us-isob-", "sc2s.sgov.gov"),
    ("us-isof-", "csp.hci.ic.gov"),
    ("eu-isoe-", "cloud.adc-e.uk"),
];

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

/// The region of a model of Bedrock, if it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AwsRegion(Option<String>);

impl AwsRegion {
    pub(crate) fn new(region: String) -> Self {
        Self(Some(region))
    }

    /// Returns the region in the model's ARN, or else the region in the environment.
    pub(crate) fn of_model(model: &str) -> Self {
        let in_arn = model.starts_with("arn:").then(|| model.split(':').nth(3)).flatten();
        let in_arn = in_arn.filter(|region| !region.is_empty()).map(str::to_owned);
        Self(in_arn.or_else(|| REGION.into_iter().find_map(variable)))
    }

    /// Returns the name. Fails if the region is unknown, or if its name is not valid in a host name.
    pub(crate) fn name(&self) -> Result<&str, ModelFailure> {
        let Some(region) = &self.0 else {
            return Err(ModelFailure::refused("no AWS region: set `AWS_REGION`, or pass one to `aws_region`"));
        };
        let is_valid = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
        if region.is_empty() || !region.bytes().all(is_valid) {
            return Err(ModelFailure::refused(format!("invalid AWS region `{region}`: write a name like `us-east-1`")));
        }
        Ok(region)
    }

    /// Returns the URL of Bedrock in this region. Empty if the region has no valid [name](Self::name).
    pub(crate) fn endpoint(&self) -> String {
        let Ok(region) = self.name() else { return String::new() };
        let domain = DOMAINS.iter().find(|(prefix, _)| region.starts_with(prefix)).map(|(_, domain)| *domain);
        format!("https://bedrock-runtime.{region}.{}", domain.unwrap_or("amazonaws.com"))
    }
}

/// The source of the credentials that sign requests.
#[derive(Clone)]
pub(crate) struct AwsCredentials {
    provider: SharedCredentialsProvider,
    /// The last fetched credentials. They are reused only if they have an expiry time. A fetch holds the lock, so only
    /// one request calls the provider at a time.
    cached: Arc<Mutex<Option<Credentials>>>,
    fetched: RecentSecrets,
}

impl AwsCredentials {
    pub(crate) fn new(provider: impl ProvideCredentials + 'static) -> Self {
        let provider = SharedCredentialsProvider::new(provider);
        Self { provider, cached: Arc::default(), fetched: RecentSecrets::default() }
    }

    pub(crate) fn from_environment() -> Option<Self> {
        let (key, secret) = (variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?);
        Some(Self::new(Credentials::new(key, secret, variable("AWS_SESSION_TOKEN"), None, "environment")))
    }

    /// Returns the cached credentials if they stay valid for [`FRESH`], and otherwise fetches new ones.
    pub(crate) async fn fetch(&self, limit: Duration) -> Result<Credentials, ModelFailure> {
        timeout(limit, self.fetch_unbounded()).await.unwrap_or_else(|_| {
            let reason = format!("took longer than {limit:?}, the limit set by `Model::timeout`");
            Err(ModelFailure::unavailable(provider_failed(&reason)))
        })
    }

    async fn fetch_unbounded(&self) -> Result<Credentials, ModelFailure> {
        let mut cached = self.cached.lock().await;
        let is_fresh = |known: &&Credentials| known.expiry().is_some_and(|end| end > SystemTime::now() + FRESH);
        if let Some(known) = cached.as_ref().filter(is_fresh) {
            return Ok(known.clone());
        }
        let credentials = self.provider.provide_credentials().await.map_err(|error| {
            let reason = provider_failed(&format!("failed: {}", error_chain(&error)));
            match error {
                CredentialsError::CredentialsNotLoaded(_) | CredentialsError::InvalidConfiguration(_) => {
                    ModelFailure::refused(reason)
                }
                _ => ModelFailure::unavailable(reason),
            }
        })?;
        self.fetched.add(credentials.access_key_id());
        self.fetched.add(credentials.secret_access_key());
        credentials.session_token().into_iter().for_each(|token| self.fetched.add(token));
        *cached = Some(credentials.clone());
        Ok(credentials)
    }

    /// Returns the fetched secrets, which errors must not show.
    pub(crate) fn recent(&self) -> Vec<String> {
        self.fetched.list()
    }
}

fn provider_failed(reason: &str) -> String {
    format!("the provider of `aws_credentials` {reason}")
}

/// Signs a POST request. Returns the headers of the signature.
pub(crate) fn sign(
    credentials: Credentials,
    region: &str,
    url: &str,
    body: &[u8],
) -> Result<Vec<(&'static str, String)>, ModelFailure> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        ModelFailure::refused(format!("the request cannot be signed: {}", error_chain(error)))
    };
    let url = sent_url(url)?;
    let identity = credentials.into();
    let builder = v4::SigningParams::builder().identity(&identity).region(region).name(SERVICE).time(SystemTime::now());
    // The defaults encode the path a second time, as Bedrock does.
    let params = builder.settings(SigningSettings::default()).build().map_err(|error| failed(&error))?.into();
    // Only headers that no proxy changes are signed.
    let headers = [(CONTENT_TYPE.as_str(), JSON)].into_iter();
    let request = SignableRequest::new("POST", url.as_str(), headers, SignableBody::Bytes(body));
    let sign = || request.and_then(|request| http_request::sign(request, &params));
    // Suppresses the library's logs, which contain the id of the access key and the query. The query may contain a key
    // for a proxy.
    let signed = dispatcher::with_default(&Dispatch::none(), sign).map_err(|error| failed(&error))?;
    let (headers, _) = signed.into_parts().0.into_parts();
    Ok(headers.iter().map(|header| (header.name(), header.value().to_owned())).collect())
}

/// Returns the URL as the HTTP client sends it: normalized, without user and password.
fn sent_url(url: &str) -> Result<Url, ModelFailure> {
    let mut url = Url::parse(url).map_err(|error| ModelFailure::refused(format!("invalid URL: {error}")))?;
    // `set_username` and `set_password` fail only for URLs without a host, which have neither user nor password.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    Ok(url)
}
