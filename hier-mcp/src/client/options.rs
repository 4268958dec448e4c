//! The options of a client, and the location of its server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hier_agents::{ChatModel, TrustLabels};
use hier_core::NodeError;
use serde_json::Value;

use super::question::McpQuestion;

#[derive(Clone)]
pub(crate) enum ServerLocation {
    /// A program that serves on its standard input and output.
    Child {
        program: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        passed: Vec<String>,
        dir: Option<String>,
    },
    /// A URL of a streamable HTTP server.
    Http {
        url: String,
        bearer: Option<String>,
        headers: Vec<(String, String)>,
        #[cfg(feature = "oauth")]
        auth: Option<crate::oauth::McpAuth>,
    },
}

impl ServerLocation {
    pub(crate) fn is_program(&self) -> bool {
        matches!(self, Self::Child { .. })
    }

    #[cfg(feature = "oauth")]
    pub(crate) fn auth(&self) -> Option<&crate::oauth::McpAuth> {
        match self {
            Self::Http { auth, .. } => auth.as_ref(),
            Self::Child { .. } => None,
        }
    }
}

/// The version of the MCP protocol that the client uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// Version 2026-07-28 if the server supports this version. Otherwise the client connects as with
    /// [`Initialize`](Self::Initialize).
    #[default]
    Auto,
    /// Version 2026-07-28.
    Stateless,
    /// Version 2025-11-25. This is the newest version in which a connection starts with the request `initialize`.
    Initialize,
}

pub(crate) type AnswerFn = Arc<dyn Fn(McpQuestion) -> BoxFuture<'static, Result<Value, NodeError>> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct ClientOptions {
    pub(crate) protocol: Protocol,
    pub(crate) only: Option<BTreeSet<String>>,
    pub(crate) prefix: String,
    pub(crate) approve: Option<BTreeSet<String>>,
    pub(crate) approve_all: bool,
    pub(crate) labels: Option<TrustLabels>,
    pub(crate) timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) task_timeout: Duration,
    pub(crate) max_text: usize,
    pub(crate) max_media: usize,
    pub(crate) max_message: usize,
    pub(crate) max_tools: usize,
    pub(crate) rounds: usize,
    pub(crate) answer: Option<AnswerFn>,
    pub(crate) sampling: Option<Arc<dyn ChatModel>>,
    pub(crate) roots: Vec<String>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            protocol: Protocol::Auto,
            only: None,
            prefix: String::new(),
            approve: None,
            approve_all: false,
            labels: None,
            timeout: Duration::from_secs(30),
            call_timeout: Duration::from_mins(5),
            task_timeout: Duration::from_hours(24),
            max_text: 128 * 1024,
            max_media: 5 * 1024 * 1024,
            max_message: 16 * 1024 * 1024,
            max_tools: 1_000,
            rounds: 10,
            answer: None,
            sampling: None,
            roots: Vec::new(),
        }
    }
}
