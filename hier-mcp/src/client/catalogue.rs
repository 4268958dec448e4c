//! The catalogue of a server's tools for models.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hier_agents::ToolSpec;
use rmcp::model::Tool;
use tokio::time::Instant;

use super::mcp_client::{McpClient, RemoteTool, RemoteTools};
use super::tool_schema::AdaptedSchema;
use crate::error::{McpError, clean, shortened};

/// The maximum length of a tool name for models.
const LONGEST: usize = 64;

/// The maximum length of a description for models, in characters.
const LONGEST_DESCRIPTION: usize = 8_000;

/// The maximum time that a list is cached.
const LONGEST_KEPT: Duration = Duration::from_hours(1);

/// Replaces characters that tool names for models do not allow.
pub(crate) fn callable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// Returns the name of a tool for models. Shortens long names deterministically, keeping their ends.
pub(crate) fn shown_name(prefix: &str, tool: &str) -> String {
    let tool = callable(tool);
    let mut name = format!("{prefix}{tool}");
    if name.len() > LONGEST {
        let tail: String = tool.chars().rev().take(LONGEST / 2).collect();
        name.truncate(LONGEST - tail.len());
        name.extend(tail.chars().rev());
    }
    name
}

impl McpClient {
    /// Returns the tools of the server, from the cache as long as the server allows.
    pub(crate) async fn catalogue(&self) -> Result<RemoteTools, McpError> {
        // Concurrent callers wait here, and get the same list.
        let mut held = self.0.catalogue.lock().await;
        let connection = self.connection().await?;
        if let Some(kept) = &*held
            && !connection.stale.load(Ordering::Relaxed)
            && kept.until.map_or(connection.reports_changes(), |until| Instant::now() < until)
        {
            return Ok(kept.clone());
        }
        *held = None;
        connection.stale.store(false, Ordering::Relaxed);
        // A server without tools may refuse the request for their list.
        let (tools, ttl) = if connection.offers_tools() { self.list_tools().await? } else { (Vec::new(), None) };
        let catalogue = self.build_catalogue(tools, ttl)?;
        *held = Some(catalogue.clone());
        Ok(catalogue)
    }

    /// Lists all tools. Returns the shortest cache time that the server stated, if any.
    async fn list_tools(&self) -> Result<(Vec<Tool>, Option<Duration>), McpError> {
        let shortest = Mutex::new(None::<Duration>);
        let kept = &shortest;
        let listed = self.pages("tools/list", |connection, params| async move {
            let page = connection.peer().list_tools(Some(params)).await?;
            let mut shortest = kept.lock().unwrap_or_else(PoisonError::into_inner);
            *shortest = shortest.into_iter().chain(page.ttl_ms.map(Duration::from_millis)).min();
            drop(shortest);
            Ok((page.tools, page.next_cursor))
        });
        let tools = listed.await?;
        Ok((tools, shortest.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    fn build_catalogue(&self, tools: Vec<Tool>, ttl: Option<Duration>) -> Result<RemoteTools, McpError> {
        let options = &self.0.options;
        let used = |tool: &Tool| options.only.as_ref().is_none_or(|only| only.contains(&*tool.name));
        let (mut specs, mut known) = (Vec::new(), BTreeMap::<String, RemoteTool>::new());
        for tool in tools.into_iter().filter(used) {
            let schema = if tool.name.is_empty() {
                Err("the tool has no name".to_owned())
            } else {
                AdaptedSchema::new(Arc::unwrap_or_clone(tool.input_schema))
            };
            let schema = match schema {
                Ok(schema) => schema,
                Err(reason) => {
                    let (server, tool) = (&self.0.name, clean(&tool.name));
                    tracing::warn!(
                        server,
                        tool,
                        reason,
                        "skipped a tool of an MCP server: its schema cannot be adapted for models"
                    );
                    continue;
                }
            };
            let name = shown_name(&options.prefix, &tool.name);
            if let Some(other) = known.get(&name) {
                return Err(McpError::BadAnswer {
                    server: self.0.name.clone(),
                    request: "tools/list".to_owned(),
                    reason: format!(
                        "its tools `{}` and `{}` both become `{name}`: select one with `.only([…])`",
                        clean(&other.name),
                        clean(&tool.name)
                    ),
                });
            }
            let description = tool.description.or(tool.title.map(Into::into)).unwrap_or_default();
            let description = shortened(&description, LONGEST_DESCRIPTION);
            specs.push(ToolSpec { name: name.clone(), description, parameters: schema.shown.clone() });
            known.insert(name, RemoteTool { name: tool.name.into_owned(), schema });
        }
        let until = ttl.and_then(|ttl| Instant::now().checked_add(ttl.min(LONGEST_KEPT)));
        Ok(RemoteTools { specs: specs.into(), tools: Arc::new(known), until })
    }
}
