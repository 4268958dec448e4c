//! What can go wrong with a server.

use std::time::Duration;

use hier_core::NodeError;
use rmcp::ServiceError;

/// Why a server cannot be used, or a server cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum McpError {
    /// The options do not fit together.
    #[error("the MCP server `{server}` cannot be used like this: {reason}")]
    Options {
        /// The server.
        server: String,
        /// What is wrong with them.
        reason: String,
    },
    /// There is no connection.
    #[error("the MCP server `{server}` cannot be reached: {reason}")]
    Connect {
        /// The server.
        server: String,
        /// Why.
        reason: String,
    },
    /// The connection ended before the answer came: what was asked may have been done, or not.
    #[error(
        "the MCP server `{server}` ended during `{request}`: it may have been done or not, and is not repeated{said}"
    )]
    Ended {
        /// The server.
        server: String,
        /// What was asked.
        request: String,
        /// What the server wrote to its standard error at last.
        said: String,
    },
    /// No answer came in time.
    #[error("the MCP server `{server}` did not answer `{request}` within {} ms", after.as_millis())]
    Timeout {
        /// The server.
        server: String,
        /// What was asked.
        request: String,
        /// The time that it had.
        after: Duration,
    },
    /// The server answered with an error.
    #[error("the MCP server `{server}` refused `{request}`: {message} ({code})")]
    Refused {
        /// The server.
        server: String,
        /// What was asked.
        request: String,
        /// The code of JSON-RPC.
        code: i32,
        /// The server's words.
        message: String,
    },
    /// The answer is none that the protocol knows here.
    #[error("the MCP server `{server}` answered `{request}` with what cannot be used: {reason}")]
    BadAnswer {
        /// The server.
        server: String,
        /// What was asked.
        request: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A server of one's own could not serve.
    #[error("the MCP server cannot serve: {0}")]
    Serve(String),
}

impl McpError {
    /// What became of a request that has no result.
    pub(crate) fn of(error: ServiceError, server: &str, request: &str, said: impl FnOnce() -> String) -> Self {
        let (server, request) = (server.to_owned(), clean(request));
        match error {
            ServiceError::McpError(error) => {
                Self::Refused { server, request, code: error.code.0, message: clean(&error.message) }
            }
            ServiceError::Timeout { timeout } => Self::Timeout { server, request, after: timeout },
            ServiceError::TransportClosed | ServiceError::Cancelled { .. } => {
                Self::Ended { server, request, said: said() }
            }
            // The connection may be gone, or only this request: it is not known whether it was read.
            ServiceError::TransportSend(error) => {
                Self::Ended { server, request, said: clean(&format!(" ({}){}", error.error, said())) }
            }
            other => Self::BadAnswer { server, request, reason: clean(&other.to_string()) },
        }
    }

    /// Whether the same may go well later, and nothing can have been done.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Connect { .. })
    }

    pub(crate) fn into_node_error(self) -> NodeError {
        let text = self.to_string();
        if self.is_transient() { NodeError::new(text) } else { NodeError::permanent(text) }
    }
}

/// The longest text of a server that an error repeats, in characters.
const LONGEST: usize = 4_000;

/// A text of a server for errors and logs: without control characters, which a terminal would obey, and not too long.
pub(crate) fn clean(text: &str) -> String {
    shortened(text, LONGEST)
}

/// The text without control characters, and with this many characters at the most.
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
