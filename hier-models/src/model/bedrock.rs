//! Models of Amazon Bedrock.

use aws_credential_types::provider::ProvideCredentials;

use super::Model;
use crate::aws::{AwsCredentials, AwsRegion};
use crate::key::ApiKey;
use crate::wire::BEDROCK;

impl Model {
    /// Creates an Amazon Bedrock model from its id, the id of an inference profile, or an ARN.
    ///
    /// The key defaults to the environment variable `AWS_BEARER_TOKEN_BEDROCK`. Without it, requests are signed with
    /// `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`. The region defaults to that of the ARN,
    /// then to `AWS_REGION` and `AWS_DEFAULT_REGION`. If an ARN does not name its model, set
    /// [`with_context_tokens`](Self::with_context_tokens) and [`with_native_output`](Self::with_native_output).
    ///
    /// ```
    /// use hier_models::Model;
    ///
    /// let model = Model::bedrock("eu.anthropic.claude-sonnet-4-5-20250929-v1:0").aws_region("eu-central-1");
    /// # let _ = model;
    /// ```
    pub fn bedrock(name: impl Into<String>) -> Self {
        let key = match ApiKey::in_variable(BEDROCK.info().key_variable) {
            ApiKey::Missing(_) => AwsCredentials::from_environment().map_or(ApiKey::NoAws, ApiKey::Aws),
            key => key,
        };
        let name = name.into();
        Self::bedrock_at(AwsRegion::of_model(&name).endpoint(), name, key)
    }

    /// Creates a handle to a model at a URL.
    pub(super) fn bedrock_at(url: String, name: String, key: ApiKey) -> Self {
        let region = AwsRegion::of_model(&name);
        Self::make(BEDROCK, name, url, key).with(|server| {
            server.is_provider = true;
            server.region = Some(region);
        })
    }

    /// Sets the region of an Amazon [`bedrock`](Self::bedrock) model. Has no effect on other models. A URL that was set
    /// with [`url`](Self::url) stays.
    pub fn aws_region(self, region: impl Into<String>) -> Self {
        self.with(|server| {
            let Some(known) = &mut server.region else { return };
            let region = AwsRegion::new(region.into());
            if server.url == known.endpoint() {
                server.url = region.endpoint();
            }
            *known = region;
        })
    }

    /// Signs requests to Amazon [`bedrock`](Self::bedrock) with credentials of this provider, instead of sending a key.
    ///
    /// Pass `SdkConfig::credentials_provider` of the crate `aws-config`, or
    /// [`Credentials`](aws_credential_types::Credentials). Credentials are renewed a minute before they expire, or,
    /// without an expiry, requested for each request. An error of the provider is retried as a temporary failure,
    /// unless it has no credentials or is configured incorrectly.
    pub fn aws_credentials(self, provider: impl ProvideCredentials + 'static) -> Self {
        self.with(|server| server.key = ApiKey::Aws(AwsCredentials::new(provider)))
    }
}
