//! What goes wrong with a model, in our words and without its key.

use std::time::Duration;

use hier_agents::ModelError;
use reqwest::StatusCode;
use serde_json::Value;

use crate::secret::Secrets;

mod verdict;

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` names no model: {reason}")]
pub struct ParseModelError {
    /// The text, without secrets that stand in it.
    pub text: String,
    /// What is wrong with it, and how to mend it.
    pub reason: String,
}

/// A failed call.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
    /// The delay that the provider asks for before the next attempt.
    pub(crate) wait: Option<Duration>,
    /// The HTTP status, if the server answered with one that is not a success.
    pub(crate) status: Option<StatusCode>,
    /// A message for the model, sent with the next attempt.
    pub(crate) hint: Option<String>,
}

/// The kinds of [`ModelError`] that a server can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unavailable,
    Refused,
    TooLong,
    BadAnswer,
    /// The answer cannot be used, but another attempt may give one that can. Reported as `BadAnswer`.
    Unusable,
}

impl Failure {
    pub(crate) fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), wait: None, status: None, hint: None }
    }

    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self::new(Kind::Unavailable, reason)
    }

    pub(crate) fn refused(reason: impl Into<String>) -> Self {
        Self::new(Kind::Refused, reason)
    }

    pub(crate) fn bad_answer(reason: impl Into<String>) -> Self {
        Self::new(Kind::BadAnswer, reason)
    }

    /// A stream or a connection that ended before the answer did.
    pub(crate) fn cut_off() -> Self {
        Self::unavailable("the stream ended before the answer did")
    }

    /// A stream that sent no data for this long.
    pub(crate) fn stalled(idle: Duration) -> Self {
        Self::unavailable(format!("the stream sent nothing for {idle:?}, the limit that `Model::idle` sets"))
    }

    /// Returns true if another attempt may help.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self.kind, Kind::Unavailable | Kind::Unusable)
    }

    /// A call that the transport failed.
    pub(crate) fn transport(error: &reqwest::Error, timeout: Duration) -> Self {
        if error.is_builder() {
            return Self::refused(format!("the request cannot be made: {}", chain(error)));
        }
        if error.is_connect() {
            return Self::unavailable(format!("no connection: {}", chain(error)));
        }
        if error.is_timeout() {
            let limit = format!("no answer within {timeout:?}, the limit that `Model::timeout` sets");
            return Self::unavailable(limit);
        }
        Self::unavailable(chain(error))
    }

    /// A status that is not a success, with the server's explanation.
    pub(crate) fn status(status: StatusCode, body: &str, wait: Option<Duration>) -> Self {
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body.trim()));
        let said = message(&body).unwrap_or_else(|| body.as_str().map_or_else(|| body.to_string(), str::to_owned));
        let kind = verdict::of_status(status, &said, &body);
        let wait = wait.or_else(|| verdict::retry_delay(&body));
        let said = if said.is_empty() { said } else { format!(": {said}") };
        let reason = format!("HTTP status {status}{said}");
        Self { wait, status: Some(status), ..Self::new(kind, reason) }
    }

    /// An error that a server sends in place of an answer.
    pub(crate) fn said(error: &Value) -> Self {
        let text = message(error).unwrap_or_else(|| error.to_string());
        Self { wait: verdict::retry_delay(error), ..Self::new(verdict::of_error(&text, error), text) }
    }

    /// The error as users see it.
    pub(crate) fn told(self, model: &str, secrets: &Secrets) -> ModelError {
        let (model, reason) = (model.to_owned(), secrets.clean(&self.reason));
        match self.kind {
            Kind::Unavailable => ModelError::Unavailable { model, reason, source: None },
            Kind::Refused => ModelError::Refused { model, reason },
            Kind::TooLong => ModelError::TooLong { model, reason },
            Kind::BadAnswer | Kind::Unusable => ModelError::BadAnswer { model, reason },
        }
    }
}

/// The message in an error of a provider.
fn message(body: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    body.pointer("/error/message")
        .and_then(text)
        .or_else(|| body.get("error").and_then(text))
        .or_else(|| body.get("message").and_then(text))
}

/// An error with all that caused it: the outermost alone says only that a request failed.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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
