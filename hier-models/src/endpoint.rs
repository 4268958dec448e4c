//! A chat model of a server: how it is asked, once, and its answer read.

use hier_core::agent::{ChatRequest, ChatResponse};
use reqwest::Response;

use crate::draft::Draft;
use crate::error::Failure;
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

    /// Sends a request, once.
    pub(crate) async fn send(&self, request: &ChatRequest, streamed: bool) -> Result<Response, Failure> {
        let (model, maker) = (&*self.server.name, self.maker());
        let body = wire::request(self.wire, &Asked { model, maker: &maker, request, streamed })?;
        self.server.send(&self.wire.endpoint(model, streamed), |key| self.wire.headers(model, key), &body).await
    }

    /// Reads a whole answer.
    pub(crate) async fn read(&self, request: &ChatRequest, answer: Response) -> Result<ChatResponse, Failure> {
        let answer = transport::json(answer, self.server.timeout).await?;
        let mut draft = Draft::new(request, self.maker(), false);
        self.wire.whole(&mut draft, &answer)?;
        draft.answer(request)
    }

    /// Asks, once.
    pub(crate) async fn answer(&self, request: &ChatRequest) -> Result<ChatResponse, Failure> {
        let answer = self.send(request, false).await?;
        self.read(request, answer).await
    }
}
