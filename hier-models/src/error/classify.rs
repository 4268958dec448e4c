//! Classifies errors of providers by their status, code and text.

use std::time::Duration;

use reqwest::StatusCode;
use serde_json::Value;

use super::FailureKind;

/// Parts of the names of temporary errors.
const PASSING: [&str; 10] = [
    "overloaded",
    "rate_limit",
    "server_error",
    "api_error",
    "timeout",
    "unavailable",
    // Bedrock's exceptions.
    "throttling",
    "internalserver",
    "internalfailure",
    "modelstreamerror",
];

/// Names of payment errors, which waiting does not solve.
const UNPAID: [&str; 3] = ["insufficient_quota", "billing_not_active", "billing_hard_limit_reached"];

const TOO_LONG_NAMES: [&str; 6] = [
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "input_too_large",
    "request_too_large",
    "string_above_max_length",
];

/// Phrases of errors about a conversation that exceeds the model's context.
const TOO_LONG: [&str; 14] = [
    "prompt is too long",
    "prompt too long",
    "input is too long",
    "maximum context length",
    "max context length",
    "context window",
    "context size",
    "maximum prompt length",
    "maximum allowed input length",
    "exceeds the maximum number of tokens",
    "exceed context limit",
    "exceeds the context",
    "too many input tokens",
    "too many total text bytes",
];

/// Further wordings of these errors: the measured item, and the complaint about its size.
const MEASURED: [&str; 4] = ["prompt", "input", "context", "request"];
const TOO_MUCH: [&str; 4] = ["too long", "too large", "exceed", "maximum"];

/// An error with one of these words concerns an option, a file or a rate, not the length of the conversation.
const OTHERWISE: [&str; 15] = [
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxoutputtokens",
    "temperature",
    "top_p",
    "stop",
    "image",
    "file",
    "document",
    "pdf",
    "audio",
    "rate limit",
    "quota",
    "tool",
];

pub(super) fn kind_of_status(status: StatusCode, text: &str, body: &Value) -> FailureKind {
    if is_unpaid(body) {
        return FailureKind::Refused;
    }
    let is_about_size = [400, 413, 422].contains(&status.as_u16());
    if status == StatusCode::PAYLOAD_TOO_LARGE
        || (!status.is_server_error() && is_too_long(text, body))
        || (is_about_size && is_oversized(text))
    {
        return FailureKind::TooLong;
    }
    if is_passing(status.as_u16().into()) { FailureKind::Unavailable } else { FailureKind::Refused }
}

/// Returns true for a status that another attempt may not have.
fn is_passing(status: u64) -> bool {
    [408, 409, 424, 425, 429].contains(&status) || (500..600).contains(&status)
}

/// Classifies an error that replaces an answer.
pub(super) fn kind_of_error(text: &str, error: &Value) -> FailureKind {
    if is_unpaid(error) {
        return FailureKind::Refused;
    }
    if is_too_long(text, error) {
        return FailureKind::TooLong;
    }
    let code = error_object(error).get("code").and_then(Value::as_u64).unwrap_or_default();
    let passes =
        error_names(error).any(|name| PASSING.iter().any(|passing| name.to_ascii_lowercase().contains(passing)));
    if passes || is_passing(code) { FailureKind::Unavailable } else { FailureKind::Refused }
}

/// Returns the delay that Google's APIs put into the error body.
pub(super) fn retry_delay(error: &Value) -> Option<Duration> {
    let details = error_object(error).get("details")?.as_array()?;
    let delay = details.iter().find_map(|detail| detail.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

fn error_object(error: &Value) -> &Value {
    error.get("error").filter(|inner| inner.is_object()).unwrap_or(error)
}

fn error_names(error: &Value) -> impl Iterator<Item = &str> {
    let object = error_object(error);
    ["type", "code", "status"].into_iter().filter_map(|field| object.get(field)?.as_str())
}

fn is_unpaid(error: &Value) -> bool {
    error_names(error).any(|name| UNPAID.contains(&name))
}

fn is_too_long(text: &str, error: &Value) -> bool {
    let text = text.to_ascii_lowercase();
    // Gateways repeat the name of an error in its text.
    error_names(error).any(|name| TOO_LONG_NAMES.contains(&name))
        || TOO_LONG.iter().chain(&TOO_LONG_NAMES).any(|part| text.contains(part))
}

/// Returns true for "the prompt … is too long" in any wording.
fn is_oversized(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    let measured = MEASURED.iter().filter_map(|what| text.find(what)).min();
    let too_much = TOO_MUCH.iter().filter_map(|how| text.rfind(how)).max();
    matches!((measured, too_much), (Some(measured), Some(too_much)) if measured < too_much)
        && !OTHERWISE.iter().any(|other| text.contains(other))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn size_errors_are_recognized() {
        let too_long = [
            (
                400,
                json!({ "error": "This model's maximum prompt length is 131072 but the request contains 150000 tokens." }),
            ),
            (
                400,
                json!({ "error": { "message": "Input length 9 exceeds the maximum allowed input length of 8 tokens" } }),
            ),
            (400, json!({ "error": "prompt too long; exceeded max context length by 9 tokens" })),
            (400, json!({ "error": { "message": "[input_too_large] 9 > 8" } })),
            (422, json!({ "error": { "message": "inputs are too long: context has 9 tokens, exceeding 8" } })),
            (
                413,
                json!({ "type": "error", "error": { "type": "request_too_large", "message": "Request exceeds the maximum size" } }),
            ),
            (413, json!("<html>Payload Too Large</html>")),
            (400, json!({ "error": { "message": "prompt is too long: 9 tokens > 8 maximum" } })),
            (400, json!({ "error": { "message": "input length and `max_tokens` exceed context limit: 9 + 9 > 8" } })),
        ];
        for (status, body) in too_long {
            let text = super::super::message_of(&body).unwrap_or_else(|| body.to_string());
            assert_eq!(
                kind_of_status(StatusCode::from_u16(status).unwrap(), &text, &body),
                FailureKind::TooLong,
                "{body}"
            );
        }
        let others = [
            (400, "max_tokens is too large: the request exceeds the maximum", FailureKind::Refused),
            (400, "messages.0.content.1: image exceeds 5 MB maximum", FailureKind::Refused),
            (400, "Input should be less than or equal to 2", FailureKind::Refused),
            (429, "Request rate exceeds the maximum", FailureKind::Unavailable),
            (503, "context window", FailureKind::Unavailable),
        ];
        for (status, text, kind) in others {
            let body = json!({ "error": { "message": text } });
            assert_eq!(kind_of_status(StatusCode::from_u16(status).unwrap(), text, &body), kind, "{text}");
        }
    }

    #[test]
    fn exhausted_quota_is_final() {
        let body = json!({ "error": { "message": "You exceeded your current quota", "type": "insufficient_quota" } });
        assert_eq!(kind_of_status(StatusCode::TOO_MANY_REQUESTS, "You exceeded", &body), FailureKind::Refused);
        assert_eq!(kind_of_error("You exceeded", &body), FailureKind::Refused);
    }

    #[test]
    fn codes_in_the_body_count_as_the_status() {
        for code in [400, 404, 408, 409, 424, 425, 429, 499, 500, 529, 600] {
            let kind = kind_of_error("no", &json!({ "error": { "message": "no", "code": code } }));
            let passes = [408, 409, 424, 425, 429, 500, 529].contains(&code);
            let expected = if passes { FailureKind::Unavailable } else { FailureKind::Refused };
            assert_eq!(kind, expected, "{code}");
        }
    }

    #[test]
    fn google_retry_delay_is_parsed() {
        let info = |delay: &str| json!({ "error": { "details": [{ "@type": "x" }, { "retryDelay": delay }] } });
        assert_eq!(retry_delay(&info("4.2s")), Some(Duration::from_millis(4_200)));
        for wrong in ["", "s", "4", "-1s", "1e400s", "NaNs"] {
            assert_eq!(retry_delay(&info(wrong)), None, "{wrong}");
        }
    }
}
