//! One message of a conversation.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One message of a conversation.
///
/// As JSON it has a `role` (`system`, `user`, `assistant`, `tool`, `remove`), the fields of that role, and an `id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The id. A message without one gets a fresh UUID when it is merged into a [`Messages`](super::Messages) channel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Who says what.
    #[serde(flatten)]
    pub body: Body,
}

/// Who says what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum Body {
    /// What the model is told to be.
    System {
        /// What is said.
        content: Content,
    },
    /// What the user, a supervisor or the program says.
    User {
        /// What is said.
        content: Content,
    },
    /// What the model says.
    Assistant {
        /// What is said.
        #[serde(default)]
        content: Content,
        /// The tools that it calls.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        calls: Vec<ToolCall>,
        /// What it cost, where the provider says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        usage: Option<Usage>,
    },
    /// The result of a tool call.
    Tool {
        /// The result.
        content: Content,
        /// The id of the call.
        tool_call_id: String,
        /// The name of the tool.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        name: Option<String>,
        /// Whether the call succeeded.
        #[serde(default)]
        status: ToolStatus,
    },
    /// No message: merged into a conversation, it removes the message with its id; without an id, all messages.
    Remove,
}

/// What a message says: text, or parts of which some are images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Text.
    Text(String),
    /// Text and images.
    Parts(Vec<Part>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl Content {
    /// The text of it; that of its parts one after the other, without images.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Parts(parts) => {
                let texts = parts.iter().filter_map(|part| match part {
                    Part::Text { text } => Some(text.as_str()),
                    Part::Image { .. } => None,
                });
                texts.collect()
            }
        }
    }
}

impl<T: Into<String>> From<T> for Content {
    fn from(text: T) -> Self {
        Self::Text(text.into())
    }
}

/// A part of what a message says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Part {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image, by its address: `https:` or `data:`.
    Image {
        /// The address.
        url: String,
    },
}

/// A tool that the model calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The name of the tool.
    pub name: String,
    /// The arguments: a JSON object.
    pub args: Value,
    /// The id of the call, which the result repeats.
    pub id: String,
}

/// Whether a tool call succeeded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did.
    #[default]
    Success,
    /// It did not; the content says why.
    Error,
}

/// What an answer of a model cost, in tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt.
    pub input_tokens: u64,
    /// Tokens of the answer.
    pub output_tokens: u64,
}

impl Message {
    fn new(body: Body) -> Self {
        Self { id: None, body }
    }

    /// A message of the system.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(Body::System { content: content.into() })
    }

    /// A message of the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Body::User { content: content.into() })
    }

    /// A message of the model that calls no tools.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Body::Assistant { content: content.into(), calls: Vec::new(), usage: None })
    }

    /// A message of the model that calls tools.
    pub fn calls(content: impl Into<Content>, calls: impl IntoIterator<Item = ToolCall>) -> Self {
        Self::new(Body::Assistant { content: content.into(), calls: calls.into_iter().collect(), usage: None })
    }

    /// The result of a tool call.
    pub fn tool(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self::new(Body::Tool {
            content: content.into(),
            tool_call_id: call.id.clone(),
            name: Some(call.name.clone()),
            status: ToolStatus::Success,
        })
    }

    /// Removes the message with this id.
    pub fn remove(id: impl Into<String>) -> Self {
        Self { id: Some(id.into()), body: Body::Remove }
    }

    /// Removes all messages before it, and merges nothing: what follows in the same write is all that is left.
    pub fn remove_all() -> Self {
        Self::new(Body::Remove)
    }

    /// The same message with this id.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// What the message says, if it says something.
    pub fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::System { content }
            | Body::User { content }
            | Body::Assistant { content, .. }
            | Body::Tool { content, .. } => Some(content),
            Body::Remove => None,
        }
    }

    /// The tools that the message calls.
    pub fn tool_calls(&self) -> &[ToolCall] {
        match &self.body {
            Body::Assistant { calls, .. } => calls,
            _ => &[],
        }
    }
}
