//! Answers of models, whole or piece by piece.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Message;

/// The reason why a model ended its answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The answer is complete.
    Stop,
    /// The answer reached a token limit. Its text is cut off, and its tool calls cannot be made.
    Length,
    /// The model called tools.
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

/// The answer of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChatResponse {
    /// The answer, as an assistant message. It has its usage if the provider reports it.
    pub message: Message,
    /// The provider's name for the model that answered.
    pub model: Option<String>,
    /// The reason why the answer ended, if the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishReason>,
}

impl ChatResponse {
    /// Creates an answer without a model name and a finish reason.
    pub fn new(message: Message) -> Self {
        Self { message, model: None, finish: None }
    }

    /// Sets the name of the model that answered.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the reason why the answer ended.
    #[must_use]
    pub fn with_finish(mut self, finish: FinishReason) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Returns the text of the answer.
    pub fn text(&self) -> String {
        self.message.text()
    }
}

/// A part of a streamed answer. If only the complete answer matters, wait for [`Done`](Self::Done).
///
/// Together, the parts form the answer: its text, its reasoning, and the arguments of each tool call as JSON. Calls
/// that were cut off or whose arguments are not valid JSON are exceptions. A model can also abandon an attempt after
/// sending only reasoning. The reasoning of the next attempt follows, and only that is part of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChatChunk {
    /// The next piece of the text.
    Text(String),
    /// The next piece of the reasoning.
    Reasoning(String),
    /// The start of a tool call.
    #[non_exhaustive]
    CallStarted {
        /// The id of the call, which it also has in the complete answer.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// The next piece of a tool call's arguments.
    #[non_exhaustive]
    CallArguments {
        /// The id of the call.
        id: String,
        /// A piece of JSON.
        text: String,
    },
    /// The complete answer. Always the last chunk.
    Done(ChatResponse),
}

impl ChatChunk {
    /// Creates a chunk that starts a tool call.
    pub fn call_started(id: impl Into<String>, name: impl Into<String>) -> Self {
        Self::CallStarted { id: id.into(), name: name.into() }
    }

    /// Creates a chunk with a piece of a call's arguments.
    pub fn call_arguments(id: impl Into<String>, text: impl Into<String>) -> Self {
        Self::CallArguments { id: id.into(), text: text.into() }
    }

    /// The chunk as a field of an event's JSON: its name and value.
    #[doc(hidden)]
    pub fn field(&self) -> (&'static str, Value) {
        match self {
            Self::Text(text) => ("text", Value::from(text.as_str())),
            Self::Reasoning(text) => ("reasoning", Value::from(text.as_str())),
            Self::CallStarted { id, name } => ("call", json!({ "id": id, "name": name })),
            Self::CallArguments { id, text } => ("arguments", json!({ "id": id, "text": text })),
            Self::Done(response) => ("message", json!(response.message)),
        }
    }

    /// Returns the size of the texts of a part, in bytes. Returns 0 for the whole answer.
    #[doc(hidden)]
    pub fn text_bytes(&self) -> usize {
        match self {
            Self::Text(text) | Self::Reasoning(text) => text.len(),
            Self::CallStarted { id, name: text } | Self::CallArguments { id, text } => id.len() + text.len(),
            Self::Done(_) => 0,
        }
    }
}

impl ChatResponse {
    /// Splits the answer into chunks: its reasoning, its text, its calls, and then the complete answer.
    pub fn into_chunks(self) -> impl Iterator<Item = ChatChunk> {
        let message = &self.message;
        let thoughts = message.reasoning().iter().map(|thought| thought.text.clone());
        let thoughts = thoughts.filter(|text| !text.is_empty()).map(ChatChunk::Reasoning);
        let text = Some(message.text()).filter(|text| !text.is_empty()).map(ChatChunk::Text);
        let calls = message.tool_calls().iter().flat_map(|call| {
            let arguments = ChatChunk::call_arguments(&call.id, call.args.to_string());
            [ChatChunk::call_started(&call.id, &call.name), arguments]
        });
        let chunks: Vec<_> = thoughts.chain(text).chain(calls).collect();
        chunks.into_iter().chain([ChatChunk::Done(self)])
    }
}
