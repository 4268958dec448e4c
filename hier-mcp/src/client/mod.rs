//! MCP clients.

mod answer;
mod builder;
mod call;
mod catalogue;
mod child;
mod connection;
mod content;
mod handler;
mod http;
mod mcp_client;
mod options;
mod question;
mod repair;
mod resources;
mod round;
mod schema;
mod task;
mod tool_schema;

use std::collections::BTreeMap;
use std::sync::Arc;

use hier_agents::{ToolAnswer, ToolCall, ToolSpec, Toolset, TrustLabels};
use hier_core::{NodeError, Run, async_trait};
use serde_json::Value;

use self::options::{ClientOptions, ServerLocation};
use crate::error::McpError;

pub use self::builder::McpClientBuilder;
pub use self::mcp_client::McpClient;
pub use self::options::Protocol;
pub use self::question::McpQuestion;
pub use self::resources::{McpPrompt, McpResource, PromptArgument};

impl McpClient {
    /// Creates a builder of a client that starts a program and uses its standard input and output. `name` identifies
    /// the server in errors and questions.
    pub fn stdio(name: impl Into<String>, program: impl Into<String>) -> McpClientBuilder {
        let (program, args, passed) = (program.into(), Vec::new(), Vec::new());
        McpClientBuilder::new(
            name.into(),
            ServerLocation::Child { program, args, env: BTreeMap::new(), passed, dir: None },
        )
    }

    /// Creates a builder of a client for a server at this URL, over streamable HTTP. The client refuses redirects to
    /// other hosts.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> McpClientBuilder {
        let location = ServerLocation::Http {
            url: url.into(),
            bearer: None,
            headers: Vec::new(),
            #[cfg(feature = "oauth")]
            auth: None,
        };
        McpClientBuilder::new(name.into(), location)
    }

    /// Returns the JSON Schema of a tool's arguments as the server sent it, or `None` for an unknown tool. `tool` is
    /// the name for models, with the prefix. Models receive the adapted schema in [`ToolSpec::parameters`].
    ///
    /// # Errors
    ///
    /// Fails if the tools cannot be listed.
    pub async fn input_schema(&self, tool: &str) -> Result<Option<Value>, McpError> {
        let catalogue = self.catalogue().await?;
        Ok(catalogue.tools.get(tool).map(|known| known.schema.original.clone()))
    }
}

#[async_trait]
impl Toolset for McpClient {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>, NodeError> {
        self.catalogue().await.map(|catalogue| catalogue.specs).map_err(McpError::into_node_error)
    }

    fn needs_approval(&self, tool: &str) -> bool {
        let ClientOptions { approve, approve_all, prefix, .. } = &self.0.options;
        // `approve` contains the server's names, and `tool` is the name for models.
        let names = |name: &String| catalogue::shown_name(prefix, name) == tool;
        *approve_all || approve.as_ref().is_some_and(|tools| tools.iter().any(names))
    }

    fn labels(&self, _: &str) -> TrustLabels {
        self.0.options.labels.unwrap_or(TrustLabels::UNTRUSTED.with(TrustLabels::SENDS))
    }

    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError> {
        self.call_in(call, run).await
    }
}
