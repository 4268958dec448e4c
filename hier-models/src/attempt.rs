//! Trying again what may pass.

use std::future::Future;

use hier_core::agent::ModelError;
use hier_core::graph::Retry;

use crate::error::Failure;
use crate::secret::Secrets;

/// What an attempt gives, until one succeeds, fails for good, or was the last. The wait between two is what the provider
/// asks for, if that is longer than our own and within its cap.
pub(crate) async fn attempts<T, F>(
    model: &str,
    secrets: &Secrets,
    retry: Retry,
    mut attempt: impl FnMut() -> F,
) -> Result<T, ModelError>
where
    F: Future<Output = Result<T, Failure>>,
{
    let mut failures = 0;
    loop {
        let failure = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        failures += 1;
        let theirs = failure.wait;
        let error = failure.told(model, secrets);
        if !error.is_transient() || failures >= retry.attempts {
            return Err(error);
        }
        let ours = retry.pause(failures);
        let wait = theirs.map_or(ours, |theirs| theirs.min(retry.cap).max(ours));
        tracing::debug!(model, attempt = failures, %error, ?wait, "a model did not answer and will be asked again");
        tokio::time::sleep(wait).await;
    }
}
