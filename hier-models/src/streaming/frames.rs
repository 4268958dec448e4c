//! Streams of binary frames (`application/vnd.amazon.eventstream`): headers, a JSON payload and checksums.

use std::pin::Pin;

use aws_smithy_eventstream::frame::read_message_from;
use bytes::{Buf, Bytes, BytesMut};
use futures_util::{Stream, StreamExt, stream};
use serde_json::{Value, json};

use super::{ValueStream, invalid_json};
use crate::error::ModelFailure;

/// The size of a frame without its headers and its payload, in bytes.
const SMALLEST: usize = 16;
/// The largest frame of the format, in bytes.
const LARGEST: usize = 24 << 20;

/// Returns the events of frames, each as an object with the event's name as its only field. Exceptions become the field
/// `error`.
pub(super) fn frame_values(bytes: impl Stream<Item = Result<Bytes, ModelFailure>> + Send + 'static) -> ValueStream {
    let reader = FrameReader { bytes: Box::pin(bytes), buffer: BytesMut::new() };
    Box::pin(stream::try_unfold(reader, |mut reader| async move {
        let value = reader.next().await?;
        Ok(value.map(|value| (value, reader)))
    }))
}

struct FrameReader {
    bytes: Pin<Box<dyn Stream<Item = Result<Bytes, ModelFailure>> + Send>>,
    /// Bytes that have arrived and are not read yet.
    buffer: BytesMut,
}

impl FrameReader {
    /// Returns the next event. Returns `None` at the end of the stream, even within a frame, because the reader of the
    /// answer notices a missing event.
    async fn next(&mut self) -> Result<Option<Value>, ModelFailure> {
        loop {
            while let Some(frame) = self.split_frame()? {
                if let Some(value) = read_frame(frame)? {
                    return Ok(Some(value));
                }
            }
            match self.bytes.next().await {
                Some(chunk) => self.buffer.extend_from_slice(&chunk?),
                None => return Ok(None),
            }
        }
    }

    /// Removes a whole frame from the buffer, if one has arrived. A frame begins with its length.
    fn split_frame(&mut self) -> Result<Option<Bytes>, ModelFailure> {
        if self.buffer.len() < SMALLEST {
            return Ok(None);
        }
        let length = usize::try_from((&self.buffer[..]).get_u32()).unwrap_or(usize::MAX);
        if !(SMALLEST..=LARGEST).contains(&length) {
            return Err(damaged(&format!("a frame of {length} bytes")));
        }
        Ok((self.buffer.len() >= length).then(|| self.buffer.split_to(length).freeze()))
    }
}

/// Returns a temporary failure, because the frames of another attempt may arrive undamaged.
fn damaged(reason: &str) -> ModelFailure {
    ModelFailure::unavailable(format!("the event stream is damaged: {reason}"))
}

/// Returns the event of a frame, or `None` if the frame contains no event.
fn read_frame(frame: Bytes) -> Result<Option<Value>, ModelFailure> {
    let message = read_message_from(frame).map_err(|error| damaged(&error.to_string()))?;
    let header = |name: &str| {
        let found = message.headers().iter().find(|header| header.name().as_str() == name)?;
        found.value().as_string().ok().map(|value| value.as_str().to_owned())
    };
    let payload = message.payload();
    match header(":message-type").as_deref() {
        Some("event") => {
            let Some(name) = header(":event-type") else { return Ok(None) };
            let event: Value = serde_json::from_slice(payload).map_err(invalid_json)?;
            Ok(Some(json!({ name: event })))
        }
        Some("exception") => {
            let text = || json!({ "message": String::from_utf8_lossy(payload) });
            let mut error = serde_json::from_slice(payload).ok().filter(Value::is_object).unwrap_or_else(text);
            error["type"] = header(":exception-type").into();
            Ok(Some(json!({ "error": error })))
        }
        Some("error") => {
            let (code, text) = (header(":error-code"), header(":error-message"));
            Ok(Some(json!({ "error": { "type": code, "message": text.or_else(|| code.clone()) } })))
        }
        _ => Ok(None),
    }
}
