//! Timeouts and retries of tools.

use std::future::Future;
use std::time::Duration;

use tokio::runtime::Handle;

use crate::redaction::Redactor;
use hier_core::Run;
use hier_core::graph::Retry;
use hier_core::internals::Repeat;
use hier_core::{NodeError, NodeErrorKind, TimeoutKind};

/// Calls a tool with a time limit per attempt, and retries temporary failures according to `retry`. Returns the first
/// success or the last error. Each attempt keeps the answers and the stored steps of the attempt before it. Code that
/// `#[tool]` generates calls this function.
pub async fn attempts<T, F, C>(
    run: &Run<C>,
    tool: &str,
    timeout: Option<Duration>,
    retry: Retry,
    mut attempt: impl FnMut() -> F,
) -> Result<T, NodeError>
where
    F: Future<Output = Result<T, NodeError>>,
{
    if Handle::try_current().is_err() {
        return Err(NodeError::permanent(format!(
            "the tool `{tool}` has a timeout or retries, which need a tokio runtime: use `#[tokio::main]` or \
             `Runtime::block_on`"
        )));
    }
    let (repeat, mut failures) = (Repeat::default(), 0);
    loop {
        let error = match repeat.call(run, bounded(timeout, attempt())).await {
            Ok(output) => return Ok(output),
            Err(error) => error,
        };
        failures += 1;
        if !error.is_transient() || failures >= retry.attempts {
            return Err(error);
        }
        let wait = retry.pause(failures);
        let error = Redactor::present().map_or_else(|| error.clone(), |redactor| redactor.error(error.clone()));
        tracing::debug!(tool, attempt = failures, %error, ?wait, "retrying a failed tool");
        run.pause(wait).await;
    }
}

async fn bounded<T>(
    limit: Option<Duration>,
    attempt: impl Future<Output = Result<T, NodeError>>,
) -> Result<T, NodeError> {
    let Some(limit) = limit else { return attempt.await };
    let late = |_| NodeError::from_kind(NodeErrorKind::Timeout { kind: TimeoutKind::Tool, limit }, true);
    tokio::time::timeout(limit, attempt).await.unwrap_or_else(|elapsed| Err(late(elapsed)))
}
