//! What a client is told: where the server is, and what it may do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use hier_agents::ChatModel;
use hier_core::NodeError;
use serde_json::Value;

use super::question::Question;

/// Where a server is.
#[derive(Clone)]
pub(crate) enum Place {
    /// A program that speaks over its standard input and output.
    Child {
        program: String,
        args: Vec<String>,
        env: BTreeMap<String, String>,
        passed: Vec<String>,
        dir: Option<String>,
    },
    /// An address that speaks streamable HTTP.
    Http { url: String, bearer: Option<String>, headers: Vec<(String, String)> },
}

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Protocol {
    /// That of 2026-07-28 if the server knows it, else the newest that begins with `initialize`.
    #[default]
    Auto,
    /// That of 2026-07-28.
    Stateless,
    /// The newest that begins with `initialize`: 2025-11-25.
    Initialize,
}

/// Answers a question of a server while the call waits.
pub(crate) type AnswerNow = Arc<dyn Fn(Question) -> BoxFuture<'static, Result<Value, NodeError>> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) protocol: Protocol,
    pub(crate) only: Option<BTreeSet<String>>,
    pub(crate) prefix: String,
    pub(crate) approve: Option<BTreeSet<String>>,
    pub(crate) approve_all: bool,
    pub(crate) timeout: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) max_text: usize,
    pub(crate) max_media: usize,
    pub(crate) max_message: usize,
    pub(crate) max_tools: usize,
    pub(crate) rounds: usize,
    pub(crate) answer: Option<AnswerNow>,
    pub(crate) sampling: Option<Arc<dyn ChatModel>>,
    pub(crate) roots: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: Protocol::Auto,
            only: None,
            prefix: String::new(),
            approve: None,
            approve_all: false,
            timeout: Duration::from_secs(30),
            call_timeout: Duration::from_mins(5),
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
