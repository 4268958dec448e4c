//! What a model answers, whole or piece by piece.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Content, Message};

/// Why an answer of a model ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model had nothing more to say.
    Stop,
    /// The answer reached its limit of tokens: what it says is cut off, and what it calls cannot be made.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The provider, or the model itself, withheld the answer.
    ContentFilter,
    /// Another reason, as the provider names it.
    Other(String),
}

impl fmt::Display for FinishReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::ToolCalls => "tool_calls",
            Self::ContentFilter => "content_filter",
            Self::Other(reason) => reason,
        })
    }
}

/// What a model answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChatResponse {
    /// The answer: a message of the assistant, with its usage where the provider tells it.
    pub message: Message,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// Why the answer ended, where the provider tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishReason>,
}

impl ChatResponse {
    /// An answer of which nothing else is known.
    pub fn new(message: Message) -> Self {
        Self { message, model: None, finish: None }
    }

    /// The same answer, given by this model.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// The same answer, which ended for this reason.
    #[must_use]
    pub fn with_finish(mut self, finish: FinishReason) -> Self {
        self.finish = Some(finish);
        self
    }

    /// The text of the answer.
    pub fn text(&self) -> String {
        self.message.content().map(Content::text).unwrap_or_default()
    }
}

/// A piece of an answer that is still being made.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ChatChunk {
    /// The next piece of its text.
    Text(String),
    /// The whole answer: the last piece.
    Done(ChatResponse),
}
