//! [`Retry`] as a layer.

use async_trait::async_trait;

use super::model_call::{ModelCall, ModelReply};
use super::{Layer, NextModel};
use hier_core::NodeError;
use hier_core::graph::Retry;
use hier_core::state::Values;

/// Asks the model again after a [transient](NodeError::is_transient) error, for example if the provider is busy. Once a
/// chunk of an answer has been streamed, the model is not asked again, because the client would receive it twice. For
/// tools, use `#[tool(retry = 3)]`.
///
/// If `Retry` follows a [`Fallback`](super::Fallback) in the list, each model is retried on its own. If `Retry`
/// precedes the `Fallback`, the whole sequence of models is retried.
#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Retry {
    async fn model_call(
        &self,
        call: ModelCall<'_, S, C>,
        next: NextModel<'_, S, C>,
    ) -> Result<ModelReply<S>, NodeError> {
        let mut failures = 0;
        loop {
            let error = match next.call(call.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            failures += 1;
            if failures >= self.attempts || !error.is_transient() || call.has_streamed() {
                return Err(error);
            }
            let wait = self.pause(failures);
            tracing::debug!(agent = call.site().agent(), attempt = failures, %error, ?wait, "retrying a failed model");
            call.run().pause(wait).await;
        }
    }
}
