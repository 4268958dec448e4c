//! Resources and prompts of a server.

use std::collections::BTreeSet;
use std::sync::Arc;

use hier_agents::{Content, Message};
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    Role,
};
use serde_json::{Map, Value};
use tokio::time::timeout;

use super::connection::Client;
use super::content;
use super::link::Link;
use crate::error::McpError;

/// The most pages of a list.
const MOST_PAGES: usize = 100;

/// Something that a server has under an address.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resource {
    /// Its address.
    pub uri: String,
    /// Its name.
    pub name: String,
    /// What it is; empty if the server does not say.
    pub description: String,
    /// Its media type.
    pub media_type: Option<String>,
}

/// A prompt that a server has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt {
    /// Its name.
    pub name: String,
    /// What it is for; empty if the server does not say.
    pub description: String,
    /// What it is filled with.
    pub arguments: Vec<PromptArgument>,
}

/// Something that a prompt is filled with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name.
    pub name: String,
    /// What it is; empty if the server does not say.
    pub description: String,
    /// Whether it must be given.
    pub required: bool,
}

impl Client {
    /// The resources of the server.
    pub async fn resources(&self) -> Result<Vec<Resource>, McpError> {
        let listed = self.pages("resources/list", |link, params| async move {
            let page = link.peer().list_resources(Some(params)).await?;
            Ok((page.resources, page.next_cursor))
        });
        let found = listed.await?.into_iter().map(|resource| Resource {
            uri: resource.uri.clone(),
            name: resource.name.clone(),
            description: resource.description.clone().unwrap_or_default(),
            media_type: resource.mime_type.clone(),
        });
        Ok(found.collect())
    }

    /// What is at this address, within the bounds of results.
    pub async fn read(&self, uri: &str) -> Result<Content, McpError> {
        let request = format!("resources/read {uri}");
        let params = ReadResourceRequestParams::new(uri);
        let answer = self
            .ask(&request, |link: Arc<Link>| {
                let params = params.clone();
                async move { link.peer().read_resource_once(params).await }
            })
            .await?;
        match answer {
            ReadResourceResponse::Complete(result) => Ok(content::of_resources(result.contents, &self.0.options)),
            _ => Err(self.asks(request)),
        }
    }

    /// The prompts of the server.
    pub async fn prompts(&self) -> Result<Vec<Prompt>, McpError> {
        let listed = self.pages("prompts/list", |link, params| async move {
            let page = link.peer().list_prompts(Some(params)).await?;
            Ok((page.prompts, page.next_cursor))
        });
        let found = listed.await?.into_iter().map(|prompt| Prompt {
            name: prompt.name,
            description: prompt.description.unwrap_or_default(),
            arguments: prompt
                .arguments
                .into_iter()
                .flatten()
                .map(|argument| PromptArgument {
                    name: argument.name,
                    description: argument.description.unwrap_or_default(),
                    required: argument.required == Some(true),
                })
                .collect(),
        });
        Ok(found.collect())
    }

    /// A prompt, filled in, as messages.
    pub async fn prompt(
        &self,
        name: &str,
        arguments: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Vec<Message>, McpError> {
        let request = format!("prompts/get {name}");
        let arguments: Map<String, Value> =
            arguments.into_iter().map(|(name, value)| (name, Value::from(value))).collect();
        let params = GetPromptRequestParams::new(name).with_arguments(arguments);
        let answer = self
            .ask(&request, |link: Arc<Link>| {
                let params = params.clone();
                async move { link.peer().get_prompt_once(params).await }
            })
            .await?;
        let GetPromptResponse::Complete(result) = answer else { return Err(self.asks(request)) };
        let messages = result.messages.into_iter().map(|message| {
            let content = content::of_block(message.content, &self.0.options);
            if message.role == Role::Assistant { Message::assistant(content) } else { Message::user(content) }
        });
        Ok(messages.collect())
    }

    fn asks(&self, request: String) -> McpError {
        let reason = "it asks something first, which only a tool may".to_owned();
        McpError::BadAnswer { server: self.0.name.clone(), request, reason }
    }

    /// All pages of a list, within one deadline.
    pub(super) async fn pages<T, F>(
        &self,
        request: &str,
        page: impl Fn(Arc<Link>, PaginatedRequestParams) -> F,
    ) -> Result<Vec<T>, McpError>
    where
        F: Future<Output = Result<(Vec<T>, Option<String>), rmcp::ServiceError>>,
    {
        let after = self.0.options.timeout;
        let late = |_| McpError::Timeout { server: self.0.name.clone(), request: request.to_owned(), after };
        timeout(after, self.all_pages(request, page)).await.map_err(late)?
    }

    async fn all_pages<T, F>(
        &self,
        request: &str,
        page: impl Fn(Arc<Link>, PaginatedRequestParams) -> F,
    ) -> Result<Vec<T>, McpError>
    where
        F: Future<Output = Result<(Vec<T>, Option<String>), rmcp::ServiceError>>,
    {
        let (mut found, mut cursor, mut seen) = (Vec::new(), None::<String>, BTreeSet::new());
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let (items, next) = self.ask(request, |link| page(link, params.clone())).await?;
            found.extend(items);
            let most = self.0.options.max_tools;
            let reason = match next {
                _ if found.len() > most => format!("it has more than {most} entries"),
                None => return Ok(found),
                Some(next) if !seen.insert(next.clone()) => {
                    "its pages have no end: one leads back to another".to_owned()
                }
                Some(_) if seen.len() == MOST_PAGES => format!("it has more than {MOST_PAGES} pages"),
                Some(next) => {
                    cursor = Some(next);
                    continue;
                }
            };
            let (server, request) = (self.0.name.clone(), request.to_owned());
            return Err(McpError::BadAnswer { server, request, reason });
        }
    }
}
