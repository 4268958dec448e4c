//! The tools, resources and prompts of a server.

mod answer;
mod builder;
mod call;
mod catalogue;
mod child;
mod connection;
mod content;
mod handler;
mod library;
mod link;
mod options;
mod question;
mod schema;
mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use hier_agents::{ToolAnswer, ToolCall, ToolSpec, Toolset};
use hier_core::{NodeError, Run, async_trait};
use serde_json::Value;

use self::options::{Options, Place};
use crate::error::McpError;

pub use self::builder::ClientBuilder;
pub use self::connection::Client;
pub use self::library::{Prompt, PromptArgument, Resource};
pub use self::options::Protocol;
pub use self::question::Question;

impl Client {
    /// A server that is a program, which speaks over its standard input and output. `name` is what it is called in errors and
    /// questions.
    pub fn stdio(name: impl Into<String>, program: impl Into<String>) -> ClientBuilder {
        let (program, args, passed) = (program.into(), Vec::new(), Vec::new());
        ClientBuilder::new(name.into(), Place::Child { program, args, env: BTreeMap::new(), passed, dir: None })
    }

    /// A server at this address, over streamable HTTP. Redirects lead to the same host only.
    pub fn http(name: impl Into<String>, url: impl Into<String>) -> ClientBuilder {
        ClientBuilder::new(name.into(), Place::Http { url: url.into(), bearer: None, headers: Vec::new() })
    }

    /// Returns the schema of a tool's arguments as the server sent it, or `None` if there is no tool with this name. Models are shown
    /// [`ToolSpec::parameters`], which differs where no provider accepts the server's schema.
    ///
    /// # Errors
    ///
    /// [`McpError`] if the tools cannot be listed.
    pub async fn input_schema(&self, tool: &str) -> Result<Option<Value>, McpError> {
        let catalogue = self.catalogue().await?;
        Ok(catalogue.tools.get(tool).map(|known| known.shape.original.clone()))
    }
}

#[async_trait]
impl Toolset for Client {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn tools(&self) -> Result<Arc<[ToolSpec]>, NodeError> {
        self.catalogue().await.map(|catalogue| catalogue.specs).map_err(McpError::into_node_error)
    }

    fn needs_approval(&self, tool: &str) -> bool {
        let Options { approve, approve_all, prefix, .. } = &self.0.options;
        // The server's name, or what a model can call of it.
        let names = |name: &String| catalogue::shown_name(prefix, name) == tool;
        *approve_all || approve.as_ref().is_some_and(|tools| tools.iter().any(names))
    }

    async fn call(&self, call: &ToolCall, run: &Run) -> Result<ToolAnswer, NodeError> {
        self.call_in(call, run).await
    }
}
