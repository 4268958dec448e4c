//! Errors of MCP clients and servers.

use std::error::Error;
use std::time::Duration;

use hier_core::NodeError;
use rmcp::ServiceError;
use rmcp::model::ErrorData;
#[cfg(feature = "oauth")]
use rmcp::transport::AuthError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::{InsufficientScopeError, StreamableHttpError};
use serde_json::Value;

/// An error of an MCP client or server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// An option is invalid.
    #[error("invalid options for the MCP server `{server}`: {reason}")]
    Options {
        /// The name of the server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The connection could not be established, or the server accepts no requests for some time. The server has not
    /// executed the request.
    #[error("the MCP server `{server}` cannot be reached: {reason}")]
    Connect {
        /// The name of the server.
        server: String,
        /// The reason.
        reason: String,
    },
    /// The connection ended before the response arrived. The server may have executed the request. The client does not
    /// repeat it.
    #[error(
        "the MCP server `{server}` disconnected during `{request}`, and may have executed it, so hier does not repeat it{stderr}"
    )]
    Ended {
        /// The name of the server.
        server: String,
        /// The method of the request.
        request: String,
        /// The last output of the server's program on standard error. Empty for a server over HTTP.
        stderr: String,
    },
    /// The response did not arrive in time. The server may have executed the request.
    #[error("the MCP server `{server}` did not respond to `{request}` within {} ms, and may have executed it", after.as_millis())]
    Timeout {
        /// The name of the server.
        server: String,
        /// The method of the request.
        request: String,
        /// The time limit.
        after: Duration,
    },
    /// The server responded with an error.
    #[error("the MCP server `{server}` refused `{request}`: {message} ({code})")]
    Refused {
        /// The name of the server.
        server: String,
        /// The method of the request.
        request: String,
        /// The JSON-RPC error code.
        code: i32,
        /// The server's message.
        message: String,
    },
    /// The response of the server is invalid.
    #[error("invalid response of the MCP server `{server}` to `{request}`: {reason}")]
    BadAnswer {
        /// The name of the server.
        server: String,
        /// The method of the request.
        request: String,
        /// The reason.
        reason: String,
    },
    /// The server requires an authorization. The client has none, or the server rejected the client's authorization.
    #[error("the MCP server `{server}` needs an authorization: {reason}")]
    Authorization {
        /// The name of the server.
        server: String,
        /// The reason, and how to fix it.
        reason: String,
        /// The missing scopes, separated by spaces. `None` if the error has another reason than missing scopes.
        scope: Option<String>,
    },
    /// An [`McpServer`](crate::McpServer) could not start, or stopped because of an error. The string is the reason.
    #[error("the MCP server cannot serve: {0}")]
    Serve(String),
}

impl McpError {
    /// Converts the error of a request. `stderr` returns the server's last output.
    pub(crate) fn from_service_error(
        error: ServiceError,
        server: &str,
        request: &str,
        stderr: impl FnOnce() -> String,
    ) -> Self {
        let (server, request) = (server.to_owned(), clean(request));
        match error {
            ServiceError::McpError(error) => {
                Self::Refused { server, request, code: error.code.0, message: with_urls(&error) }
            }
            ServiceError::Timeout { timeout } => Self::Timeout { server, request, after: timeout },
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                Self::Ended { server, request, stderr: stderr() }
            }
            error if error.is_authorization_required() => {
                let reason = "the server rejects the token: authorize the client again".to_owned();
                Self::Authorization { server, reason, scope: None }
            }
            ServiceError::TransportSend(error) if let Some(scope) = missing_scope(&error) => {
                Self::of_missing_scope(server, scope)
            }
            error if has_ended_session(&error) => Self::Connect { server, reason: "the session has ended".to_owned() },
            ServiceError::TransportSend(error) if is_unread(&error) => {
                Self::Connect { server, reason: clean(&causes(&error)) }
            }
            #[cfg(feature = "oauth")]
            ServiceError::TransportSend(error) if is_forgotten(&error) => Self::of_forgotten_client(server),
            // Without a token, the request was not sent.
            #[cfg(feature = "oauth")]
            ServiceError::TransportSend(error) if lacks_token(&error) => {
                Self::Connect { server, reason: clean(&causes(&error)) }
            }
            // The connection may have ended, or only this request may have failed. Whether the server has read the
            // request is unknown.
            ServiceError::TransportSend(error) => {
                Self::Ended { server, request, stderr: clean(&format!(" ({}){}", error.error, stderr())) }
            }
            other => Self::BadAnswer { server, request, reason: clean(&other.to_string()) },
        }
    }

    pub(crate) fn of_missing_scope(server: String, scope: String) -> Self {
        let named = if scope.is_empty() { "a scope".to_owned() } else { format!("the scope `{scope}`") };
        let reason = format!("the token lacks {named}: authorize the client again");
        Self::Authorization { server, reason, scope: Some(scope) }
    }

    #[cfg(feature = "oauth")]
    pub(crate) fn of_forgotten_client(server: String) -> Self {
        let reason = "the authorization server does not know the client any more: call `McpAuth::forget`, and authorize \
                      the client again";
        Self::Authorization { server, reason: reason.to_owned(), scope: None }
    }

    /// Returns true if the server has not executed the request and a retry may succeed.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Connect { .. })
    }

    pub(crate) fn into_node_error(self) -> NodeError {
        let text = self.to_string();
        if self.is_transient() { NodeError::new(text) } else { NodeError::permanent(text) }
    }
}

/// Returns the chain of errors from this error to its first cause.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (**error).source())
}

/// Describes an error with its causes.
pub(crate) fn causes(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for cause in chain(error).map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

/// The code of the error that names web pages which a person must visit before the request.
const URL_REQUIRED: i32 = -32042;

/// The maximum number of web pages that are shown.
const MOST_PAGES: usize = 10;

/// Returns the message of an error, with the web pages that it names.
fn with_urls(error: &ErrorData) -> String {
    let asked = error.data.as_ref().filter(|_| error.code.0 == URL_REQUIRED);
    let Some(pages) = asked.and_then(|data| data["elicitations"].as_array()) else { return clean(&error.message) };
    let page = |page: &Value| {
        let said = page["message"].as_str().unwrap_or_default();
        Some(format!("visit {}: {said}", page["url"].as_str()?))
    };
    // A long message must not hide the pages.
    let said = shortened(&error.message, LONGEST / 2);
    let parts: Vec<String> = std::iter::once(said).chain(pages.iter().filter_map(page).take(MOST_PAGES)).collect();
    clean(&parts.join("; "))
}

/// Returns the scopes that the server requires and the token lacks. Returns `None` for other errors.
pub(crate) fn missing_scope(error: &DynamicTransportError) -> Option<String> {
    let refused = chain(error).find_map(|cause| cause.downcast_ref::<InsufficientScopeError>())?;
    Some(clean(refused.required_scope.as_deref().unwrap_or_default()))
}

/// Returns true if the server no longer has the client's session. The server has not executed the request.
pub(crate) fn has_ended_session(error: &ServiceError) -> bool {
    let ServiceError::TransportSend(error) = error else { return false };
    http_errors(error).any(|error| matches!(error, StreamableHttpError::SessionExpired))
}

/// Returns true if the server could not be reached, or refuses requests for some time. It has not executed the request.
fn is_unread(error: &DynamicTransportError) -> bool {
    http_errors(error).any(|error| match error {
        StreamableHttpError::HttpStatus(refused) => refused.status == 429,
        StreamableHttpError::Client(error) => error.is_connect(),
        _ => false,
    })
}

fn http_errors(error: &DynamicTransportError) -> impl Iterator<Item = &StreamableHttpError<reqwest::Error>> {
    chain(error).filter_map(|cause| cause.downcast_ref())
}

/// Returns true if the client had no token to send, but may have one at a later attempt.
#[cfg(feature = "oauth")]
fn lacks_token(error: &DynamicTransportError) -> bool {
    chain(error).filter_map(|cause| cause.downcast_ref()).any(is_passing)
}

/// Returns true if the authorization server has deleted the registration of the client.
#[cfg(feature = "oauth")]
pub(crate) fn is_forgotten(error: &DynamicTransportError) -> bool {
    chain(error).filter_map(|cause| cause.downcast_ref()).any(rejects_client)
}

/// Returns true if the authorization server rejects the client. rmcp returns the error code of the server in a text.
#[cfg(feature = "oauth")]
fn rejects_client(error: &AuthError) -> bool {
    matches!(error, AuthError::TokenRefreshFailed(text) if text.contains("invalid_client"))
}

/// Returns true if a later attempt of an authorization may succeed.
#[cfg(feature = "oauth")]
pub(crate) fn is_passing(error: &AuthError) -> bool {
    use AuthError::{CredentialStoreError, DiscoveryRequestFailed, HttpError, TokenRefreshFailed};
    let may_pass =
        matches!(error, CredentialStoreError(_) | DiscoveryRequestFailed { .. } | HttpError(_) | TokenRefreshFailed(_));
    may_pass && !rejects_client(error)
}

/// The maximum length of a server's text in an error, in characters.
const LONGEST: usize = 4_000;

/// Prepares a server's text for errors and logs: limits its length, and escapes control characters, which a terminal
/// would interpret.
pub(crate) fn clean(text: &str) -> String {
    shortened(text, LONGEST)
}

/// Escapes control characters, and limits the number of characters.
pub(crate) fn shortened(text: &str, most: usize) -> String {
    let mut clean = String::with_capacity(text.len().min(most));
    for (count, letter) in text.chars().enumerate() {
        if count == most {
            clean.push('…');
            break;
        }
        match letter {
            '\n' | '\t' => clean.push(letter),
            letter if letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}') => {
                clean.extend(letter.escape_unicode());
            }
            letter => clean.push(letter),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;
    use serde_json::json;

    use super::*;

    #[test]
    fn error_names_the_pages_that_a_person_must_visit() {
        let page = json!({"mode": "url", "elicitationId": "1", "url": "https://x.example/login", "message": "Log in."});
        let text = |code: i32| {
            let data = Some(json!({"elicitations": [page]}));
            let error = ServiceError::McpError(ErrorData::new(ErrorCode(code), "needs a login", data));
            McpError::from_service_error(error, "files", "tools/call read", String::new).to_string()
        };
        let expected = "the MCP server `files` refused `tools/call read`: needs a login; visit https://x.example/login: Log in. \
                        (-32042)";
        assert_eq!(text(-32042), expected);
        assert!(!text(-32000).contains("https://"));
    }
}
