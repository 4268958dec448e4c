//! Trying again what may pass.

use std::future::Future;

use hier_core::agent::ModelError;

use crate::error::Failure;
use crate::server::Server;

/// What an attempt gives, until one succeeds, fails for good, or was the last. The wait between two is what the provider
/// asks for, if that is longer than our own and within its cap.
pub(crate) async fn attempts<T, F>(server: &Server, mut attempt: impl FnMut() -> F) -> Result<T, ModelError>
where
    F: Future<Output = Result<T, Failure>>,
{
    let retry = server.retry;
    let mut failures = 0;
    loop {
        let failure = match attempt().await {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        failures += 1;
        let theirs = failure.wait;
        let error = server.told(failure);
        if !error.is_transient() || failures >= retry.attempts {
            return Err(error);
        }
        let ours = retry.pause(failures);
        let wait = theirs.map_or(ours, |theirs| theirs.min(retry.cap).max(ours));
        tracing::debug!(model = server.name, attempt = failures, %error, ?wait, "a model did not answer and will be asked again");
        tokio::time::sleep(wait).await;
    }
}
