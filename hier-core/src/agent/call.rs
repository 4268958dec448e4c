//! A call of a model: within the budget, told to who listens, traced after OpenTelemetry's conventions. Every call goes
//! through here, of agents as of nodes.

use futures_util::StreamExt;
use tracing::{Instrument, Span, field};
use uuid::Uuid;

use super::model::{ChatModel, ChatRequest, ModelError};
use super::nesting;
use super::state::budget::Budget;
use super::state::context::BaseContext;
use crate::engine::program::Run;
use crate::engine::{EventSink, MessageChunk};
use crate::error::{NodeError, NodeErrorKind};
use crate::message::{Body, ChatChunk, ChatResponse, Message, Usage};

/// Calls a model. None if the budget does not allow it.
pub(super) async fn call<C: AsRef<BaseContext>>(
    run: &Run<C>,
    model: &dyn ChatModel,
    budget: Option<&Budget>,
    mut request: ChatRequest,
) -> Result<Option<ChatResponse>, NodeError> {
    if budget.is_some_and(|budget| !budget.take_call()) {
        return Ok(None);
    }
    let left = budget.and_then(Budget::longest_answer);
    request.options.max_tokens = [left, request.options.max_tokens].into_iter().flatten().min();
    let span = span(model);
    let mut response = speak(model, request, run).instrument(span.clone()).await.map_err(failed)?;
    nesting::cut(&mut response.message);
    let usage = usage(&response.message).unwrap_or_default();
    record(&span, &response, usage);
    if let Some(budget) = budget {
        budget.pay(usage);
    }
    if run.context().as_ref().debug {
        tracing::debug!(agent = run.graph(), node = run.node(), message = ?response.message, "a model answered");
    }
    if !matches!(response.message.body, Body::Assistant { .. }) {
        let reason = "it is no message of an assistant".to_owned();
        return Err(failed(ModelError::BadAnswer { model: model.name().to_owned(), reason }));
    }
    Ok(Some(response))
}

/// Gets the answer; piece by piece, if somebody listens.
async fn speak<C>(model: &dyn ChatModel, request: ChatRequest, run: &Run<C>) -> Result<ChatResponse, ModelError> {
    run.heartbeat();
    let Some(sink) = run.shared.sink.as_deref().filter(|sink| sink.wants_messages()) else {
        return model.chat(request).await;
    };
    let mut pieces = model.stream(request).await?;
    let spoken = Spoken::by(run);
    while let Some(piece) = pieces.next().await {
        let mut piece = piece?;
        run.heartbeat();
        if let ChatChunk::Done(response) = &mut piece {
            response.message.id = Some(spoken.id.clone());
        }
        spoken.tell(sink, run, piece.clone());
        if let ChatChunk::Done(response) = piece {
            return Ok(response);
        }
    }
    let reason = "the stream ended before the answer did".to_owned();
    Err(ModelError::BadAnswer { model: model.name().to_owned(), reason })
}

/// An answer that is being told piece by piece: by whom, and the id that its message will have.
struct Spoken {
    id: String,
    task: Uuid,
}

impl Spoken {
    fn by<C>(run: &Run<C>) -> Self {
        Self { id: Uuid::new_v4().to_string(), task: run.task_id() }
    }

    fn tell<C>(&self, sink: &dyn EventSink, run: &Run<C>, chunk: ChatChunk) {
        let node = |level: &String| level.split(':').next().unwrap_or_default().to_owned();
        sink.message(MessageChunk {
            id: self.id.clone(),
            node: run.node().to_owned(),
            task: self.task,
            step: run.superstep(),
            path: run.namespace().iter().map(node).collect(),
            namespace: run.namespace().to_vec(),
            agent: run.graph().to_owned(),
            chunk,
        });
    }
}

fn usage(message: &Message) -> Option<Usage> {
    match &message.body {
        Body::Assistant { usage, .. } => *usage,
        _ => None,
    }
}

/// The failure of a node whose model failed.
pub(super) fn failed(error: ModelError) -> NodeError {
    let transient = error.is_transient();
    NodeError::from_kind(NodeErrorKind::Source(Box::new(error)), transient)
}

/// The span of a call of a model.
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
