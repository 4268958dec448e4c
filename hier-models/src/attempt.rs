//! Repeats what may pass.

use std::future::Future;

use hier_agents::ModelError;
use hier_core::graph::Retry;

use crate::error::Failure;
use crate::server::Server;

/// Counts the attempts at one request.
pub(crate) struct Attempts {
    retry: Retry,
    failures: u32,
}

impl Attempts {
    pub(crate) fn new(server: &Server) -> Self {
        Self { retry: server.retry, failures: 0 }
    }

    /// Waits before the attempt that follows this failure; the error if none follows. The delay is the provider's if that
    /// is longer than our own and within its cap.
    pub(crate) async fn after(&mut self, server: &Server, failure: Failure) -> Result<(), ModelError> {
        self.failures += 1;
        let (may_pass, theirs) = (failure.may_pass(), failure.wait);
        let error = server.told(failure);
        if !may_pass || self.failures >= self.retry.attempts {
            return Err(error);
        }
        let ours = self.retry.pause(self.failures);
        let wait = theirs.map_or(ours, |theirs| theirs.min(self.retry.cap).max(ours));
        // Without the error: a provider may repeat what it was sent, and no layer has redacted it here.
        tracing::debug!(
            model = server.name,
            attempt = self.failures,
            ?wait,
            "a model did not answer and will be asked again"
        );
        tokio::time::sleep(wait).await;
        Ok(())
    }
}

/// Makes attempts until one succeeds, fails for good, or was the last.
pub(crate) async fn attempts<T, F>(server: &Server, mut attempt: impl FnMut() -> F) -> Result<T, ModelError>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut attempts = Attempts::new(server);
    loop {
        match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(failure) => attempts.after(server, failure).await?,
        }
    }
}
