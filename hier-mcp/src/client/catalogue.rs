//! The tools that a server has, as models are told of them.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hier_agents::ToolSpec;
use rmcp::model::Tool;
use tokio::time::Instant;

use super::connection::{Catalogue, Client, Known};
use super::shape::Shape;
use crate::error::{McpError, clean, shortened};

/// The longest name that models can call.
const LONGEST: usize = 64;

/// The longest description that models are shown, in characters.
const LONGEST_DESCRIPTION: usize = 8_000;

/// How long a list is kept at most, whatever the server says.
const LONGEST_KEPT: Duration = Duration::from_hours(1);

/// The name by which a model can call a tool: letters, digits, `_` and `-`.
pub(crate) fn callable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
}

/// The name of a tool for models. A name that is too long is shortened in the same way everywhere, so that two stay two.
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

impl Client {
    /// The tools of the server: those that were listed last, as long as the server lets them be kept.
    pub(crate) async fn catalogue(&self) -> Result<Catalogue, McpError> {
        // Whoever comes meanwhile waits, and takes the same list.
        let mut held = self.0.catalogue.lock().await;
        let link = self.link().await?;
        if let Some(kept) = &*held
            && !link.stale.load(Ordering::Relaxed)
            && kept.until.map_or(link.tells(), |until| Instant::now() < until)
        {
            return Ok(kept.clone());
        }
        *held = None;
        link.stale.store(false, Ordering::Relaxed);
        let (tools, ttl) = self.listed().await?;
        let catalogue = self.made(tools, ttl)?;
        *held = Some(catalogue.clone());
        Ok(catalogue)
    }

    /// All tools, and how long they may be kept; none if the server does not say.
    async fn listed(&self) -> Result<(Vec<Tool>, Option<Duration>), McpError> {
        let shortest = Mutex::new(None::<Duration>);
        let kept = &shortest;
        let listed = self.pages("tools/list", |link, params| async move {
            let page = link.peer().list_tools(Some(params)).await?;
            let mut shortest = kept.lock().unwrap_or_else(PoisonError::into_inner);
            *shortest = shortest.into_iter().chain(page.ttl_ms.map(Duration::from_millis)).min();
            drop(shortest);
            Ok((page.tools, page.next_cursor))
        });
        let tools = listed.await?;
        Ok((tools, shortest.into_inner().unwrap_or_else(PoisonError::into_inner)))
    }

    fn made(&self, tools: Vec<Tool>, ttl: Option<Duration>) -> Result<Catalogue, McpError> {
        let options = &self.0.options;
        let used = |tool: &Tool| options.only.as_ref().is_none_or(|only| only.contains(&*tool.name));
        let (mut specs, mut known) = (Vec::new(), BTreeMap::<String, Known>::new());
        for tool in tools.into_iter().filter(used) {
            let shape = if tool.name.is_empty() {
                Err("it has no name".to_owned())
            } else {
                Shape::new(Arc::unwrap_or_clone(tool.input_schema))
            };
            let shape = match shape {
                Ok(shape) => shape,
                Err(reason) => {
                    let (server, tool) = (&self.0.name, clean(&tool.name));
                    tracing::warn!(
                        server,
                        tool,
                        reason,
                        "left out a tool of an MCP server that models cannot be offered"
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
                        "its tools `{}` and `{}` are both `{name}` for a model: use one of them, `.only([…])`",
                        clean(&other.name),
                        clean(&tool.name)
                    ),
                });
            }
            let description = tool.description.or(tool.title.map(Into::into)).unwrap_or_default();
            let description = shortened(&description, LONGEST_DESCRIPTION);
            specs.push(ToolSpec { name: name.clone(), description, parameters: shape.shown.clone() });
            known.insert(name, Known { name: tool.name.into_owned(), shape });
        }
        let until = ttl.and_then(|ttl| Instant::now().checked_add(ttl.min(LONGEST_KEPT)));
        Ok(Catalogue { specs: specs.into(), tools: Arc::new(known), until })
    }
}
