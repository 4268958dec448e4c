//! Calls a model: through the layers, within the budget, streamed, and traced after OpenTelemetry's conventions. Every
//! model call of agents and nodes goes through this module.

use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt;
use serde_json::Value;
use tracing::{Instrument, Span, field};
use uuid::Uuid;

use super::ids::CallIds;
use super::metrics::RequestTimer;
use super::nesting;
use super::pairing::paired;
use crate::layer::{
    AnswerCounter, Answers, CallLayers, ChunkPipeline, ChunkRedactor, ModelCall, ModelEnd, ModelOutcome, ModelReply,
    OutputTool, StateProjection, StreamState, around_model, redactor,
};
use crate::model::{ChatModel, ChatRequest, ModelError};
use crate::price::{ModelPrice, Prices, UnknownPrice};
use crate::redaction::Redactor;
use crate::state::budget::Budget;
use crate::state::context::BaseContext;
use crate::state::turn::AgentLimit;
use crate::tool::search::ProviderSearch;
use hier_checkpoint::message::{Body, ChatChunk, ChatResponse, FinishReason, Usage};
use hier_core::Run;
use hier_core::state::Values;
use hier_core::{NodeError, NodeErrorKind};

/// The origin of model calls: an agent or a node.
pub(crate) struct ModelCaller<'a, S: Values, C> {
    pub(crate) run: &'a Run<C>,
    pub(crate) state: &'a S,
    pub(crate) agent: &'a str,
    pub(crate) budget: Option<&'a Budget>,
    pub(crate) layers: CallLayers<'a, S, C>,
    pub(crate) projection: StateProjection<S>,
    /// The provider's search for the agent's tools.
    pub(crate) search: Option<&'a ProviderSearch<'a>>,
}

impl<S: Values, C: AsRef<BaseContext> + Send + Sync + 'static> ModelCaller<'_, S, C> {
    pub(crate) async fn call_model(
        &self,
        model: &dyn ChatModel,
        mut request: ChatRequest,
        output: Option<&OutputTool>,
    ) -> Result<ModelReply<S>, NodeError> {
        if let Some(output) = output {
            output.adapt(&mut request, model);
        }
        let reply = if self.layers.is_empty() {
            ModelReply::from_outcome(self.accounts(false).call_model(self.run, model, request, None).await?)
        } else {
            // Boxed to keep the future of a call without layers small.
            Box::pin(self.call_through_layers(model, request, output)).await?
        };
        if let ModelOutcome::Answer(response) = &reply.outcome
            && self.run.context().as_ref().debug
        {
            let (agent, node) = (self.run.graph(), self.run.node());
            tracing::debug!(agent, node, message = ?response.message, "the model replied");
        }
        Ok(reply)
    }

    fn accounts(&self, needs_cost: bool) -> Accounts<'_> {
        let prices = self.run.context().as_ref().prices.as_deref();
        Accounts { budget: self.budget, prices, needs_cost, answers: None, search: self.search }
    }

    /// Calls the model through the layers. Sends the end of the stream after the layers have seen the whole reply.
    async fn call_through_layers(
        &self,
        model: &dyn ChatModel,
        request: ChatRequest,
        output: Option<&OutputTool>,
    ) -> Result<ModelReply<S>, NodeError> {
        let (answers, stream) = (AnswerCounter::default(), StreamState::default());
        let site = self.layers.call_site(self.state, self.run, self.agent, &self.projection);
        let mut call = ModelCall::new(request, site, model, output, (&answers, &stream));
        let redactor = redactor(self.layers);
        if let Some(redactor) = &redactor {
            redact_request(redactor, &mut call.request);
            let own = redactor.clone();
            call = call.filter_chunks(move || ChunkRedactor::new(own.clone()));
        }
        let end = ModelEndpoint { accounts: self.accounts(false), redactor: redactor.clone() };
        let made = around_model(self.layers, &self.projection, call, &end).await;
        let mut reply = match &redactor {
            Some(redactor) => self.redact_reply(redactor, made)?,
            None => made?,
        };
        if let Some(response) = reply.response_mut() {
            repair_calls(response);
            CallIds::default().replace_in_answer(&mut response.message);
            check_role(model, response)?;
            finish_stream(self.run, response, stream.has_started());
        }
        Ok(reply)
    }
}

impl<S: Values, C> ModelCaller<'_, S, C> {
    /// Removes secrets from the outcome of a call: from its message, its writes and its stored form.
    fn redact_reply(
        &self,
        redactor: &Redactor,
        made: Result<ModelReply<S>, NodeError>,
    ) -> Result<ModelReply<S>, NodeError> {
        let mut reply = made.map_err(|error| redactor.error(error))?;
        if let Some(response) = reply.response_mut() {
            redactor.message(&mut response.message);
        }
        reply.map_writes(|write| redactor.write(self.state, write))?;
        // This write comes first, so that a layer's replacement of a message takes precedence.
        let stored = self.projection.lift.zip(redactor.stored(&(self.projection.base)(self.state)));
        Ok(match stored {
            Some((lift, write)) => reply.with_first_write(lift(write)),
            None => reply,
        })
    }
}

fn redact_request(redactor: &Redactor, request: &mut ChatRequest) {
    if let Some(messages) = redactor.conversation(&request.messages) {
        request.messages = messages;
    }
}

/// The innermost end of the layers, which calls the model.
struct ModelEndpoint<'a> {
    accounts: Accounts<'a>,
    redactor: Option<Arc<Redactor>>,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> ModelEnd<S, C> for ModelEndpoint<'_> {
    async fn call(&self, mut call: ModelCall<'_, S, C>) -> Result<ModelReply<S>, NodeError> {
        let mut pipeline = call.pipeline();
        let (run, model, sink) = (call.run(), call.model(), call.stream);
        let redactor = self.redactor.as_deref();
        self.accounts.adapt(&mut call.request, model);
        if let Some(redactor) = redactor {
            redact_request(redactor, &mut call.request);
        }
        let accounts = Accounts { needs_cost: call.needs_cost, answers: Some(call.answers), ..self.accounts };
        let outcome = accounts.call_model(run, model, call.request, Some((&mut pipeline, sink))).await;
        let mut outcome = outcome.map_err(|error| match redactor {
            Some(redactor) => redactor.error(error),
            None => error,
        })?;
        if let (Some(redactor), ModelOutcome::Answer(response)) = (redactor, &mut outcome) {
            redactor.message(&mut response.message);
        }
        Ok(ModelReply::from_outcome(outcome))
    }
}

/// Streams the end of an answer, or the whole answer if none of it was streamed.
fn finish_stream<C>(run: &Run<C>, response: &mut ChatResponse, has_started: bool) {
    if !run.wants_messages() {
        return;
    }
    let streamed = StreamedMessage::new(run, response.message.id.clone());
    response.message.id = Some(streamed.id.clone());
    if has_started {
        return streamed.send(run, ChatChunk::Done(response.clone()));
    }
    for chunk in response.clone().into_chunks() {
        streamed.send(run, chunk);
    }
}

type ChunkSink<'a> = Option<(&'a mut ChunkPipeline, &'a StreamState)>;

/// The limits, prices and tools that apply to a request.
#[derive(Clone, Copy)]
struct Accounts<'a> {
    budget: Option<&'a Budget>,
    prices: Option<&'a Prices>,
    /// True if a layer limits the cost.
    needs_cost: bool,
    /// Counts the answer for the layers. `None` without layers.
    answers: Option<&'a AnswerCounter>,
    search: Option<&'a ProviderSearch<'a>>,
}

impl Accounts<'_> {
    /// Adapts a request to the model that receives it, if the provider searches the tools.
    fn adapt(&self, request: &mut ChatRequest, model: &dyn ChatModel) {
        if let Some(search) = self.search {
            search.adapt(request, model);
        }
    }

    async fn call_model<C>(
        &self,
        run: &Run<C>,
        model: &dyn ChatModel,
        mut request: ChatRequest,
        sink: ChunkSink<'_>,
    ) -> Result<ModelOutcome, NodeError> {
        let price = self.price(model)?.map(|price| price.for_request(&request.options));
        if let Some(budget) = self.budget.filter(|budget| !budget.spend_call()) {
            return Ok(ModelOutcome::End(AgentLimit::Budget(budget.used_up().unwrap_or_default())));
        }
        self.adapt(&mut request, model);
        request.messages = paired(&request.messages);
        let left = self.budget.and_then(|budget| budget.longest_answer(price.as_ref()));
        request.options.max_tokens = [left, request.options.max_tokens].into_iter().flatten().min();
        let span = chat_span(model);
        let mut timer = RequestTimer::start(model);
        let answer =
            stream_answer(model, request, run, sink, price.as_ref(), &mut timer).instrument(span.clone()).await;
        timer.finish(&answer);
        let response = answer.map_err(node_error)?;
        let usage = response.message.usage().unwrap_or_default();
        record_usage(&span, &response, usage);
        if let Some(budget) = self.budget {
            budget.add_usage(usage);
        }
        if let Some(answers) = self.answers {
            answers.add(Answers::one(usage));
        }
        check_role(model, &response)?;
        if self.limits_cost() && usage.cost.is_none() {
            tracing::warn!(
                model = model.name(),
                "a model reported neither tokens nor cost: the cost limit does not count this reply"
            );
        }
        Ok(ModelOutcome::Answer(response))
    }

    fn limits_cost(&self) -> bool {
        self.needs_cost || self.budget.is_some_and(Budget::limits_cost)
    }

    /// Returns the price of the model, or `None` if it is unknown. Fails if the price is unknown and a limit needs it.
    fn price(&self, model: &dyn ChatModel) -> Result<Option<ModelPrice>, NodeError> {
        let needs_price = self.limits_cost() && !model.reports_cost();
        let price = match self.prices {
            Some(prices) => prices.price_of(model),
            None if needs_price => Err(UnknownPrice::new(&Prices::published(), model)),
            None => return Ok(None),
        };
        match price {
            Ok(price) => Ok(Some(price)),
            Err(error) if needs_price => Err(NodeError::from_kind(NodeErrorKind::Source(Box::new(error)), false)),
            Err(_) => Ok(None),
        }
    }
}

/// Sets the cost of an answer, unless the model has reported it.
fn set_cost(response: &mut ChatResponse, price: Option<&ModelPrice>) {
    if let Body::Assistant { usage: Some(usage), .. } = &mut response.message.body
        && usage.cost.is_none()
    {
        usage.cost = price.map(|price| price.cost(*usage));
    }
}

/// Repairs the arguments of the calls. If the reply was cut off or withheld, the arguments become text, so that no call
/// is executed, not even a complete call.
fn repair_calls(response: &mut ChatResponse) {
    nesting::repair_arguments(&mut response.message);
    let Some(FinishReason::Length | FinishReason::ContentFilter) = &response.finish else { return };
    let Body::Assistant { calls, .. } = &mut response.message.body else { return };
    for call in calls.iter_mut().filter(|call| !call.args.is_string()) {
        call.args = Value::String(format!("cut off: {}", call.args));
    }
}

fn check_role(model: &dyn ChatModel, response: &ChatResponse) -> Result<(), NodeError> {
    if matches!(response.message.body, Body::Assistant { .. }) {
        return Ok(());
    }
    let reason = "it is not an assistant message".to_owned();
    Err(node_error(ModelError::BadAnswer { model: model.name().to_owned(), reason }))
}

/// Requests the answer, and streams it if the run has a listener. With layers, the caller sends the end of the stream.
async fn stream_answer<C>(
    model: &dyn ChatModel,
    request: ChatRequest,
    run: &Run<C>,
    mut sink: ChunkSink<'_>,
    price: Option<&ModelPrice>,
    timer: &mut RequestTimer<'_>,
) -> Result<ChatResponse, ModelError> {
    run.heartbeat();
    let mut ids = CallIds::default();
    if !run.wants_messages() {
        let mut response = model.chat(request).await?;
        repair_calls(&mut response);
        ids.replace_in_answer(&mut response.message);
        set_cost(&mut response, price);
        return Ok(response);
    }
    let mut chunks = model.stream(request).await?;
    let streamed = StreamedMessage::new(run, None);
    while let Some(chunk) = chunks.next().await {
        let mut chunk = chunk?;
        timer.note_chunk();
        run.heartbeat();
        ids.replace_in_chunk(&mut chunk);
        if let ChatChunk::Done(response) = &mut chunk {
            response.message.id = Some(streamed.id.clone());
            repair_calls(response);
            set_cost(response, price);
        }
        let Some((pipeline, stream)) = &mut sink else {
            streamed.send(run, chunk.clone());
            match chunk {
                ChatChunk::Done(response) => return Ok(response),
                _ => continue,
            }
        };
        let mut send = |chunk| {
            stream.start();
            streamed.send(run, chunk);
        };
        match chunk {
            ChatChunk::Done(response) => {
                pipeline.finish(&mut send);
                return Ok(response);
            }
            chunk => pipeline.push(chunk, &mut send),
        }
    }
    let reason = "the stream ended before the reply was complete".to_owned();
    Err(ModelError::BadAnswer { model: model.name().to_owned(), reason })
}

struct StreamedMessage {
    id: String,
    task: Uuid,
}

impl StreamedMessage {
    fn new<C>(run: &Run<C>, id: Option<String>) -> Self {
        Self { id: id.unwrap_or_else(|| Uuid::new_v4().to_string()), task: run.task_id() }
    }

    fn send<C>(&self, run: &Run<C>, chunk: ChatChunk) {
        run.stream_chunk(&self.id, self.task, chunk);
    }
}

pub(crate) fn node_error(error: ModelError) -> NodeError {
    let transient = error.is_transient();
    NodeError::from_kind(NodeErrorKind::Source(Box::new(error)), transient)
}

fn chat_span(model: &dyn ChatModel) -> Span {
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
        gen_ai.usage.reasoning.output_tokens = field::Empty,
        gen_ai.usage.cost = field::Empty,
    )
}

fn record_usage(span: &Span, response: &ChatResponse, usage: Usage) {
    if let Some(model) = &response.model {
        span.record("gen_ai.response.model", model.as_str());
    }
    span.record("gen_ai.usage.input_tokens", usage.input_tokens);
    span.record("gen_ai.usage.output_tokens", usage.output_tokens);
    let parts = [
        ("cache_read.input", usage.cached_tokens),
        ("cache_creation.input", usage.cache_write_tokens),
        ("reasoning.output", usage.reasoning_tokens),
    ];
    for (what, tokens) in parts.into_iter().filter(|(_, tokens)| *tokens > 0) {
        span.record(format!("gen_ai.usage.{what}_tokens").as_str(), tokens);
    }
    if let Some(cost) = usage.cost {
        span.record("gen_ai.usage.cost", cost.dollars());
    }
}
