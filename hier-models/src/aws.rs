//! Regions, credentials and signatures of AWS.

use std::time::{Duration, SystemTime};

use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials, SharedCredentialsProvider};
use aws_sigv4::http_request::{self, SignableBody, SignableRequest, SigningSettings};
use aws_sigv4::sign::v4;
use reqwest::Url;
use reqwest::header::CONTENT_TYPE;
use tokio::time::timeout;

pub(crate) use aws_credential_types::Credentials;

use crate::error::{ModelFailure, error_chain};
use crate::secret::RecentSecrets;
use crate::transport::JSON;

/// The name of Bedrock in signatures.
const SERVICE: &str = "bedrock";
/// The environment variables with the region, in the order of their precedence.
const REGION: [&str; 2] = ["AWS_REGION", "AWS_DEFAULT_REGION"];
pub(crate) const NO_CREDENTIALS: &str = "no credentials: set `AWS_BEARER_TOKEN_BEDROCK`, or `AWS_ACCESS_KEY_ID` and \
     `AWS_SECRET_ACCESS_KEY`, or pass a provider to `aws_credentials`";
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

/// Returns the region of a model: that of its ARN, or the one in the environment.
pub(crate) fn region_of(model: &str) -> Option<String> {
    let in_arn = model.starts_with("arn:").then(|| model.split(':').nth(3)).flatten();
    in_arn.filter(|region| !region.is_empty()).map(str::to_owned).or_else(|| REGION.into_iter().find_map(variable))
}

/// Returns the URL of Bedrock in a region. Empty if it is unknown or invalid.
pub(crate) fn endpoint(region: Option<&str>) -> String {
    // Any other character could name another host.
    let is_valid = |region: &&str| region.bytes().all(|letter| letter.is_ascii_alphanumeric() || letter == b'-');
    let Some(region) = region.filter(is_valid).filter(|region| !region.is_empty()) else { return String::new() };
    let domain = DOMAINS.iter().find(|(prefix, _)| region.starts_with(prefix)).map_or("amazonaws.com", |(_, it)| it);
    format!("https://bedrock-runtime.{region}.{domain}")
}

/// Fails if a server has no URL, because its region is unknown.
pub(crate) fn check_url(url: &str, region: Option<&str>) -> Result<(), ModelFailure> {
    match (url, region) {
        ("", Some(region)) => Err(ModelFailure::refused(format!("invalid region `{region}`: write it as `us-east-1`"))),
        ("", None) => Err(no_region()),
        _ => Ok(()),
    }
}

fn no_region() -> ModelFailure {
    ModelFailure::refused("no region: set `AWS_REGION`, or pass one to `aws_region`")
}

/// The source of the credentials that sign requests.
#[derive(Clone)]
pub(crate) struct AwsCredentials {
    provider: SharedCredentialsProvider,
    fetched: RecentSecrets,
}

impl AwsCredentials {
    pub(crate) fn new(provider: impl ProvideCredentials + 'static) -> Self {
        Self { provider: SharedCredentialsProvider::new(provider), fetched: RecentSecrets::default() }
    }

    /// Reads credentials from the environment.
    pub(crate) fn from_environment() -> Option<Self> {
        let (key, secret) = (variable("AWS_ACCESS_KEY_ID")?, variable("AWS_SECRET_ACCESS_KEY")?);
        Some(Self::new(Credentials::new(key, secret, variable("AWS_SESSION_TOKEN"), None, "environment")))
    }

    pub(crate) async fn fetch(&self, limit: Duration) -> Result<Credentials, ModelFailure> {
        let failed = |reason: String| format!("the provider of `aws_credentials` {reason}");
        let fetched = timeout(limit, self.provider.provide_credentials()).await.map_err(|_| {
            let reason = format!("took longer than {limit:?}, the limit set by `Model::timeout`");
            ModelFailure::unavailable(failed(reason))
        })?;
        let credentials = fetched.map_err(|error| {
            let reason = failed(format!("failed: {}", error_chain(&error)));
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
        Ok(credentials)
    }

    /// The parts of the credentials that errors must not show.
    pub(crate) fn recent(&self) -> Vec<String> {
        self.fetched.list()
    }
}

/// Signs a POST request. Returns the headers of the signature.
pub(crate) fn sign(
    credentials: Credentials,
    region: Option<&str>,
    url: &str,
    body: &[u8],
) -> Result<Vec<(&'static str, String)>, ModelFailure> {
    sign_at(SystemTime::now(), credentials, region.ok_or_else(no_region)?, url, body)
}

fn sign_at(
    time: SystemTime,
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
    let builder = v4::SigningParams::builder().identity(&identity).region(region).name(SERVICE).time(time);
    // The defaults encode the path a second time, as Bedrock does.
    let params = builder.settings(SigningSettings::default()).build().map_err(|error| failed(&error))?.into();
    // Only headers that no proxy changes are signed.
    let headers = [(CONTENT_TYPE.as_str(), JSON)].into_iter();
    let request = SignableRequest::new("POST", url.as_str(), headers, SignableBody::Bytes(body));
    let signed = request.and_then(|request| http_request::sign(request, &params)).map_err(|error| failed(&error))?;
    let (headers, _) = signed.into_parts().0.into_parts();
    Ok(headers.iter().map(|header| (header.name(), header.value().to_owned())).collect())
}

/// Returns the URL as the HTTP client sends it: normalized, without user and password.
fn sent_url(url: &str) -> Result<Url, ModelFailure> {
    let mut url = Url::parse(url).map_err(|error| ModelFailure::refused(format!("invalid URL: {error}")))?;
    // Fails only for URLs without a host, which have neither.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_fragment(None);
    Ok(url)
}
