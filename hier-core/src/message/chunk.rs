//! What a model answers, whole or piece by piece.

use serde::{Deserialize, Serialize};

use super::{Content, Message};

/// What a model answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChatResponse {
    /// The answer: a message of the assistant, with its usage where the provider tells it.
    pub message: Message,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
}

impl ChatResponse {
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
