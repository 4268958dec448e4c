//! Failures of requests to models. Their public form, [`ModelError`], never contains the key.

use std::time::Duration;

use hier_agents::ModelError;
use reqwest::StatusCode;
use serde_json::Value;

use crate::secret::Secrets;

mod classify;

/// The error for a string that does not name a model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid model `{text}`: {reason}")]
pub struct ParseModelError {
    /// The string that could not be parsed, without secrets.
    pub text: String,
    /// The reason, and how to fix it.
    pub reason: String,
}

#[derive(Debug)]
pub(crate) struct ModelFailure {
    pub(crate) kind: FailureKind,
    pub(crate) reason: String,
    /// The delay that the provider asks for before the next attempt.
    pub(crate) wait: Option<Duration>,
    /// The HTTP status of an error response.
    pub(crate) status: Option<StatusCode>,
    /// A message for the model, sent with the next attempt.
    pub(crate) hint: Option<String>,
}

/// The kinds of [`ModelError`] that a server can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    Unavailable,
    Refused,
    TooLong,
    BadAnswer,
    /// The answer is unusable, but another attempt may succeed. Reported as `BadAnswer`.
    Unusable,
}

impl ModelFailure {
    pub(crate) fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), wait: None, status: None, hint: None }
    }

    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(FailureKind::Unavailable, reason)
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, reason)
    }

    pub(crate) fn bad_answer(reason: impl Into<String>) -> Self {
        Self::new(FailureKind::BadAnswer, reason)
    }

    pub(crate) fn cut_off() -> Self {
        Self::unavailable("the stream ended before the reply was complete")
    }

    pub(crate) fn stalled(idle_timeout: Duration) -> Self {
        Self::unavailable(format!(
            "the stream sent nothing for {idle_timeout:?}, the limit set by `Model::idle_timeout`"
        ))
    }

    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.kind, FailureKind::Unavailable | FailureKind::Unusable)
    }

    pub(crate) fn from_transport(error: &reqwest::Error, timeout: Duration) -> Self {
        if error.is_builder() {
            return Self::refused(format!("the request cannot be built: {}", error_chain(error)));
        }
        if error.is_connect() {
            return Self::unavailable(format!("no connection: {}", error_chain(error)));
        }
        if error.is_timeout() {
            let limit = format!("no reply within {timeout:?}, the limit set by `Model::timeout`");
            return Self::unavailable(limit);
        }
        Self::unavailable(error_chain(error))
    }

    pub(crate) fn from_status(status: StatusCode, body: &str, wait: Option<Duration>) -> Self {
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body.trim()));
        let text = message_of(&body).unwrap_or_else(|| body.as_str().map_or_else(|| body.to_string(), str::to_owned));
        let kind = classify::kind_of_status(status, &text, &body);
        let wait = wait.or_else(|| classify::retry_delay(&body));
        let text = if text.is_empty() { text } else { format!(": {text}") };
        let reason = format!("HTTP status {status}{text}");
        Self { wait, status: Some(status), ..Self::new(kind, reason) }
    }

    /// Creates a failure from an error that a server sends in place of an answer.
    pub(crate) fn from_error_body(error: &Value) -> Self {
        let text = message_of(error).unwrap_or_else(|| error.to_string());
        Self { wait: classify::retry_delay(error), ..Self::new(classify::kind_of_error(&text, error), text) }
    }

    pub(crate) fn into_model_error(self, model: &str, secrets: &Secrets) -> ModelError {
        let (model, reason) = (model.to_owned(), secrets.redact(&self.reason));
        match self.kind {
            FailureKind::Unavailable => ModelError::Unavailable { model, reason, source: None },
            FailureKind::Refused => ModelError::Refused { model, reason },
            FailureKind::TooLong => ModelError::TooLong { model, reason },
            FailureKind::BadAnswer | FailureKind::Unusable => ModelError::BadAnswer { model, reason },
        }
    }
}

fn message_of(body: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    body.pointer("/error/message")
        .and_then(text)
        .or_else(|| body.get("error").and_then(text))
        .or_else(|| ["message", "Message"].into_iter().find_map(|name| body.get(name).and_then(text)))
}

/// Formats an error with its causes. The outermost error alone often says only that a request failed.
pub(crate) fn error_chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}
