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

use super::connection::ServerConnection;
use super::content;
use super::mcp_client::McpClient;
use crate::error::McpError;

/// The maximum number of pages of a list.
const MOST_PAGES: usize = 100;

/// A resource that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpResource {
    /// The URI.
    pub uri: String,
    /// The name.
    pub name: String,
    /// The description. Empty if the server sends none.
    pub description: String,
    /// The media type. `None` if the server sends none.
    pub media_type: Option<String>,
}

/// A prompt that a server offers.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct McpPrompt {
    /// The name.
    pub name: String,
    /// The description. Empty if the server sends none.
    pub description: String,
    /// The arguments.
    pub arguments: Vec<PromptArgument>,
}

/// An argument of a prompt.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PromptArgument {
    /// The name.
    pub name: String,
    /// The description. Empty if the server sends none.
    pub description: String,
    /// True if the argument is mandatory.
    pub required: bool,
}

impl McpClient {
    /// Lists the resources of the server.
    pub async fn resources(&self) -> Result<Vec<McpResource>, McpError> {
        let listed = self.pages("resources/list", |connection, params| async move {
            let page = connection.peer().list_resources(Some(params)).await?;
            Ok((page.resources, page.next_cursor))
        });
        let found = listed.await?.into_iter().map(|resource| McpResource {
            uri: resource.uri.clone(),
            name: resource.name.clone(),
            description: resource.description.clone().unwrap_or_default(),
            media_type: resource.mime_type.clone(),
        });
        Ok(found.collect())
    }

    /// Reads a resource. The client cuts off text beyond [`max_text`](super::McpClientBuilder::max_text). A note
    /// replaces each image or file that exceeds [`max_media`](super::McpClientBuilder::max_media).
    ///
    /// # Errors
    ///
    /// Fails with [`McpError::BadAnswer`] if the server asks a question instead of sending the resource.
    pub async fn read(&self, uri: &str) -> Result<Content, McpError> {
        let request = format!("resources/read {uri}");
        let params = ReadResourceRequestParams::new(uri);
        let answer = self
            .request(&request, |connection: Arc<ServerConnection>| {
                let params = params.clone();
                async move { connection.peer().read_resource_once(params).await }
            })
            .await?;
        match answer {
            ReadResourceResponse::Complete(result) => Ok(content::of_resources(result.contents, &self.0.options)),
            _ => Err(self.input_refused(request)),
        }
    }

    /// Lists the prompts of the server.
    pub async fn prompts(&self) -> Result<Vec<McpPrompt>, McpError> {
        let listed = self.pages("prompts/list", |connection, params| async move {
            let page = connection.peer().list_prompts(Some(params)).await?;
            Ok((page.prompts, page.next_cursor))
        });
        let found = listed.await?.into_iter().map(|prompt| McpPrompt {
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

    /// Returns the messages that the server creates from the prompt `name` with these arguments. An argument is a pair
    /// of its name and its value.
    ///
    /// # Errors
    ///
    /// Fails with [`McpError::BadAnswer`] if the server asks a question instead of sending the messages.
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
            .request(&request, |connection: Arc<ServerConnection>| {
                let params = params.clone();
                async move { connection.peer().get_prompt_once(params).await }
            })
            .await?;
        let GetPromptResponse::Complete(result) = answer else { return Err(self.input_refused(request)) };
        let messages = result.messages.into_iter().map(|message| {
            let content = content::of_block(message.content, &self.0.options);
            if message.role == Role::Assistant { Message::assistant(content) } else { Message::user(content) }
        });
        Ok(messages.collect())
    }

    fn input_refused(&self, request: String) -> McpError {
        let reason = "the server asked for input, which only tools may do".to_owned();
        McpError::BadAnswer { server: self.0.name.clone(), request, reason }
    }

    /// Fetches all pages of a list, within one time limit.
    pub(super) async fn pages<T, F>(
        &self,
        request: &str,
        page: impl Fn(Arc<ServerConnection>, PaginatedRequestParams) -> F,
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
        page: impl Fn(Arc<ServerConnection>, PaginatedRequestParams) -> F,
    ) -> Result<Vec<T>, McpError>
    where
        F: Future<Output = Result<(Vec<T>, Option<String>), rmcp::ServiceError>>,
    {
        let (mut found, mut cursor, mut seen) = (Vec::new(), None::<String>, BTreeSet::new());
        loop {
            let params = PaginatedRequestParams::default().with_cursor(cursor.clone());
            let (items, next) = self.request(request, |connection| page(connection, params.clone())).await?;
            found.extend(items);
            let most = self.0.options.max_tools;
            let reason = match next {
                _ if found.len() > most => format!("it has more than {most} entries, the limit of `max_tools`"),
                None => return Ok(found),
                Some(next) if !seen.insert(next.clone()) => "its pages form a cycle".to_owned(),
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
