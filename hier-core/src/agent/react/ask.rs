//! Asks a model: within the budget, told to who listens, traced after OpenTelemetry's conventions.

use futures_util::StreamExt;
use tracing::{Instrument, Span, field};
use uuid::Uuid;

use super::{Agent, budget};
use crate::agent::model::{ChatModel, ChatRequest, ModelError};
use crate::agent::nesting;
use crate::agent::options::ModelOptions;
use crate::agent::state::base::BaseState;
use crate::agent::state::context::BaseContext;
use crate::engine::program::Run;
use crate::engine::{EventSink, MessageChunk};
use crate::error::{NodeError, NodeErrorKind};
use crate::graph::Task;
use crate::message::{Body, ChatChunk, ChatResponse, Message, Messages, Usage};
use crate::state::{Contains, Values};

/// Why no model is asked any more, if none is.
pub(super) fn over<S, C>(task: &Task<S, C>) -> Option<String>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext>,
{
    if task.state().part().is_cancelled {
        return Some("the run was cancelled".to_owned());
    }
    budget(task).and_then(|budget| budget.used_up())
}

/// Asks the model: the conversation so far, and the question. None if it may not be asked any more.
pub(super) async fn ask<S, C>(
    agent: &Agent<S, C>,
    task: &Task<S, C>,
    question: &Messages,
) -> Result<Option<Message>, NodeError>
where
    S: Values + Contains<BaseState>,
    C: AsRef<BaseContext> + Send + Sync + 'static,
{
    let (base, context) = (task.state().part(), task.run().context().as_ref());
    let budget = budget(task);
    if base.is_cancelled || budget.is_some_and(|budget| !budget.take_call()) {
        return Ok(None);
    }
    let model = context.model()?;
    let mut messages = base.messages.clone();
    messages.merge(question.clone()).map_err(|error| NodeError::permanent(error.to_string()))?;
    let max_tokens = budget.and_then(|budget| budget.longest_answer());
    let options = ModelOptions::new().max_tokens(max_tokens);
    let request = ChatRequest::new(messages).tools(agent.specs.clone()).options(options);
    let span = span(&**model);
    let mut response = speak(&**model, request, task.run()).instrument(span.clone()).await.map_err(failed)?;
    nesting::cut(&mut response.message);
    let usage = usage(&response.message).unwrap_or_default();
    record(&span, &response, usage);
    if let Some(budget) = budget {
        budget.pay(usage);
    }
    if context.debug {
        tracing::debug!(agent = %agent.name, message = ?response.message, "a model answered");
    }
    if !matches!(response.message.body, Body::Assistant { .. }) {
        let reason = "it is no message of an assistant".to_owned();
        return Err(failed(ModelError::BadAnswer { model: model.name().to_owned(), reason }));
    }
    Ok(Some(response.message))
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

fn failed(error: ModelError) -> NodeError {
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
