//! Conversations: messages, lists of them, and what a model answers.

mod chunk;
mod form;
mod index;
mod list;
mod trim;

use std::ops::{Add, AddAssign};

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use chunk::{ChatChunk, ChatResponse, FinishReason};
pub use list::Messages;

pub(crate) use index::Places;

/// One message of a conversation.
///
/// As JSON it has a `role` (`system`, `user`, `assistant`, `tool`, `remove`), the fields of that role, and an `id`.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// The id. A message without one gets a fresh UUID when it becomes part of [`Messages`]: when a node
    /// writes it, not when the write is applied, so that a write that is stored and applied again later has the same id.
    pub id: Option<String>,
    /// Who says what.
    pub body: Body,
}

/// Who says what.
#[derive(Clone, Debug, PartialEq)]
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
        content: Content,
        /// The tools that it calls.
        calls: Vec<ToolCall>,
        /// What it cost, where the provider says so.
        usage: Option<Usage>,
    },
    /// The result of a tool call.
    Tool {
        /// The result.
        content: Content,
        /// The id of the call.
        tool_call_id: String,
        /// The name of the tool.
        name: Option<String>,
        /// Whether the call succeeded.
        status: ToolStatus,
    },
    /// No message: merged into a conversation, it removes the message with its id; without an id, all messages.
    Remove,
}

/// What a message says: text, or parts of which some are images. As JSON it is a text, or a list of parts.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// Text and images, in order.
    ///
    /// ```
    /// # use hier_core::agent::{Content, Message, Part};
    /// let scan = Content::parts([Part::text("What does this receipt say?"), Part::image("https://example.org/1.png")]);
    /// let question = Message::user(scan);
    /// # assert_eq!(question.content().unwrap().text(), "What does this receipt say?");
    /// ```
    pub fn parts(parts: impl IntoIterator<Item = Part>) -> Self {
        Self::Parts(parts.into_iter().collect())
    }

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

impl Part {
    /// Text.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// An image, by its address: `https:` or `data:`.
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { url: url.into() }
    }

    /// An image by its bytes, which are in Base64, and their media type (`image/png`).
    pub fn image_data(media_type: &str, base64: &str) -> Self {
        Self::Image { url: format!("data:{media_type};base64,{base64}") }
    }
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

impl Usage {
    /// What an answer cost.
    pub fn new(input_tokens: u64, output_tokens: u64) -> Self {
        Self { input_tokens, output_tokens }
    }

    /// All tokens: prompt and answer.
    pub fn total(self) -> u64 {
        self.input_tokens.saturating_add(self.output_tokens)
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            input_tokens: self.input_tokens.saturating_add(other.input_tokens),
            output_tokens: self.output_tokens.saturating_add(other.output_tokens),
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
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

    /// The result of a tool call that failed: the content says why.
    pub fn tool_error(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self::new(Body::Tool {
            content: content.into(),
            tool_call_id: call.id.clone(),
            name: Some(call.name.clone()),
            status: ToolStatus::Error,
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

    /// The same message with what it cost. Only a message of the assistant has a cost; others stay as they are.
    #[must_use]
    pub fn with_usage(mut self, cost: Usage) -> Self {
        if let Body::Assistant { usage, .. } = &mut self.body {
            *usage = Some(cost);
        }
        self
    }

    /// What the message cost, where the provider said so.
    pub fn usage(&self) -> Option<Usage> {
        match self.body {
            Body::Assistant { usage, .. } => usage,
            _ => None,
        }
    }

    /// The id of the call that the message is the result of.
    pub fn tool_call_id(&self) -> Option<&str> {
        match &self.body {
            Body::Tool { tool_call_id, .. } => Some(tool_call_id),
            _ => None,
        }
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
