//! The tools that a server has, as models are told of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hier_core::agent::ToolSpec;
use rmcp::model::{PaginatedRequestParams, Tool};
use serde_json::Value;
use tokio::time::Instant;

use super::connection::{Catalogue, Client};
use super::link::Link;
use crate::error::McpError;

/// The longest name that models can call.
const LONGEST: usize = 64;

/// How long a list is kept at most, whatever the server says.
const LONGEST_KEPT: Duration = Duration::from_hours(1);

/// The name by which a model can call a tool: letters, digits, `_` and `-`.
pub(crate) fn callable(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' }).collect()
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

    /// All pages, and how long they may be kept; none if the server does not say.
    async fn listed(&self) -> Result<(Vec<Tool>, Option<Duration>), McpError> {
        let (mut tools, mut ttl) = (Vec::new(), None::<Duration>);
        let (mut cursor, mut seen) = (None::<String>, BTreeSet::new());
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let page = self
                .ask("tools/list", |link: Arc<Link>| {
                    let params = params.clone();
                    async move { link.peer().list_tools(Some(params)).await }
                })
                .await?;
            tools.extend(page.tools);
            let kept = page.ttl_ms.map(Duration::from_millis);
            ttl = ttl.into_iter().chain(kept).min();
            let bad = |reason: String| McpError::BadAnswer {
                server: self.0.name.clone(),
                request: "tools/list".to_owned(),
                reason,
            };
            if tools.len() > self.0.options.max_tools {
                return Err(bad(format!("it has more than {} tools", self.0.options.max_tools)));
            }
            match page.next_cursor {
                None => return Ok((tools, ttl)),
                Some(next) if !seen.insert(next.clone()) => return Err(bad("its pages have no end".to_owned())),
                Some(next) => cursor = Some(next),
            }
        }
    }

    fn made(&self, tools: Vec<Tool>, ttl: Option<Duration>) -> Result<Catalogue, McpError> {
        let options = &self.0.options;
        let used = |tool: &Tool| options.only.as_ref().is_none_or(|only| only.contains(&*tool.name));
        let (mut specs, mut names) = (Vec::new(), BTreeMap::new());
        for tool in tools.into_iter().filter(used) {
            let mut name = format!("{}{}", options.prefix, callable(&tool.name));
            // What is cut off is cut off everywhere alike, so that two names stay two.
            if name.len() > LONGEST {
                let tail: String = callable(&tool.name).chars().rev().take(LONGEST / 2).collect();
                name.truncate(LONGEST - tail.len());
                name.extend(tail.chars().rev());
            }
            if let Some(other) = names.insert(name.clone(), tool.name.to_string()) {
                return Err(McpError::BadAnswer {
                    server: self.0.name.clone(),
                    request: "tools/list".to_owned(),
                    reason: format!(
                        "its tools `{other}` and `{}` are both `{name}` for a model: use one of them, `.only([…])`",
                        tool.name
                    ),
                });
            }
            let description = tool.description.or(tool.title.map(Into::into)).unwrap_or_default().into_owned();
            let parameters = Value::Object((*tool.input_schema).clone());
            specs.push(ToolSpec { name, description, parameters });
        }
        let until = ttl.and_then(|ttl| Instant::now().checked_add(ttl.min(LONGEST_KEPT)));
        Ok(Catalogue { specs: specs.into(), names: Arc::new(names), until })
    }
}
