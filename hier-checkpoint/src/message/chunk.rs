//! Answers of models, whole or piece by piece.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Message;

/// The reason why an answer of a model ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The model had nothing more to say.
    Stop,
    /// The answer reached its limit of tokens. Its text is cut off, and its calls cannot be made.
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

/// The answer of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChatResponse {
    /// The answer: a message of the assistant, with its usage if the provider reports it.
    pub message: Message,
    /// The model that answered, as the provider names it.
    pub model: Option<String>,
    /// The reason why the answer ended, if the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishReason>,
}

impl ChatResponse {
    /// Creates an answer without the name of its model and without a finish reason.
    pub fn new(message: Message) -> Self {
        Self { message, model: None, finish: None }
    }

    /// Sets the model that gave the answer.
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

/// A part of a streamed answer.
///
/// The parts of a stream add up to its answer: the texts to its text, the reasoning to its thoughts, and the arguments of
/// each call to the JSON of the call. Calls that were cut off, or whose arguments are not JSON, are exceptions: see the
/// answer. To get only the answer, wait for [`Done`](Self::Done).
///
/// A model may abandon an attempt that has sent only reasoning. The reasoning of the next attempt follows, and only that
/// is part of the answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ChatChunk {
    /// The next piece of its text.
    Text(String),
    /// The next piece of what the model thinks before it answers.
    Reasoning(String),
    /// The model begins to call a tool.
    #[non_exhaustive]
    CallStarted {
        /// The id of the call: that of the whole answer, too.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// The next piece of the arguments of a call that has begun.
    #[non_exhaustive]
    CallArguments {
        /// The id of the call.
        id: String,
        /// A piece of JSON text.
        text: String,
    },
    /// The whole answer: the last piece.
    Done(ChatResponse),
}

impl ChatChunk {
    /// Creates the chunk that begins a call.
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
    /// Splits the answer into pieces: its reasoning, its text, its calls, then the whole answer.
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
