//! The messages that workers send to Restate.
//!
//! If a message exceeds the limit of the Restate server, Restate repeats the invocation forever. Each message is
//! therefore checked before it is sent. [`Message`] is the only type of messages without a fixed size. [`check`]
//! compares a size with the limit.

use std::convert::Infallible;
use std::marker::PhantomData;

use bytes::Bytes;
use hier_core::checkpoint::{CodecError, codec};
use restate_sdk::errors::TerminalError;
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::RunFailure;
use crate::wire::{Expire, Wake};

/// Returns an error if a payload exceeds the limit. `what` names the payload.
pub(crate) fn check(what: &str, length: usize, limit: usize) -> Result<(), RunFailure> {
    if length <= limit {
        return Ok(());
    }
    Err(RunFailure::new(
        "PayloadTooLarge",
        format!(
            "{what} has {length} bytes, and a payload may have at most {limit}: keep large values in a store or a bucket and their \
             keys in the state, or raise `max_payload` of the clients and the workers and the server's `message-size-limit`"
        ),
    ))
}

/// An encoded message, whose size was checked. It has the encoding of checkpoints.
pub(crate) struct Message<T> {
    bytes: Bytes,
    content: PhantomData<fn() -> T>,
}

impl<T: Serialize> Message<T> {
    /// Encodes a message. Fails if it exceeds the limit. `what` names the message in the error.
    pub(crate) fn encode(what: &str, content: &T, limit: usize) -> Result<Self, RunFailure> {
        let bytes = codec::encode_record(content)
            .map_err(|error| RunFailure::new("RunError", format!("cannot encode {what}: {error}")))?;
        check(what, bytes.len(), limit)?;
        Ok(Self::from(Bytes::from(bytes)))
    }

    /// Encodes a message that is small, or that repeats a checked message with other numbers.
    pub(crate) fn unchecked(content: &T) -> Self {
        // Only values that are nested too deeply have no encoding.
        Self::from(codec::encode_record(content).map(Bytes::from).unwrap_or_default())
    }
}

impl<T: Serialize> Message<Result<T, RunFailure>> {
    /// Encodes an answer. If it exceeds the limit, the answer is this failure.
    pub(crate) fn answer(what: &str, answer: &Result<T, RunFailure>, limit: usize) -> Self {
        Self::encode(what, answer, limit).unwrap_or_else(|failure| Self::unchecked(&Err(failure)))
    }
}

impl<T: DeserializeOwned> Message<T> {
    pub(crate) fn read(&self) -> Result<T, TerminalError> {
        codec::decode(&self.bytes).map_err(|error| TerminalError::new(format!("cannot read a message: {error}")))
    }
}

impl<T> From<Bytes> for Message<T> {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, content: PhantomData }
    }
}

impl<T> restate_sdk::serde::Serialize for Message<T> {
    type Error = Infallible;

    fn serialize(&self) -> Result<Bytes, Infallible> {
        Ok(self.bytes.clone())
    }
}

impl<T> restate_sdk::serde::Deserialize for Message<T> {
    type Error = Infallible;

    fn deserialize(bytes: &mut Bytes) -> Result<Self, Infallible> {
        Ok(Self::from(bytes.split_off(0)))
    }
}

/// A received payload, or a small payload to send. It has the encoding of checkpoints.
#[derive(Clone, Debug)]
pub(crate) struct Packed<T>(pub(crate) T);

/// A type whose values have an encoding of a small, fixed size.
pub(crate) trait FixedSize {}

impl FixedSize for () {}
impl FixedSize for bool {}
impl FixedSize for Uuid {}
impl FixedSize for Option<Uuid> {}
impl FixedSize for Wake {}
impl FixedSize for Expire {}

impl<T: Serialize + FixedSize> restate_sdk::serde::Serialize for Packed<T> {
    type Error = CodecError;

    fn serialize(&self) -> Result<Bytes, CodecError> {
        codec::encode_record(&self.0).map(Bytes::from)
    }
}

impl<T: DeserializeOwned> restate_sdk::serde::Deserialize for Packed<T> {
    type Error = CodecError;

    fn deserialize(bytes: &mut Bytes) -> Result<Self, CodecError> {
        codec::decode(bytes).map(Self)
    }
}
