//! A model that sends its next word on request, so that even a slow client can examine each part of an answer.

use std::fmt;
use std::sync::Arc;

use futures_util::StreamExt as _;
use hier_agents::{ChatChunk, ChatModel, ChatRequest, ChatResponse, ChatStream, ModelError};
use hier_core::async_trait;
use hier_server::axum::http::StatusCode;
use hier_server::axum::{Router, routing};
use tokio::sync::Semaphore;

/// Says what the model within says, each word when [`Paced::route`] is called for it.
#[derive(Clone)]
pub(crate) struct Paced<M> {
    inner: M,
    words: Arc<Semaphore>,
}

impl<M> Paced<M> {
    pub(crate) fn new(inner: M) -> Self {
        Self { inner, words: Arc::new(Semaphore::new(0)) }
    }

    /// `POST /internal/say`, which lets the model say one word.
    pub(crate) fn route(&self) -> Router {
        let words = self.words.clone();
        let say = async move || {
            words.add_permits(1);
            StatusCode::NO_CONTENT
        };
        Router::new().route("/internal/say", routing::post(say))
    }
}

#[async_trait]
impl<M: ChatModel> ChatModel for Paced<M> {
    fn name(&self) -> &str {
        self.inner.name()
    }

    async fn chat(&self, request: ChatRequest) -> Result<ChatResponse, ModelError> {
        self.inner.chat(request).await
    }

    async fn stream(&self, request: ChatRequest) -> Result<ChatStream, ModelError> {
        let words = self.words.clone();
        let said = self.inner.stream(request).await?.then(move |chunk| {
            let words = words.clone();
            async move {
                if let Ok(ChatChunk::Text(_)) = chunk
                    && let Ok(word) = words.acquire().await
                {
                    word.forget();
                }
                chunk
            }
        });
        Ok(Box::pin(said))
    }
}

impl<M> fmt::Debug for Paced<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Paced").finish_non_exhaustive()
    }
}
