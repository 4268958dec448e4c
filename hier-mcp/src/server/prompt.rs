//! Prompts that a server offers in addition to its graphs.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use hier_agents::{Body, Content, Message};
use hier_core::NodeError;
use rmcp::model::{GetPromptResult, JsonObject, Prompt, PromptArgument, PromptMessage, Role};
use serde_json::Value;

use super::graph_tool::blocks;

/// The arguments of a prompt, by their names. Omitted optional arguments are missing.
type PromptArguments = BTreeMap<String, String>;

type MakeMessages = Arc<dyn Fn(PromptArguments) -> BoxFuture<'static, Result<Vec<Message>, NodeError>> + Send + Sync>;

/// A prompt that a server offers: messages with which a person starts or continues a conversation.
///
/// ```
/// use hier_core::message::Message;
/// use hier_mcp::{McpServer, ServedPrompt};
///
/// let review = ServedPrompt::new("review", |arguments| async move {
///     Ok(vec![Message::user(format!("Review the order {}.", arguments["order"]))])
/// });
/// let server = McpServer::new().prompt(review.description("Reviews an order.").required("order", "Its number."));
/// # let _ = server;
/// ```
#[derive(Clone)]
#[must_use = "a prompt does nothing until a server has it"]
pub struct ServedPrompt {
    name: String,
    description: Option<String>,
    arguments: Vec<PromptArgument>,
    make: MakeMessages,
}

impl fmt::Debug for ServedPrompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServedPrompt").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ServedPrompt {
    /// Creates a prompt. The function `make` receives the arguments by name, and returns user and assistant messages.
    /// If it returns an error, the client receives the error. Declare the arguments with [`required`](Self::required)
    /// and [`optional`](Self::optional).
    ///
    /// Cancel safety: the server drops the future if the client cancels its request.
    pub fn new<F, R>(name: impl Into<String>, make: F) -> Self
    where
        F: Fn(BTreeMap<String, String>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Vec<Message>, NodeError>> + Send + 'static,
    {
        let make: MakeMessages = Arc::new(move |arguments| Box::pin(make(arguments)));
        Self { name: name.into(), description: None, arguments: Vec::new(), make }
    }

    /// Sets the description of the prompt. Clients show the description to people.
    pub fn description(mut self, text: impl Into<String>) -> Self {
        self.description = Some(text.into());
        self
    }

    /// Adds a required argument. The server rejects a request without this argument.
    pub fn required(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.argument(name, description, true)
    }

    /// Adds an optional argument.
    pub fn optional(self, name: impl Into<String>, description: impl Into<String>) -> Self {
        self.argument(name, description, false)
    }

    fn argument(mut self, name: impl Into<String>, description: impl Into<String>, is_required: bool) -> Self {
        let argument = PromptArgument::new(name).with_description(description).with_required(is_required);
        self.arguments.push(argument);
        self
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn listed(&self) -> Prompt {
        let arguments = (!self.arguments.is_empty()).then(|| self.arguments.clone());
        Prompt::new(self.name.clone(), self.description.clone(), arguments)
    }

    /// Returns the mistake in the names, if there is one.
    pub(crate) fn mistake(&self) -> Option<String> {
        if self.name.is_empty() {
            return Some("a prompt needs a name".to_owned());
        }
        let names: Vec<&str> = self.arguments.iter().map(|argument| &*argument.name).collect();
        let doubled = names.iter().enumerate().find(|(place, name)| names[..*place].contains(name));
        doubled.map(|(_, name)| format!("the prompt `{}` has two arguments `{name}`: rename one", self.name))
    }

    /// Checks the arguments of a request. The error describes what is wrong.
    pub(crate) fn arguments(&self, given: Option<JsonObject>) -> Result<PromptArguments, String> {
        let given = given.unwrap_or_default();
        let known = || self.arguments.iter().map(|argument| &*argument.name);
        let mut arguments = PromptArguments::new();
        for (name, value) in given {
            if !known().any(|known| known == name) {
                let meant = hier_core::spec::did_you_mean(&name, known().collect::<Vec<_>>());
                return Err(format!("the prompt `{}` has no argument `{name}`{meant}", self.name));
            }
            match value {
                Value::String(text) => _ = arguments.insert(name, text),
                Value::Null => {}
                _ => return Err(format!("the argument `{name}` must be a string")),
            }
        }
        let is_missing =
            |argument: &&PromptArgument| argument.required == Some(true) && !arguments.contains_key(&argument.name);
        let missing: Vec<&str> = self.arguments.iter().filter(is_missing).map(|argument| &*argument.name).collect();
        if missing.is_empty() { Ok(arguments) } else { Err(format!("`{}` is missing", missing.join("`, `"))) }
    }

    pub(crate) async fn messages(&self, arguments: PromptArguments) -> Result<GetPromptResult, NodeError> {
        let mut messages = Vec::new();
        for message in (self.make)(arguments).await? {
            let (role, content) = self.role_and_content(message)?;
            messages.extend(blocks(content).into_iter().map(|block| PromptMessage::new(role.clone(), block)));
        }
        let result = GetPromptResult::new(messages);
        Ok(match &self.description {
            Some(text) => result.with_description(text.clone()),
            None => result,
        })
    }

    fn role_and_content(&self, message: Message) -> Result<(Role, Content), NodeError> {
        match message.body {
            Body::User { content, .. } => Ok((Role::User, content)),
            Body::Assistant { content, .. } => Ok((Role::Assistant, content)),
            _ => Err(NodeError::permanent(format!(
                "the prompt `{}` may only have user and assistant messages",
                self.name
            ))),
        }
    }
}
