use std::future::Future;

use hier_agents::ModelError;
use hier_core::graph::Retry;

use crate::error::ModelFailure;
use crate::server::ModelServer;

pub(crate) struct AttemptCounter {
    retry: Retry,
    failures: u32,
}

impl AttemptCounter {
    pub(crate) fn new(server: &ModelServer) -> Self {
        Self { retry: server.retry, failures: 0 }
    }

    /// Sleeps until the next attempt, or returns the error if no attempt is left. The provider may ask for a longer
    /// delay than the configured delay, up to the configured maximum.
    pub(crate) async fn wait_or_fail(&mut self, server: &ModelServer, failure: ModelFailure) -> Result<(), ModelError> {
        self.failures += 1;
        let (may_pass, theirs) = (failure.may_pass(), failure.wait);
        let error = server.model_error(failure);
        if !may_pass || self.failures >= self.retry.attempts {
            return Err(error);
        }
        let ours = self.retry.pause(self.failures);
        let wait = theirs.map_or(ours, |theirs| theirs.min(self.retry.cap).max(ours));
        // The log omits the error text, because it may quote the request, and no layer has redacted the text.
        tracing::debug!(model = server.name, attempt = self.failures, ?wait, "retrying a model request");
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Repeats an attempt until it succeeds, fails permanently, or no attempt is left.
pub(crate) async fn with_retries<T, F>(server: &ModelServer, mut attempt: impl FnMut() -> F) -> Result<T, ModelError>
where
    F: Future<Output = Result<T, ModelFailure>>,
{
    let mut attempts = AttemptCounter::new(server);
    loop {
        match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(failure) => attempts.wait_or_fail(server, failure).await?,
        }
    }
}
