//! What a model thought before it answered, and what its provider needs to get back.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a model thought before it answered or called a tool: text for people, and what its provider needs to get back with
/// the next request (a signature, the encrypted reasoning), which nobody else can read.
///
/// It is kept in the message that it led to ([`Message::reasoning`](super::Message::reasoning)) and sent back only to its
/// [maker](Self::maker): to others it means nothing, and they refuse it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Reasoning {
    /// Who made it, and can read it: the provider, in the dialect in which it is spoken to.
    pub maker: String,
    /// The id of the call that it belongs to; none if it belongs to the message as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// How much of the message's text was said before it, in bytes.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub offset: usize,
    /// What can be read of it; empty if nothing can.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// What the provider needs to get back, as it came; null if that is nothing.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub data: Value,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde calls it
fn is_zero(offset: &usize) -> bool {
    *offset == 0
}

impl Reasoning {
    /// Reasoning that can be read, of this maker.
    pub fn new(maker: impl Into<String>, text: impl Into<String>) -> Self {
        Self { maker: maker.into(), call: None, offset: 0, text: text.into(), data: Value::Null }
    }

    /// The same reasoning, with what the provider needs to get back.
    #[must_use]
    pub fn with_data(self, data: Value) -> Self {
        Self { data, ..self }
    }

    /// The same reasoning, before which this much of the message's text was said, in bytes.
    #[must_use]
    pub fn at(self, offset: usize) -> Self {
        Self { offset, ..self }
    }

    /// The same reasoning, which led to the call with this id.
    #[must_use]
    pub fn of_call(self, id: impl Into<String>) -> Self {
        Self { call: Some(id.into()), ..self }
    }
}
