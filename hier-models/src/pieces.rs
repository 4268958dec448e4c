//! An answer piece by piece.

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

use crate::attempt::Attempts;
use crate::draft::Draft;
use crate::endpoint::Endpoint;
use crate::error::{Failure, chain};
use crate::transport;
use crate::wire::Framing;

type Values = Pin<Box<dyn Stream<Item = Result<Value, Failure>> + Send>>;

/// The longest line, in bytes.
const LONGEST_LINE: usize = 16 << 20;
/// Time that a server may take to end a stream that has delivered everything else.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// A consumer that waits for an answer notices within this time that its patience has run out.
const PROMPT: Duration = Duration::from_secs(1);

/// Sends a request, and returns the stream of its answer once the first piece has arrived.
pub(crate) async fn open(endpoint: Arc<Endpoint>, request: ChatRequest) -> Result<ChatStream, ModelError> {
    let attempts = Attempts::new(&endpoint.server);
    let mut answering =
        Answering { endpoint, request, hint: None, attempts, source: None, is_told: false, ended: false };
    let first = answering.next().await.unwrap_or_else(|| Err(answering.endpoint.server.told(Failure::cut_off())))?;
    let rest = stream::unfold(answering, |mut answering| async move {
        let piece = answering.next().await?;
        Some((piece, answering))
    });
    Ok(Box::pin(stream::iter([Ok(first)]).chain(rest)))
}

/// A streamed answer. Until something other than thoughts was sent, a failed attempt is repeated, and the thoughts begin anew.
struct Answering {
    endpoint: Arc<Endpoint>,
    request: ChatRequest,
    /// A message for the model about its last attempt.
    hint: Option<String>,
    attempts: Attempts,
    source: Option<Source>,
    /// True once text or a call was sent.
    is_told: bool,
    ended: bool,
}

enum Source {
    Stream(Box<Pieces>),
    /// The server gave the answer as a whole.
    Whole(VecDeque<ChatChunk>),
}

impl Answering {
    async fn next(&mut self) -> Option<Result<ChatChunk, ModelError>> {
        while !self.ended {
            let failure = match self.piece().await {
                Ok(Some(piece)) => {
                    self.ended = matches!(piece, ChatChunk::Done(_));
                    self.is_told |= !matches!(piece, ChatChunk::Reasoning(_) | ChatChunk::Done(_));
                    return Some(Ok(piece));
                }
                Ok(None) => Failure::cut_off(),
                Err(failure) => failure,
            };
            self.source = None;
            let server = &self.endpoint.server;
            if self.is_told {
                self.ended = true;
                return Some(Err(server.told(failure)));
            }
            self.hint.clone_from(&failure.hint);
            if let Err(error) = self.attempts.after(server, failure).await {
                self.ended = true;
                return Some(Err(error));
            }
        }
        None
    }

    async fn piece(&mut self) -> Result<Option<ChatChunk>, Failure> {
        if self.source.is_none() {
            let request = Endpoint::hinted(&self.request, self.hint.as_deref()).into_owned();
            self.source = Some(Source::open(self.endpoint.clone(), request).await?);
        }
        match &mut self.source {
            Some(Source::Stream(pieces)) => pieces.next().await.transpose(),
            Some(Source::Whole(chunks)) => Ok(chunks.pop_front()),
            None => Ok(None),
        }
    }
}

impl Source {
    async fn open(endpoint: Arc<Endpoint>, request: ChatRequest) -> Result<Self, Failure> {
        let answer = endpoint.send(&request, true).await?;
        match values(&endpoint, answer) {
            Ok(values) => Ok(Self::Stream(Box::new(Pieces::new(endpoint, request, values)))),
            // A server that does not stream sends the whole answer at once.
            Err(answer) => Ok(Self::Whole(endpoint.read(&request, *answer).await?.into_chunks().collect())),
        }
    }
}

/// The values of a streamed answer; the answer itself if it is not streamed.
fn values(endpoint: &Endpoint, answer: Response) -> Result<Values, Box<Response>> {
    let media_type = transport::media_type(&answer);
    match endpoint.wire.framing() {
        Framing::Events if media_type.ends_with("json") || media_type == "text/html" => Err(Box::new(answer)),
        framing => Ok(cut(framing, transport::pieces(answer, endpoint.server.timeout))),
    }
}

struct Pieces {
    endpoint: Arc<Endpoint>,
    request: ChatRequest,
    values: Values,
    draft: Draft,
    /// The last piece or an error was handed over.
    ended: bool,
}

impl Pieces {
    fn new(endpoint: Arc<Endpoint>, request: ChatRequest, values: Values) -> Self {
        let draft = Draft::new(&request, endpoint.maker(), true);
        Self { endpoint, request, values, draft, ended: false }
    }

    async fn next(&mut self) -> Option<Result<ChatChunk, Failure>> {
        while !self.ended {
            if let Some(piece) = self.draft.fresh() {
                return Some(Ok(piece));
            }
            if self.draft.ended {
                if self.draft.is_paused() {
                    if let Err(failure) = self.go_on().await {
                        self.ended = true;
                        return Some(Err(failure));
                    }
                    continue;
                }
                self.draft.close();
                if let Some(piece) = self.draft.fresh() {
                    return Some(Ok(piece));
                }
                self.ended = true;
                let answer = std::mem::take(&mut self.draft).answer(&self.request);
                return Some(answer.map(ChatChunk::Done));
            }
            let read = match self.value().await {
                Some(Ok(value)) => self.endpoint.wire.piece(&mut self.draft, &value),
                Some(Err(failure)) => Err(failure),
                None if self.draft.is_finished() => {
                    self.draft.ended = true;
                    Ok(())
                }
                None => Err(Failure::cut_off()),
            };
            if let Err(failure) = read {
                self.ended = true;
                return Some(Err(failure));
            }
        }
        None
    }

    /// The next value. None if the stream has ended, or sends nothing more though the server has said why it ends.
    ///
    /// Only the time in which the consumer waits for the provider counts.
    async fn value(&mut self) -> Option<Result<Value, Failure>> {
        let idle = self.endpoint.server.idle;
        let patience = if self.draft.complete { LAST_WORDS.min(idle) } else { idle };
        let mut deadline = Instant::now() + patience;
        loop {
            let value = match tokio::time::timeout_at(deadline, self.values.next()).await {
                Ok(value) => value?,
                // The consumer was elsewhere when the time was up, and nobody read what the provider sent.
                Err(_) if deadline.elapsed() > PROMPT => {
                    deadline = Instant::now() + patience;
                    continue;
                }
                Err(_) if self.draft.is_finished() => return None,
                Err(_) => return Some(Err(Failure::stalled(idle))),
            };
            if value.as_ref().is_ok_and(is_ping) {
                continue;
            }
            return Some(value);
        }
    }

    /// Sends back what there is of an answer that the provider paused, and reads on.
    async fn go_on(&mut self) -> Result<(), Failure> {
        let so_far = self.draft.go_on();
        let request = Endpoint::continued(&self.request, so_far);
        let answer = self.endpoint.send(&request, true).await?;
        match values(&self.endpoint, answer) {
            Ok(values) => self.values = values,
            Err(answer) => {
                let answer = transport::json(*answer, self.endpoint.server.timeout).await?;
                self.endpoint.wire.whole(&mut self.draft, &answer)?;
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
    let data = events.try_filter_map(|event| async move {
        let data = event.data.filter(|data| !data.trim().is_empty());
        Ok(data.map(|data| (event.event, data)))
    });
    Box::pin(data.map(|event| {
        let (name, data) = event?;
        if data.trim() == "[DONE]" {
            return Ok(Value::Null);
        }
        let mut value: Value = serde_json::from_str(data.trim()).map_err(no_json)?;
        // Proxies leave out the type if the event has the same name.
        if let (Some(name), Value::Object(fields)) = (name, &mut value) {
            fields.entry("type").or_insert(Value::String(name));
        }
        Ok(value)
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
