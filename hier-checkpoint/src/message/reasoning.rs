//! Reasoning of a model, and the data that its provider needs back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Reasoning of a model before it answered or called a tool: readable text, and data that its provider needs back with
/// the next request (a signature, the encrypted reasoning).
///
/// The message that it led to has it ([`Message::reasoning`](super::Message::reasoning)). It is sent back only to its
/// [maker](Self::maker). Other providers reject it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoning {
    /// The provider that made it, by the dialect of its API.
    pub maker: String,
    /// The id of the call that it belongs to. None if it belongs to the whole message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The offset in the message's text at which it occurred, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: usize,
    /// The readable text. May be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// The data that the provider needs back, unchanged. Null without such data.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(offset: &usize) -> bool {
    *offset == 0
}

impl Reasoning {
    /// Creates readable reasoning of this provider.
    pub fn new(maker: impl Into<String>, text: impl Into<String>) -> Self {
        Self { maker: maker.into(), call: None, offset: 0, text: text.into(), data: Value::Null }
    }

    /// Sets the data that the provider needs back.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    /// Sets the offset in the message's text, in bytes.
    #[must_use]
    pub fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// Sets the call that the reasoning led to.
    #[must_use]
    pub fn of_call(self, id: impl Into<String>) -> Self {
        Self { call: Some(id.into()), ..self }
    }
}
