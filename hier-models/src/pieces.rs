//! An answer piece by piece.

use std::pin::Pin;

use futures_util::{Stream, StreamExt, stream};
use genai::chat::{ChatStreamEvent, StreamEnd};
use hier_core::agent::{ChatChunk, ChatRequest, ChatStream, ModelError};

use crate::answer;
use crate::error::Failure;
use crate::model::{Inner, silent};

type Events = Pin<Box<dyn Stream<Item = genai::Result<ChatStreamEvent>> + Send>>;

/// Waits for the first piece, up to which a failed attempt can be made again, and hands over the stream from there on.
pub(crate) async fn open(inner: std::sync::Arc<Inner>, request: ChatRequest) -> Result<ChatStream, Failure> {
    let events = inner.events(&request).await?;
    let mut pieces = Pieces { inner, request, events, ended: false };
    let Some(first) = pieces.next().await else { return Err(pieces.cut_off().into()) };
    let first = first?;
    let rest = stream::unfold(pieces, |mut pieces| async move {
        let piece = pieces.next().await?;
        Some((piece.map_err(|failure| failure.error), pieces))
    });
    Ok(Box::pin(stream::iter([Ok(first)]).chain(rest)))
}

struct Pieces {
    inner: std::sync::Arc<Inner>,
    request: ChatRequest,
    events: Events,
    /// The last piece or an error was handed over.
    ended: bool,
}

impl Pieces {
    async fn next(&mut self) -> Option<Result<ChatChunk, Failure>> {
        while !self.ended {
            let piece = match silent(self.events.next()).await {
                Some(Ok(ChatStreamEvent::Chunk(chunk))) if !chunk.content.is_empty() => {
                    Ok(ChatChunk::Text(chunk.content))
                }
                Some(Ok(ChatStreamEvent::End(end))) => self.done(end),
                Some(Ok(_)) => continue,
                Some(Err(error)) => Err(self.inner.failure(&error)),
                None => Err(self.cut_off().into()),
            };
            self.ended = !matches!(piece, Ok(ChatChunk::Text(_)));
            return Some(piece);
        }
        None
    }

    fn done(&self, end: StreamEnd) -> Result<ChatChunk, Failure> {
        // Where the connection ends, the client makes up an end.
        if self.inner.tells_cost() && end.captured_usage.is_none() {
            return Err(self.cut_off().into());
        }
        let content = end.captured_content.unwrap_or_default();
        answer::response(self.inner.name(), &self.request, content, end.captured_usage.as_ref(), None)
            .map(ChatChunk::Done)
            .map_err(Failure::from)
    }

    fn cut_off(&self) -> ModelError {
        let reason = "the stream ended before the answer did".to_owned();
        ModelError::Unavailable { model: self.inner.name().to_owned(), reason, source: None }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        Self { error, wait: None }
    }
}
