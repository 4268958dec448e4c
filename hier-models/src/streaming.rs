use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use hier_agents::{ChatChunk, ChatRequest, ChatStream, ModelError};
use reqwest::Response;
use serde_json::Value;
use sse_stream::SseByteStream;
use tokio::time::Instant;
use tokio_util::codec::{AnyDelimiterCodec, AnyDelimiterCodecError, FramedRead};
use tokio_util::io::StreamReader;

use crate::draft::AnswerDraft;
use crate::endpoint::ChatEndpoint;
use crate::error::{ModelFailure, error_chain};
use crate::retry::AttemptCounter;
use crate::transport;
use crate::wire::{self, Framing};

#[cfg(feature = "bedrock")]
mod frames;

type ValueStream = Pin<Box<dyn Stream<Item = Result<Value, ModelFailure>> + Send>>;

/// The longest line of a line-based stream, in bytes.
const LONGEST_LINE: usize = 16 << 20;
/// Time for the server to close a stream after the rest of the answer has arrived.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// If the reader notices an expired deadline later than this, the consumer was not polling the stream.
const PROMPT: Duration = Duration::from_secs(1);

/// Sends a request, and returns the stream of its answer once the first chunk has arrived.
///
/// Dropping the future or the stream closes the connection.
pub(crate) async fn open_stream(endpoint: Arc<ChatEndpoint>, request: ChatRequest) -> Result<ChatStream, ModelError> {
    let attempts = AttemptCounter::new(&endpoint.server);
    let mut retrying =
        RetryingStream { endpoint, request, hint: None, attempts, source: None, has_content: false, ended: false };
    let first =
        retrying.next().await.unwrap_or_else(|| Err(retrying.endpoint.server.model_error(ModelFailure::cut_off())))?;
    let rest = stream::unfold(retrying, |mut retrying| async move {
        let chunk = retrying.next().await?;
        Some((chunk, retrying))
    });
    Ok(Box::pin(stream::iter([Ok(first)]).chain(rest)))
}

/// A streamed answer. A failed attempt is repeated only before text or a call was sent. The next attempt streams its
/// thoughts again.
struct RetryingStream {
    endpoint: Arc<ChatEndpoint>,
    request: ChatRequest,
    hint: Option<String>,
    attempts: AttemptCounter,
    source: Option<AnswerSource>,
    /// True once text or a call was sent.
    has_content: bool,
    ended: bool,
}

enum AnswerSource {
    Stream(Box<AnswerStream>),
    /// The chunks of an answer that the server did not stream.
    Whole(VecDeque<ChatChunk>),
}

impl RetryingStream {
    async fn next(&mut self) -> Option<Result<ChatChunk, ModelError>> {
        while !self.ended {
            let failure = match self.next_chunk().await {
                Ok(Some(chunk)) => {
                    self.ended = matches!(chunk, ChatChunk::Done(_));
                    self.has_content |= !matches!(chunk, ChatChunk::Reasoning(_) | ChatChunk::Done(_));
                    return Some(Ok(chunk));
                }
                Ok(None) => ModelFailure::cut_off(),
                Err(failure) => failure,
            };
            self.source = None;
            let server = &self.endpoint.server;
            if self.has_content {
                self.ended = true;
                return Some(Err(server.model_error(failure)));
            }
            self.hint.clone_from(&failure.hint);
            if let Err(error) = self.attempts.wait_or_fail(server, failure).await {
                self.ended = true;
                return Some(Err(error));
            }
        }
        None
    }

    async fn next_chunk(&mut self) -> Result<Option<ChatChunk>, ModelFailure> {
        if self.source.is_none() {
            let request = ChatEndpoint::with_hint(&self.request, self.hint.as_deref()).into_owned();
            self.source = Some(AnswerSource::open(self.endpoint.clone(), request).await?);
        }
        match &mut self.source {
            Some(AnswerSource::Stream(stream)) => stream.next().await.transpose(),
            Some(AnswerSource::Whole(chunks)) => Ok(chunks.pop_front()),
            None => Ok(None),
        }
    }
}

impl AnswerSource {
    async fn open(endpoint: Arc<ChatEndpoint>, request: ChatRequest) -> Result<Self, ModelFailure> {
        let answer = endpoint.send(&request, true).await?;
        match streamed_values(&endpoint, answer) {
            Ok(values) => Ok(Self::Stream(Box::new(AnswerStream::new(endpoint, request, values)))),
            // A server that does not stream sends the whole answer at once.
            Err(answer) => Ok(Self::Whole(endpoint.read_answer(&request, *answer).await?.into_chunks().collect())),
        }
    }
}

/// Returns the JSON values of a streamed answer, or the response itself if it is not streamed.
fn streamed_values(endpoint: &ChatEndpoint, answer: Response) -> Result<ValueStream, Box<Response>> {
    let media_type = transport::media_type(&answer);
    let framing = endpoint.wire.info().framing;
    // A stream of lines may also have a JSON media type.
    if framing != Framing::Lines && (media_type.ends_with("json") || media_type == "text/html") {
        return Err(Box::new(answer));
    }
    Ok(split_values(framing, transport::body_chunks(answer, endpoint.server.timeout)))
}

struct AnswerStream {
    endpoint: Arc<ChatEndpoint>,
    request: ChatRequest,
    values: ValueStream,
    draft: AnswerDraft,
    /// True once the last chunk or an error was returned.
    ended: bool,
}

impl AnswerStream {
    fn new(endpoint: Arc<ChatEndpoint>, request: ChatRequest, values: ValueStream) -> Self {
        let draft = AnswerDraft::new(&request, endpoint.maker(), true);
        Self { endpoint, request, values, draft, ended: false }
    }

    async fn next(&mut self) -> Option<Result<ChatChunk, ModelFailure>> {
        while !self.ended {
            if let Some(chunk) = self.draft.next_chunk() {
                return Some(Ok(chunk));
            }
            if self.draft.ended {
                if self.draft.is_paused() {
                    if let Err(failure) = self.resume().await {
                        self.ended = true;
                        return Some(Err(failure));
                    }
                    continue;
                }
                self.draft.close();
                if let Some(chunk) = self.draft.next_chunk() {
                    return Some(Ok(chunk));
                }
                self.ended = true;
                let answer = std::mem::take(&mut self.draft).into_answer();
                return Some(answer.map(ChatChunk::Done));
            }
            let read = match self.next_value().await {
                Some(Ok(value)) => self.endpoint.wire.read_event(&mut self.draft, &value),
                Some(Err(failure)) => Err(failure),
                None if self.draft.is_finished() => {
                    self.draft.ended = true;
                    Ok(())
                }
                None => Err(ModelFailure::cut_off()),
            };
            if let Err(failure) = read {
                self.ended = true;
                return Some(Err(failure));
            }
        }
        None
    }

    /// Returns the next value. Returns `None` at the end of the stream, and if a finished answer is followed by
    /// silence.
    ///
    /// Only time in which the consumer polls the stream counts toward the limit.
    async fn next_value(&mut self) -> Option<Result<Value, ModelFailure>> {
        let idle_timeout = self.endpoint.server.idle_timeout;
        let patience = if self.draft.complete { LAST_WORDS.min(idle_timeout) } else { idle_timeout };
        let mut deadline = Instant::now() + patience;
        loop {
            let value = match tokio::time::timeout_at(deadline, self.values.next()).await {
                Ok(value) => value?,
                Err(_) if deadline.elapsed() > PROMPT => {
                    deadline = Instant::now() + patience;
                    continue;
                }
                Err(_) if self.draft.is_finished() => return None,
                Err(_) => return Some(Err(ModelFailure::stalled(idle_timeout))),
            };
            if value.as_ref().is_ok_and(is_ping) {
                // Anthropic's models may think for minutes without any other event. The limit of the whole answer
                // still applies.
                if self.endpoint.wire.info().name == wire::ANTHROPIC.info().name && !self.draft.is_finished() {
                    deadline = Instant::now() + patience;
                }
                continue;
            }
            return Some(value);
        }
    }

    /// Sends the partial answer back to a provider that paused, and switches to the new response.
    async fn resume(&mut self) -> Result<(), ModelFailure> {
        let so_far = self.draft.resume();
        let request = ChatEndpoint::with_message(&self.request, so_far);
        let answer = self.endpoint.send(&request, true).await?;
        match streamed_values(&self.endpoint, answer) {
            Ok(values) => self.values = values,
            Err(answer) => {
                let answer = transport::read_json(*answer, self.endpoint.server.timeout).await?;
                self.endpoint.wire.read_answer(&mut self.draft, &answer)?;
                self.draft.ended = true;
            }
        }
        Ok(())
    }
}

/// Returns true for an event that only keeps the connection open.
fn is_ping(value: &Value) -> bool {
    value.get("type").is_some_and(|kind| kind == "ping")
}

fn split_values(
    framing: Framing,
    bytes: impl Stream<Item = Result<Bytes, ModelFailure>> + Send + 'static,
) -> ValueStream {
    match framing {
        Framing::Events => event_values(bytes),
        Framing::Lines => line_values(bytes),
        #[cfg(feature = "bedrock")]
        Framing::Frames => frames::frame_values(bytes),
    }
}

/// Returns the values of server-sent events. OpenAI's end mark `[DONE]` becomes null.
fn event_values(bytes: impl Stream<Item = Result<Bytes, ModelFailure>> + Send + 'static) -> ValueStream {
    let events = SseByteStream::new(bytes.map_err(BodyError)).map_err(|error| match error {
        sse_stream::Error::Body(error) => match error.downcast::<BodyError>() {
            Ok(broken) => broken.0,
            Err(error) => ModelFailure::unavailable(error_chain(&*error)),
        },
        other => ModelFailure::bad_answer(format!("the event stream of the server is invalid: {other}")),
    });
    let data = events.try_filter_map(|event| async move {
        let data = event.data.filter(|data| !data.trim().is_empty());
        Ok(data.map(|data| (event.event, data)))
    });
    Box::pin(data.map(|event| {
        let (name, data) = event?;
        if data.trim() == "[DONE]" {
            return Ok(Value::Null);
        }
        let mut value: Value = serde_json::from_str(data.trim()).map_err(invalid_json)?;
        // Proxies leave out a type that equals the name of the event.
        if let (Some(name), Value::Object(fields)) = (name, &mut value) {
            fields.entry("type").or_insert(Value::String(name));
        }
        Ok(value)
    }))
}

fn line_values(bytes: impl Stream<Item = Result<Bytes, ModelFailure>> + Send + 'static) -> ValueStream {
    let bytes = bytes.map_err(|failure| std::io::Error::other(BodyError(failure)));
    let reader = StreamReader::new(Box::pin(bytes));
    let codec = AnyDelimiterCodec::new_with_max_length(b"\n".to_vec(), Vec::new(), LONGEST_LINE);
    let lines = FramedRead::new(reader, codec).map_err(|error| match error {
        AnyDelimiterCodecError::MaxChunkLengthExceeded => {
            ModelFailure::bad_answer(format!("a line of the stream is longer than {} MB", LONGEST_LINE >> 20))
        }
        AnyDelimiterCodecError::Io(error) => {
            match error.into_inner().map(<dyn std::error::Error + Send + Sync>::downcast::<BodyError>) {
                Some(Ok(broken)) => broken.0,
                Some(Err(error)) => ModelFailure::bad_answer(error_chain(&*error)),
                None => ModelFailure::bad_answer("the stream cannot be read"),
            }
        }
    });
    let lines = lines.try_filter(|line| std::future::ready(!line.trim_ascii().is_empty()));
    Box::pin(lines.map(|line| {
        serde_json::from_slice(&line?).map_err(|error| {
            // The transport does not report that the last line is incomplete.
            if error.is_eof() { ModelFailure::cut_off() } else { invalid_json(error) }
        })
    }))
}

#[allow(clippy::needless_pass_by_value)] // the signature that `map_err` needs
fn invalid_json(error: serde_json::Error) -> ModelFailure {
    ModelFailure::bad_answer(format!("invalid JSON in the stream: {error}"))
}

/// Carries a failure of the transport through readers that only pass on their own error type.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.reason)]
struct BodyError(ModelFailure);

#[cfg(test)]
mod tests;
