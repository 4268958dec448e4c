//! What goes wrong with a model, in our words and without its key.

use std::time::Duration;

use hier_core::agent::ModelError;
use serde_json::Value;

use crate::secret::Secrets;

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
    /// How long the provider asks to be left alone.
    pub(crate) wait: Option<Duration>,
}

/// The kinds of [`ModelError`] that a server can cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Unavailable,
    Refused,
    TooLong,
    BadAnswer,
}

impl Failure {
    pub(crate) fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), wait: None }
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

    /// A status that is no success, with what the server said about it.
    pub(crate) fn status(status: reqwest::StatusCode, body: &str, wait: Option<Duration>) -> Self {
        let passes = status.is_server_error() || [408, 409, 425, 429].contains(&status.as_u16());
        let body: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::from(body.trim()));
        let said = message(&body).unwrap_or_else(|| body.as_str().map_or_else(|| body.to_string(), str::to_owned));
        let kind = match passes {
            _ if status.as_u16() < 500 && is_too_long(&said, &body) => Kind::TooLong,
            true => Kind::Unavailable,
            false => Kind::Refused,
        };
        let said = if said.is_empty() { said } else { format!(": {said}") };
        Self { kind, reason: format!("HTTP status {status}{said}"), wait }
    }

    /// What a server says is wrong, in the place of an answer.
    pub(crate) fn said(error: &Value) -> Self {
        let text = message(error).unwrap_or_else(|| error.to_string());
        let inner = error.get("error").unwrap_or(error);
        let code = inner.get("code").and_then(Value::as_u64).unwrap_or_default();
        let names = ["type", "code", "status"].iter().filter_map(|field| inner.get(field)?.as_str());
        let passes = { names }.any(|name| PASSING.iter().any(|passing| name.to_ascii_lowercase().contains(passing)));
        let kind = match passes || code == 429 || (500..600).contains(&code) {
            _ if is_too_long(&text, error) => Kind::TooLong,
            true => Kind::Unavailable,
            false => Kind::Refused,
        };
        Self::new(kind, text)
    }

    /// The error as users see it.
    pub(crate) fn told(self, model: &str, secrets: &Secrets) -> ModelError {
        let (model, reason) = (model.to_owned(), secrets.clean(&self.reason));
        match self.kind {
            Kind::Unavailable => ModelError::Unavailable { model, reason, source: None },
            Kind::Refused => ModelError::Refused { model, reason },
            Kind::TooLong => ModelError::TooLong { model, reason },
            Kind::BadAnswer => ModelError::BadAnswer { model, reason },
        }
    }
}

/// Parts of the names that providers give to errors which pass.
const PASSING: [&str; 6] = ["overloaded", "rate_limit", "server_error", "api_error", "timeout", "unavailable"];

/// Parts of what providers say of a conversation that is longer than their model can read.
const TOO_LONG: [&str; 7] = [
    "maximum context length",
    "context window",
    "context size",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "exceed context limit",
];

/// Whether an error is of a conversation that is too long.
fn is_too_long(said: &str, body: &Value) -> bool {
    let text = |field: &str| body.get("error").unwrap_or(body).get(field).and_then(Value::as_str).unwrap_or_default();
    let names = ["code", "type"].map(text);
    let said = said.to_ascii_lowercase();
    names.iter().any(|name| ["context_length_exceeded", "exceed_context_size_error"].contains(name))
        || TOO_LONG.iter().any(|part| said.contains(part))
}

/// The message in what providers send as an error.
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
