//! Replies of models, as a whole or in parts.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::Message;

/// The reason why a model ended its reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FinishReason {
    /// The reply is complete.
    Stop,
    /// The reply reached a limit of tokens. Its text is cut off. Agents do not make its tool calls, because they may be
    /// incomplete.
    Length,
    /// The model calls tools.
    ToolCalls,
    /// The provider or the model refused to give a reply.
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

/// The reply of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ChatResponse {
    /// The reply as an assistant message. It contains the token usage if the provider reports it.
    pub message: Message,
    /// The name of the model that made the reply, if the provider reports it.
    pub model: Option<String>,
    /// The reason why the reply ended, if the provider reports it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish: Option<FinishReason>,
}

impl ChatResponse {
    /// Creates a reply without the name of the model and without a finish reason.
    pub fn new(message: Message) -> Self {
        Self { message, model: None, finish: None }
    }

    /// Sets the name of the model that made the reply.
    #[must_use]
    pub fn with_model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Sets the reason why the reply ended.
    #[must_use]
    pub fn with_finish(mut self, finish: FinishReason) -> Self {
        self.finish = Some(finish);
        self
    }

    /// Returns the text of the reply.
    pub fn text(&self) -> String {
        self.message.text()
    }
}

/// A part of a streamed reply. A program that needs only the complete reply can ignore all parts except
/// [`Done`](Self::Done).
///
/// The parts of a stream add up to the text and the reasoning of the complete reply, and to the arguments of each tool
/// call as JSON. There are two exceptions:
///
/// * If a call was cut off or its arguments are invalid JSON, its arguments in the complete reply are a string.
/// * If a request fails after a part of the reasoning, the client of the model may send the request again. The stream
///   then contains the reasoning of both attempts. The complete reply contains only the reasoning of the last attempt.
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
        /// The id of the call. The call has the same id in the complete reply.
        id: String,
        /// The name of the tool.
        name: String,
    },
    /// The next piece of a tool call's arguments.
    #[non_exhaustive]
    CallArguments {
        /// The id of the call.
        id: String,
        /// A piece of the arguments' JSON.
        text: String,
    },
    /// The complete reply. It is always the last part of the stream.
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

    /// Returns the field that represents the chunk in the JSON of an event: the name of the field, and its value.
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

    /// Returns the total size of the chunk's texts, ids and names in bytes. Returns 0 for the complete reply.
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
    /// Splits the reply into chunks: its reasoning, its text, its calls, and then the complete reply.
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
