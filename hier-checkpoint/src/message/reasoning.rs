//! Reasoning of a model, and the data that its provider needs back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A model's reasoning before a reply or a tool call. It consists of readable text, and of data that the provider needs
/// back in the next request, such as a signature or encrypted reasoning.
/// [`Message::reasoning`](super::Message::reasoning) returns the reasoning of a message.
///
/// Later requests to the same provider contain the reasoning. Requests to other providers do not contain it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoning {
    /// The name of the API that made the reasoning, such as `anthropic`. For some APIs, the host follows, as in
    /// `openai@api.deepseek.com`.
    pub maker: String,
    /// The id of the tool call to which the reasoning led. `None` if the reasoning belongs to the whole message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The byte offset in the text of the message at which the model sent the reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: usize,
    /// The readable text. It is empty if the provider does not show the reasoning.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The data that the provider needs back unchanged. Null if the provider needs no data.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(offset: &usize) -> bool {
    *offset == 0
}

impl Reasoning {
    /// Creates reasoning with the maker and the readable text, and without data.
    pub fn new(maker: impl Into<String>, text: impl Into<String>) -> Self {
        Self { maker: maker.into(), call: None, offset: 0, text: text.into(), data: Value::Null }
    }

    /// Sets the data that the provider needs back.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    /// Sets the byte offset in the text of the message at which the model sent the reasoning.
    #[must_use]
    pub fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Sets the id of the tool call to which the reasoning led.
    #[must_use]
    pub fn of_call(self, id: impl Into<String>) -> Self {
        Self { call: Some(id.into()), ..self }
    }
}
