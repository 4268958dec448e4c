//! What goes wrong with a model, in our words and without its key.

use std::time::Duration;

use genai::webc;
use hier_core::agent::ModelError;

/// A text that names no model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` names no model: {reason}")]
pub struct ParseModelError {
    /// The text, without secrets that stand in it.
    pub text: String,
    /// What is wrong with it, and how to mend it.
    pub reason: String,
}

/// The longest piece of an answer that an error repeats, in characters.
const LONGEST: usize = 500;

/// A failed call.
pub(crate) struct Failure {
    pub(crate) error: ModelError,
    /// How long the provider asks to be left alone.
    pub(crate) wait: Option<Duration>,
}

/// A failure of this model, whose key, and the query of whose address, are left out wherever they might stand.
pub(crate) fn failure(model: &str, key: Option<&str>, url: &str, error: &genai::Error) -> Failure {
    let error = inner(error);
    let wait = error.headers().and_then(|headers| headers.get("retry-after")).and_then(|value| {
        let seconds: f64 = value.to_str().ok()?.trim().parse().ok()?;
        Duration::try_from_secs_f64(seconds).ok()
    });
    let (kind, reason) = explain(error);
    let reason = clean(&reason, key, url);
    let model = model.to_owned();
    let error = match kind {
        Kind::Unavailable => ModelError::Unavailable { model, reason, source: None },
        Kind::Refused => ModelError::Refused { model, reason },
        Kind::BadAnswer => ModelError::BadAnswer { model, reason },
    };
    Failure { error, wait }
}

enum Kind {
    Unavailable,
    Refused,
    BadAnswer,
}

/// The error that a stream wraps, where it does.
fn inner(error: &genai::Error) -> &genai::Error {
    match error {
        genai::Error::WebStream { error: boxed, .. } => boxed.downcast_ref().unwrap_or(error),
        other => other,
    }
}

fn explain(error: &genai::Error) -> (Kind, String) {
    use genai::Error as E;
    if let Some(status) = error.status() {
        let passes = status.is_server_error() || [408, 409, 425, 429].contains(&status.as_u16());
        let kind = if passes { Kind::Unavailable } else { Kind::Refused };
        return (
            kind,
            format!("HTTP status {status}{}", body(error).map_or_else(String::new, |text| format!(": {text}"))),
        );
    }
    match error {
        E::WebModelCall { webc_error, .. } | E::WebAdapterCall { webc_error, .. } => match webc_error {
            // Also what breaks off in the middle: whether it is JSON is looked at later.
            webc::Error::Reqwest(error) => (Kind::Unavailable, chain(error)),
            webc::Error::ResponseFailedNotJson { content_type, .. } => {
                (Kind::BadAnswer, format!("it is `{content_type}` and not JSON"))
            }
            other => (Kind::BadAnswer, other.to_string()),
        },
        E::WebStream { error, .. } => (Kind::Unavailable, chain(&**error)),
        E::ChatResponse { body, .. } => (Kind::Unavailable, message(body).unwrap_or_else(|| body.to_string())),
        // Its own text repeats the whole request.
        E::ChatResponseGeneration { cause, .. } => (Kind::BadAnswer, cause.clone()),
        E::NoChatResponse { .. } | E::InvalidJsonResponseElement { .. } | E::StreamParse { .. } => {
            (Kind::BadAnswer, error.to_string())
        }
        other => (Kind::Refused, other.to_string()),
    }
}

/// What the provider said, if it said something.
fn body(error: &genai::Error) -> Option<String> {
    let text = match error {
        genai::Error::HttpError { body, .. } => body,
        genai::Error::WebModelCall { webc_error, .. } | genai::Error::WebAdapterCall { webc_error, .. } => {
            match webc_error {
                webc::Error::ResponseFailedStatus { body, .. } => body,
                _ => return None,
            }
        }
        _ => return None,
    };
    let said = serde_json::from_str(text).ok().and_then(|body| message(&body));
    Some(said.unwrap_or_else(|| text.trim().to_owned())).filter(|text| !text.is_empty())
}

/// The message in what providers send as an error.
fn message(body: &serde_json::Value) -> Option<String> {
    let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
    body.pointer("/error/message")
        .and_then(text)
        .or_else(|| body.get("error").and_then(text))
        .or_else(|| body.get("message").and_then(text))
}

/// An error with all that caused it: the outermost alone says only that a request failed.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
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

/// The text without the key and without the query, where others keep theirs; and not too long.
fn clean(text: &str, key: Option<&str>, url: &str) -> String {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let text = if query.is_empty() { text.to_owned() } else { text.replace(query, "…") };
    let text = match key {
        Some(key) if !key.is_empty() => text.replace(key, "[the key]"),
        _ => text,
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
