//! A chat model of a server: how it is asked, and its answer read.

use std::borrow::Cow;

use hier_agents::{ChatRequest, ChatResponse, Message, ModelError};
use reqwest::Response;

use crate::attempt::Attempts;
use crate::draft::Draft;
use crate::error::Failure;
use crate::refused;
use crate::server::Server;
use crate::transport;
use crate::wire::{self, Asked, Wire};

/// A chat model of a server, with the dialect in which it is spoken to.
#[derive(Clone)]
pub(crate) struct Endpoint {
    pub(crate) wire: &'static dyn Wire,
    pub(crate) server: Server,
}

impl Endpoint {
    /// Who makes this model's thoughts.
    pub(crate) fn maker(&self) -> String {
        wire::maker(self.wire, &self.server.url)
    }

    /// Sends a request. If the server refuses a file in it, sends it once more without the file.
    pub(crate) async fn send(&self, request: &ChatRequest, streamed: bool) -> Result<Response, Failure> {
        let (model, maker) = (&*self.server.name, self.maker());
        let mut body = wire::request(self.wire, &Asked { model, maker: &maker, request, streamed })?;
        let path = self.wire.endpoint(model, streamed);
        let headers = |key: Option<&str>| self.wire.headers(model, key);
        let failure = match self.server.send(&path, headers, &body).await {
            Err(failure) if refused::is_about_a_file(&failure) => failure,
            sent => return sent,
        };
        let count = refused::leave_out(&mut body, &failure.reason);
        if count == 0 {
            return Err(failure);
        }
        // Without the error: a provider may repeat what it was sent, and no layer has redacted it here.
        tracing::warn!(model, count, "a model refused files and is asked once more without them");
        self.server.send(&path, headers, &body).await
    }

    /// Reads a whole answer.
    pub(crate) async fn read(&self, request: &ChatRequest, answer: Response) -> Result<ChatResponse, Failure> {
        let mut draft = Draft::new(request, self.maker(), false);
        let mut answer = answer;
        loop {
            let whole = transport::json(answer, self.server.timeout).await?;
            self.wire.whole(&mut draft, &whole)?;
            if !draft.is_paused() {
                return draft.answer(request);
            }
            answer = self.send(&Self::continued(request, draft.go_on()), false).await?;
        }
    }

    /// The request that goes on with an answer of which there is this.
    pub(crate) fn continued(request: &ChatRequest, so_far: Message) -> ChatRequest {
        let mut continued = request.clone();
        continued.messages = request.messages.iter().cloned().chain([so_far]).collect();
        continued
    }

    /// The request with a message for the model about its last attempt.
    pub(crate) fn hinted<'a>(request: &'a ChatRequest, hint: Option<&str>) -> Cow<'a, ChatRequest> {
        match hint {
            None => Cow::Borrowed(request),
            Some(hint) => Cow::Owned(Self::continued(request, Message::user(hint))),
        }
    }

    /// Answers, with as many attempts as the server's settings allow.
    pub(crate) async fn answer(&self, request: &ChatRequest) -> Result<ChatResponse, ModelError> {
        let mut attempts = Attempts::new(&self.server);
        let mut hint = None;
        loop {
            let failure = match self.answer_once(&Self::hinted(request, hint.as_deref())).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            hint.clone_from(&failure.hint);
            attempts.after(&self.server, failure).await?;
        }
    }

    async fn answer_once(&self, request: &ChatRequest) -> Result<ChatResponse, Failure> {
        let answer = self.send(request, false).await?;
        self.read(request, answer).await
    }
}
