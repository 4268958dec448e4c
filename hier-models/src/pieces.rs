//! An answer piece by piece.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use hier_core::agent::{ChatChunk, ChatRequest, ChatStream};
use reqwest::Response;
use serde_json::Value;
use sse_stream::SseByteStream;
use tokio::time::Instant;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};
use tokio_util::io::StreamReader;

use crate::draft::Draft;
use crate::endpoint::Endpoint;
use crate::error::{Failure, chain};
use crate::transport;
use crate::wire::{Framing, Wire};

type Values = Pin<Box<dyn Stream<Item = Result<Value, Failure>> + Send>>;

/// The longest line, in bytes.
const LONGEST_LINE: usize = 16 << 20;
/// How long a server may take to end a stream of which it has said why it ends: what it cost may still come.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Waits for the first piece, up to which a failed attempt can be made again, and hands over the stream from there on.
pub(crate) async fn open(inner: Arc<Endpoint>, request: ChatRequest) -> Result<ChatStream, Failure> {
    let answer = inner.send(&request, true).await?;
    let media_type = transport::media_type(&answer);
    let wire = inner.wire;
    let values = match wire.framing() {
        // A server that does not stream gives the answer as a whole.
        Framing::Events if media_type.ends_with("json") || media_type == "text/html" => {
            return whole(&inner, request, answer).await;
        }
        framing => cut(framing, transport::pieces(answer, inner.server.timeout)),
    };
    let draft = Draft::new(&request, inner.maker(), true);
    let mut pieces = Pieces { wire, request, values, draft, ended: false, last: None };
    let first = pieces.next().await.unwrap_or_else(|| Err(Failure::cut_off()))?;
    let rest = stream::unfold((pieces, inner), |(mut pieces, inner)| async move {
        let piece = pieces.next().await?;
        Some((piece.map_err(|failure| inner.server.told(failure)), (pieces, inner)))
    });
    Ok(Box::pin(stream::iter([Ok(first)]).chain(rest)))
}

/// A whole answer as a stream.
async fn whole(inner: &Endpoint, request: ChatRequest, answer: Response) -> Result<ChatStream, Failure> {
    let response = inner.read(&request, answer).await?;
    Ok(Box::pin(stream::iter(response.into_chunks().map(Ok))))
}

struct Pieces {
    wire: &'static dyn Wire,
    request: ChatRequest,
    values: Values,
    draft: Draft,
    /// The last piece or an error was handed over.
    ended: bool,
    /// Until when the stream may go on, once the server has said why the answer ends.
    last: Option<Instant>,
}

impl Pieces {
    async fn next(&mut self) -> Option<Result<ChatChunk, Failure>> {
        while !self.ended {
            if let Some(piece) = self.draft.fresh() {
                return Some(Ok(piece));
            }
            if self.draft.ended {
                self.ended = true;
                let answer = std::mem::take(&mut self.draft).answer(&self.request);
                return Some(answer.map(ChatChunk::Done));
            }
            let read = match self.value().await {
                Some(Ok(value)) => self.wire.piece(&mut self.draft, &value),
                // Why the answer ends is known: all of it is there.
                Some(Err(_)) | None if self.draft.is_finished() => {
                    self.draft.ended = true;
                    Ok(())
                }
                Some(Err(failure)) => Err(failure),
                None => Err(Failure::cut_off()),
            };
            if let Err(failure) = read {
                self.ended = true;
                return Some(Err(failure));
            }
        }
        None
    }

    /// The next value. None if the stream has ended, or does not end though there is nothing left to say.
    async fn value(&mut self) -> Option<Result<Value, Failure>> {
        if self.draft.ended {
            return None;
        }
        if !self.draft.is_finished() {
            return self.values.next().await;
        }
        let last = *self.last.get_or_insert_with(|| Instant::now() + LAST_WORDS);
        tokio::time::timeout_at(last, self.values.next()).await.ok().flatten()
    }
}

/// The values that the bytes of a body are.
fn cut(framing: Framing, bytes: impl Stream<Item = Result<Bytes, Failure>> + Send + 'static) -> Values {
    match framing {
        Framing::Events => events(bytes),
        Framing::Lines => lines(bytes),
    }
}

/// The values of server-sent events. OpenAI's mark of the end is null.
fn events(bytes: impl Stream<Item = Result<Bytes, Failure>> + Send + 'static) -> Values {
    let events = SseByteStream::new(bytes.map_err(Broken)).map_err(|error| match error {
        sse_stream::Error::Body(error) => match error.downcast::<Broken>() {
            Ok(broken) => broken.0,
            Err(error) => Failure::unavailable(chain(&*error)),
        },
        other => Failure::bad_answer(format!("its events cannot be read: {other}")),
    });
    let data = events.try_filter_map(|event| async move { Ok(event.data.filter(|data| !data.trim().is_empty())) });
    Box::pin(data.map(|data| match data?.trim() {
        "[DONE]" => Ok(Value::Null),
        data => serde_json::from_str(data).map_err(no_json),
    }))
}

/// The values of lines.
fn lines(bytes: impl Stream<Item = Result<Bytes, Failure>> + Send + 'static) -> Values {
    let bytes = bytes.map_err(|failure| std::io::Error::other(Broken(failure)));
    let reader = StreamReader::new(Box::pin(bytes));
    let codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), LONGEST_LINE);
    let lines = FramedRead::new(reader, codec).map_err(|error| match error {
        AnyDelimiterCodecError::MaxChunkLengthExceeded => {
            Failure::bad_answer(format!("a line of it is longer than {} MB", LONGEST_LINE >> 20))
        }
        AnyDelimiterCodecError::Io(error) => {
            match error.into_inner().map(<dyn std::error::Error + Send + Sync>::downcast::<Broken>) {
                Some(Ok(broken)) => broken.0,
                Some(Err(error)) => Failure::bad_answer(chain(&*error)),
                None => Failure::bad_answer("its lines cannot be read"),
            }
        }
    });
    let lines = lines.try_filter(|line| std::future::ready(!line.trim_ascii().is_empty()));
    Box::pin(lines.map(|line| {
        serde_json::from_slice(&line?).map_err(|error| {
            // The last line may be cut off without a word of the transport.
            if error.is_eof() { Failure::cut_off() } else { no_json(error) }
        })
    }))
}

#[allow(clippy::needless_pass_by_value)] // as `map_err` hands it over
fn no_json(error: serde_json::Error) -> Failure {
    Failure::bad_answer(format!("a piece of it is no JSON: {error}"))
}

/// A failure of the transport, on its way through readers that know their own errors only.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.reason)]
struct Broken(Failure);

#[cfg(test)]
mod tests;
