//! Calls a model: through the layers, within the budget, streamed, and traced after OpenTelemetry's conventions. Every
//! model call of agents and nodes goes through this module.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use tracing::{Instrument, Span, field};
use uuid::Uuid;

use super::call_ids::CallIds;
use super::layer::{
    Above, Held, Lens, Line, Listed, ModelCall, ModelEnd, ModelReply, Offer, Reply, Voice, around_model, redactor, site,
};
use super::model::{ChatModel, ChatRequest, ModelError};
use super::nesting;
use super::paired::paired;
use super::redaction::Redactor;
use super::state::budget::Budget;
use super::state::context::BaseContext;
use super::state::turn::AgentLimit;
use hier_checkpoint::message::{Body, ChatChunk, ChatResponse, Message, Usage};
use hier_core::Run;
use hier_core::state::Values;
use hier_core::{NodeError, NodeErrorKind};

pub(super) struct Caller<'a, S: Values, C> {
    pub(super) run: &'a Run<C>,
    pub(super) state: &'a S,
    pub(super) agent: &'a str,
    pub(super) budget: Option<&'a Budget>,
    /// The inherited layers, and the agent's own.
    pub(super) layers: (Above<'a>, &'a [Listed<S, C>]),
    pub(super) lens: Lens<S>,
}

impl<S: Values, C: AsRef<BaseContext> + Send + Sync + 'static> Caller<'_, S, C> {
    pub(super) async fn call(
        &self,
        model: &dyn ChatModel,
        mut request: ChatRequest,
        offer: Option<&Offer>,
    ) -> Result<ModelReply<S>, NodeError> {
        if let Some(offer) = offer {
            offer.fit(&mut request, model);
        }
        let reply = if self.layers.0.is_empty() && self.layers.1.is_empty() {
            ModelReply::of(plainly(self.run, self.budget, model, request, None).await?)
        } else {
            // Boxed to keep the future of a call without layers small.
            Box::pin(self.layered(model, request, offer)).await?
        };
        if let Reply::Answer(response) = &reply.reply
            && self.run.context().as_ref().debug
        {
            let (agent, node) = (self.run.graph(), self.run.node());
            tracing::debug!(agent, node, message = ?response.message, "the model answered");
        }
        Ok(reply)
    }

    /// Calls a model through layers. The end of the stream is sent after the layers have seen the whole answer.
    async fn layered(
        &self,
        model: &dyn ChatModel,
        request: ChatRequest,
        offer: Option<&Offer>,
    ) -> Result<ModelReply<S>, NodeError> {
        let voice = Voice::default();
        let site = site(self.state, self.run, self.agent, self.layers.0, &self.lens);
        let mut call = ModelCall::new(request, site, model, offer, &voice);
        let redactor = redactor(self.layers);
        if let Some(redactor) = &redactor {
            redact_request(redactor, &mut call.request);
            let own = redactor.clone();
            call = call.through(move || Held::new(own.clone()));
        }
        let end = Asked { budget: self.budget, redactor: redactor.clone() };
        let made = around_model(self.layers, &self.lens, call, &end).await;
        let mut reply = match &redactor {
            Some(redactor) => self.redacted(redactor, made)?,
            None => made?,
        };
        if let Some(response) = reply.response_mut() {
            nesting::cut(&mut response.message);
            CallIds::default().answer(&mut response.message);
            assistants(model, response)?;
            finish(self.run, response, voice.has_spoken());
        }
        Ok(reply)
    }
}

impl<S: Values, C> Caller<'_, S, C> {
    /// Removes secrets from the outcome of a call: from its message, its writes and its stored form.
    fn redacted(
        &self,
        redactor: &Redactor,
        made: Result<ModelReply<S>, NodeError>,
    ) -> Result<ModelReply<S>, NodeError> {
        let mut reply = made.map_err(|error| redactor.error(error))?;
        if let Some(response) = reply.response_mut() {
            redactor.message(&mut response.message);
        }
        reply.map_writes(|write| redactor.write(self.state, write))?;
        // Inserted first, so that a layer's replacement of a message takes precedence.
        let stored = self.lens.lift.zip(redactor.stored(&(self.lens.base)(self.state)));
        Ok(match stored {
            Some((lift, write)) => reply.written_before(lift(write)),
            None => reply,
        })
    }
}

fn redact_request(redactor: &Redactor, request: &mut ChatRequest) {
    if let Some(messages) = redactor.conversation(&request.messages) {
        request.messages = messages;
    }
}

/// The innermost end of the layers: it calls the model.
struct Asked<'a> {
    budget: Option<&'a Budget>,
    redactor: Option<Arc<Redactor>>,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> ModelEnd<S, C> for Asked<'_> {
    async fn call(&self, mut call: ModelCall<'_, S, C>) -> Result<ModelReply<S>, NodeError> {
        let (mut line, voice) = (call.line(), call.voice());
        let (run, model) = (call.run(), call.model());
        let redactor = self.redactor.as_deref();
        if let Some(redactor) = redactor {
            redact_request(redactor, &mut call.request);
        }
        let reply = plainly(run, self.budget, model, call.request, Some((&mut line, voice))).await;
        let mut reply = reply.map_err(|error| match redactor {
            Some(redactor) => redactor.error(error),
            None => error,
        })?;
        if let (Some(redactor), Reply::Answer(response)) = (redactor, &mut reply) {
            redactor.message(&mut response.message);
        }
        Ok(ModelReply::of(reply))
    }
}

/// Sends the end of an answer, or the whole answer if none of it was streamed.
fn finish<C>(run: &Run<C>, response: &mut ChatResponse, has_spoken: bool) {
    if !run.wants_messages() {
        return;
    }
    let spoken = Spoken::by(run, response.message.id.clone());
    response.message.id = Some(spoken.id.clone());
    if has_spoken {
        return spoken.tell(run, ChatChunk::Done(response.clone()));
    }
    for chunk in response.clone().into_chunks() {
        spoken.tell(run, chunk);
    }
}

type Heard<'a> = Option<(&'a mut Line, &'a Voice)>;

/// Calls a model if the budget allows it.
async fn plainly<C>(
    run: &Run<C>,
    budget: Option<&Budget>,
    model: &dyn ChatModel,
    mut request: ChatRequest,
    heard: Heard<'_>,
) -> Result<Reply, NodeError> {
    if let Some(budget) = budget.filter(|budget| !budget.take_call()) {
        return Ok(Reply::End(AgentLimit::Budget(budget.used_up().unwrap_or_default())));
    }
    request.messages = paired(&request.messages);
    let left = budget.and_then(Budget::longest_answer);
    request.options.max_tokens = [left, request.options.max_tokens].into_iter().flatten().min();
    let span = span(model);
    let mut response = speak(model, request, run, heard).instrument(span.clone()).await.map_err(failed)?;
    nesting::cut(&mut response.message);
    let usage = usage(&response.message).unwrap_or_default();
    record(&span, &response, usage);
    if let Some(budget) = budget {
        budget.pay(usage);
    }
    assistants(model, &response)?;
    Ok(Reply::Answer(response))
}

/// Checks that the response is an assistant message.
fn assistants(model: &dyn ChatModel, response: &ChatResponse) -> Result<(), NodeError> {
    if matches!(response.message.body, Body::Assistant { .. }) {
        return Ok(());
    }
    let reason = "it is not an assistant message".to_owned();
    Err(failed(ModelError::BadAnswer { model: model.name().to_owned(), reason }))
}

/// Requests the answer, and streams it if the run has a listener. With layers, the end of the stream is sent later.
async fn speak<C>(
    model: &dyn ChatModel,
    request: ChatRequest,
    run: &Run<C>,
    mut heard: Heard<'_>,
) -> Result<ChatResponse, ModelError> {
    run.heartbeat();
    let mut ids = CallIds::default();
    if !run.wants_messages() {
        let mut response = model.chat(request).await?;
        ids.answer(&mut response.message);
        return Ok(response);
    }
    let mut pieces = model.stream(request).await?;
    let spoken = Spoken::by(run, None);
    while let Some(piece) = pieces.next().await {
        let mut piece = piece?;
        run.heartbeat();
        ids.piece(&mut piece);
        if let ChatChunk::Done(response) = &mut piece {
            response.message.id = Some(spoken.id.clone());
        }
        let Some((line, voice)) = &mut heard else {
            spoken.tell(run, piece.clone());
            match piece {
                ChatChunk::Done(response) => return Ok(response),
                _ => continue,
            }
        };
        let mut tell = |piece| {
            voice.speak();
            spoken.tell(run, piece);
        };
        match piece {
            ChatChunk::Done(response) => {
                line.end(&mut tell);
                return Ok(response);
            }
            piece => line.piece(piece, &mut tell),
        }
    }
    let reason = "the stream ended before the answer did".to_owned();
    Err(ModelError::BadAnswer { model: model.name().to_owned(), reason })
}

struct Spoken {
    id: String,
    task: Uuid,
}

impl Spoken {
    fn by<C>(run: &Run<C>, id: Option<String>) -> Self {
        Self { id: id.unwrap_or_else(|| Uuid::new_v4().to_string()), task: run.task_id() }
    }

    fn tell<C>(&self, run: &Run<C>, chunk: ChatChunk) {
        run.stream_chunk(&self.id, self.task, chunk);
    }
}

fn usage(message: &Message) -> Option<Usage> {
    match &message.body {
        Body::Assistant { usage, .. } => *usage,
        _ => None,
    }
}

pub(super) fn failed(error: ModelError) -> NodeError {
    let transient = error.is_transient();
    NodeError::from_kind(NodeErrorKind::Source(Box::new(error)), transient)
}

fn span(model: &dyn ChatModel) -> Span {
    tracing::info_span!(
        "chat",
        otel.name = format_args!("chat {}", model.name()),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = model.provider(),
        gen_ai.request.model = model.name(),
        gen_ai.response.model = field::Empty,
        gen_ai.usage.input_tokens = field::Empty,
        gen_ai.usage.output_tokens = field::Empty,
        gen_ai.usage.cache_read.input_tokens = field::Empty,
        gen_ai.usage.cache_creation.input_tokens = field::Empty,
    )
}

fn record(span: &Span, response: &ChatResponse, usage: Usage) {
    if let Some(model) = &response.model {
        span.record("gen_ai.response.model", model.as_str());
    }
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    let cached = [("cache_read", usage.cached_tokens), ("cache_creation", usage.cache_write_tokens)];
    for (what, tokens) in cached.into_iter().filter(|(_, tokens)| *tokens > 0) {
        span.record(format!("gen_ai.usage.{what}.input_tokens").as_str(), tokens);
    }
}
