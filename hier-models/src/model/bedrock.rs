use aws_credential_types::provider::ProvideCredentials;

use super::Model;
use crate::aws::{AwsCredentials, AwsRegion};
use crate::key::ApiKey;
use crate::wire::BEDROCK;

impl Model {
    /// Creates an Amazon Bedrock model from its id, the id of an inference profile, or an ARN.
    ///
    /// * **Key.** The key defaults to the environment variable `AWS_BEARER_TOKEN_BEDROCK`. Without this variable, hier
    ///   signs requests with `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` and `AWS_SESSION_TOKEN`.
    /// * **Region.** The region defaults to the region in the ARN, then to `AWS_REGION`, and then to
    ///   `AWS_DEFAULT_REGION`.
    /// * **Model.** hier knows the properties of a model by its name. If an ARN does not contain the name of the model,
    ///   set [`with_context_tokens`](Self::with_context_tokens) and [`with_native_output`](Self::with_native_output).
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

    pub(super) fn bedrock_at(url: String, name: String, key: ApiKey) -> Self {
        let region = AwsRegion::of_model(&name);
        Self::make(BEDROCK, name, url, key).with(|server| {
            server.is_provider = true;
            server.region = Some(region);
        })
    }

    /// Sets the region of an Amazon [`bedrock`](Self::bedrock) model. Has no effect on other models. The region does
    /// not replace a URL that [`url`](Self::url) has set.
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

    /// Signs requests to Amazon [`bedrock`](Self::bedrock) with the credentials that this provider returns, instead of
    /// sending a key.
    ///
    /// Pass `SdkConfig::credentials_provider` of the crate `aws-config`, or
    /// [`Credentials`](aws_credential_types::Credentials). hier asks the provider for new credentials one minute before
    /// the current ones expire. If credentials have no expiry, hier asks for each request. An error of the provider is
    /// retried as a temporary failure. If the provider has no credentials or an invalid configuration, the request
    /// fails at once.
    pub fn aws_credentials(self, provider: impl ProvideCredentials + 'static) -> Self {
        self.with(|server| server.key = ApiKey::Aws(AwsCredentials::new(provider)))
    }
}
