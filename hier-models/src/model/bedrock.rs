//! Models of Amazon Bedrock.

use aws_credential_types::provider::ProvideCredentials;

use super::Model;
use crate::aws::{AwsCredentials, AwsRegion};
use crate::key::ApiKey;
use crate::wire::BEDROCK;

impl Model {
    /// Creates a handle to a model of Amazon Bedrock, by its id, the id of an inference profile, or an ARN.
    ///
    /// The key defaults to `AWS_BEARER_TOKEN_BEDROCK`. Without it, requests are signed with `AWS_ACCESS_KEY_ID`,
    /// `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`. The region defaults to that of the ARN, then to `AWS_REGION` and
    /// `AWS_DEFAULT_REGION`. If an ARN does not name its model, set what depends on the model:
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

    /// Sets the region of a model of Amazon [`bedrock`](Self::bedrock). Keeps a URL that [`url`](Self::url) has set. Other
    /// models have no region.
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

    /// Signs requests to Amazon [`bedrock`](Self::bedrock) with credentials of this provider, in place of a key.
    ///
    /// Pass `SdkConfig::credentials_provider` of the crate `aws-config` for its chain of providers, or
    /// [`Credentials`](aws_credential_types::Credentials). hier renews credentials a minute before they expire. It asks
    /// for credentials without an expiry with each request. An error of the provider counts as a temporary failure and
    /// is retried, unless it has no credentials or its configuration is wrong.
    pub fn aws_credentials(self, provider: impl ProvideCredentials + 'static) -> Self {
        self.with(|server| server.key = ApiKey::Aws(AwsCredentials::new(provider)))
    }
}
