//! [`Retry`] as a layer.

use async_trait::async_trait;

use super::model_call::{ModelCall, ModelReply};
use super::{Layer, NextModel};
use hier_core::NodeError;
use hier_core::graph::Retry;
use hier_core::state::Values;

/// Asks the model again if its error [is transient](NodeError::is_transient), for example if the provider is busy. A
/// model is never asked again after a chunk of its answer was streamed, because the client would receive parts of it
/// twice. For tools, use `#[tool(retry = 3)]`.
///
/// Inside a [`Fallback`](super::Fallback), each model is retried. Outside of one, all models are.
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
