//! Asks a model again that could not be reached.

use async_trait::async_trait;

use super::{Layer, ModelCall, ModelReply, NextModel};
use hier_core::NodeError;
use hier_core::graph::Retry;
use hier_core::state::Values;

/// Asks the model again, if it could not be reached or was too busy: if its error [is transient](NodeError::is_transient). It is never
/// asked again once a piece of its answer has gone out: who listens would hear things twice. Tools are not called again: that is
/// `#[tool(retry = 3)]`.
///
/// Inside of a [`Fallback`](super::Fallback) it tries each model this often; outside of one, all models again.
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
            if failures >= self.attempts || !error.is_transient() || call.has_spoken() {
                return Err(error);
            }
            let wait = self.pause(failures);
            tracing::debug!(agent = call.site().agent(), attempt = failures, %error, ?wait, "a model failed and will be asked again");
            call.run().pause(wait).await;
        }
    }
}
