//! A chat model of a server: sends requests and reads answers.

use std::borrow::Cow;

use hier_agents::{ChatRequest, ChatResponse, Message, ModelError};
use reqwest::Response;

use crate::draft::AnswerDraft;
use crate::error::ModelFailure;
use crate::provider_tools::ProviderTools;
use crate::refused_files;
use crate::retry::AttemptCounter;
use crate::server::ModelServer;
use crate::transport;
use crate::wire::{self, Dialect, WireRequest};

#[derive(Clone)]
pub(crate) struct ChatEndpoint {
    pub(crate) wire: &'static dyn Dialect,
    pub(crate) server: ModelServer,
    pub(crate) tools: ProviderTools,
}

impl ChatEndpoint {
    pub(crate) fn maker(&self) -> String {
        self.wire.maker(&self.server.name, &self.server.url)
    }

    /// Returns true if the provider searches the deferred tools of a request.
    pub(crate) fn searches_tools(&self) -> bool {
        let Self { wire, server, .. } = self;
        let can = |known: bool| server.searches_tools.unwrap_or(known && server.is_provider);
        wire.searches_tools(&server.name).is_some_and(can)
    }

    /// Sends a request. If the server refuses a file in it, sends the request again without the file.
    pub(crate) async fn send(&self, request: &ChatRequest, streamed: bool) -> Result<Response, ModelFailure> {
        let (model, maker) = (&*self.server.name, self.maker());
        let (native_output, searches_tools) = (self.server.native_output, self.searches_tools());
        let wire_request =
            WireRequest { model, maker: &maker, request, tools: &self.tools, native_output, searches_tools, streamed };
        let mut body = wire::request(self.wire, &wire_request)?;
        let path = self.wire.path(model, streamed);
        let headers = |key: Option<&str>| self.wire.headers(model, key);
        let failure = match self.server.send(&path, headers, &body).await {
            Err(failure) if refused_files::is_about_a_file(&failure) => failure,
            sent => return sent,
        };
        let count = refused_files::replace_files(&mut body, &failure.reason);
        if count == 0 {
            return Err(failure);
        }
        // The log omits the error text, because it may quote the request, and no layer has redacted the text.
        tracing::warn!(model, count, "a model refused files; sending the request again without them");
        self.server.send(&path, headers, &body).await
    }

    /// Reads a complete answer, and continues it if the provider pauses.
    pub(crate) async fn read_answer(
        &self,
        request: &ChatRequest,
        answer: Response,
    ) -> Result<ChatResponse, ModelFailure> {
        let mut draft = AnswerDraft::new(request, self.maker(), false);
        let mut answer = answer;
        loop {
            let whole = transport::read_json(answer, self.server.timeout).await?;
            self.wire.read_answer(&mut draft, &whole)?;
            if !draft.is_paused() {
                return draft.into_answer();
            }
            answer = self.send(&Self::with_message(request, draft.resume()), false).await?;
        }
    }

    /// Appends a message to the request, such as the partial answer to continue.
    pub(crate) fn with_message(request: &ChatRequest, so_far: Message) -> ChatRequest {
        let mut with_message = request.clone();
        with_message.messages = request.messages.iter().cloned().chain([so_far]).collect();
        with_message
    }

    /// Adds a message for the model about its last attempt.
    pub(crate) fn with_hint<'a>(request: &'a ChatRequest, hint: Option<&str>) -> Cow<'a, ChatRequest> {
        match hint {
            None => Cow::Borrowed(request),
            Some(hint) => Cow::Owned(Self::with_message(request, Message::user(hint))),
        }
    }

    /// Answers a request, with the configured number of attempts.
    pub(crate) async fn answer(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let mut attempts = AttemptCounter::new(&self.server);
        let mut hint = None;
        loop {
            let failure = match self.answer_once(&Self::with_hint(request, hint.as_deref())).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            hint.clone_from(&failure.hint);
            attempts.wait_or_fail(&self.server, failure).await?;
        }
    }

    async fn answer_once(&self, request: &ChatRequest) -> Result<ChatResponse, ModelFailure> {
        let answer = self.send(request, false).await?;
        self.read_answer(request, answer).await
    }
}
