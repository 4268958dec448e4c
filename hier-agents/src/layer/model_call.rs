//! Model calls as layers see them, and their outcomes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::answers::AnswerCounter;
use super::chunks::{ChunkFilter, ChunkPipeline, MakeFilter, StreamState};
use super::counters::CallCounters;
use super::writes::LayerWrites;
use crate::model::{ChatModel, ChatRequest, OutputSpec, ToolSpec};
use crate::state::turn::AgentLimit;
use hier_checkpoint::message::ChatResponse;
use hier_core::NodeError;
use hier_core::Run;
use hier_core::state::{Update, Values};

/// The circumstances of a model or tool call: the agent that makes the call, the run and the state.
pub struct CallSite<'a, S, C> {
    pub(super) state: &'a S,
    pub(super) run: &'a Run<C>,
    pub(super) agent: &'a str,
    /// The counters of an inherited layer in this process.
    pub(super) counters: Option<&'a CallCounters>,
    /// True if the state belongs to an agent, which stores counts.
    pub(super) is_stored: bool,
    /// The key of the layer that is called. The key is equal in every process.
    pub(super) key: &'a str,
}

impl<S, C> Clone for CallSite<'_, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, C> Copy for CallSite<'_, S, C> {}

impl<S, C> fmt::Debug for CallSite<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallSite").field("agent", &self.agent).field("layer", &self.key).finish_non_exhaustive()
    }
}

impl<'a, S, C> CallSite<'a, S, C> {
    /// Returns the state at the start of the superstep.
    ///
    /// An [inherited](super::Inherited) layer receives the [`BaseState`] of the calling agent. If a custom node asks a
    /// model, the layer receives the default [`BaseState`]. For a `tools![…]` node, it receives a [`BaseState`] with
    /// only the conversation.
    ///
    /// [`BaseState`]: crate::BaseState
    pub fn state(&self) -> &'a S {
        self.state
    }

    /// Returns the run. A layer can use the run to read the context and the configuration, to make durable steps, and
    /// to emit events.
    pub fn run(&self) -> &'a Run<C> {
        self.run
    }

    /// Returns the name of the agent or graph that makes the call.
    pub fn agent(&self) -> &'a str {
        self.agent
    }

    pub(super) fn with_state<'b, T, D>(&self, state: &'b T, run: &'b Run<D>) -> CallSite<'b, T, D>
    where
        'a: 'b,
    {
        let Self { agent, counters, is_stored, key, .. } = *self;
        CallSite { state, run, agent, counters, is_stored, key }
    }
}

/// The request for a typed answer. If the model supports output schemas, the request has a schema. Otherwise it has a
/// tool that gives the answer.
#[derive(Clone, Debug)]
pub(crate) struct OutputTool {
    pub(crate) shape: OutputSpec,
    /// The tool that gives the answer.
    pub(crate) tool: ToolSpec,
}

impl OutputTool {
    /// Replaces the answer tool by the schema, or the schema by the answer tool, if this model requires it. Keeps the
    /// other tools, which a layer may have replaced.
    pub(crate) fn adapt(&self, request: &mut ChatRequest, model: &dyn ChatModel) {
        let is_native = model.native_output(&self.shape);
        let has_tool = request.tools.iter().any(|tool| tool.name == self.tool.name);
        if is_native == request.output.is_some() && is_native != has_tool {
            return;
        }
        let others = request.tools.iter().filter(|tool| tool.name != self.tool.name).cloned();
        request.tools = others.chain((!is_native).then(|| self.tool.clone())).collect();
        request.output = is_native.then(|| self.shape.clone());
    }
}

/// A model call that passes through layers. A layer that passes the call on several times must clone it.
pub struct ModelCall<'a, S, C> {
    /// The request. If a layer changes the request, the model receives the changed request, but the state does not
    /// change.
    pub request: ChatRequest,
    pub(super) site: CallSite<'a, S, C>,
    pub(super) model: &'a dyn ChatModel,
    pub(super) output: Option<&'a OutputTool>,
    pub(crate) needs_cost: bool,
    pub(crate) answers: &'a AnswerCounter,
    pub(crate) stream: &'a StreamState,
    pub(super) filters: Vec<MakeFilter>,
}

impl<S, C> Clone for ModelCall<'_, S, C> {
    fn clone(&self) -> Self {
        let (request, filters) = (self.request.clone(), self.filters.clone());
        let Self { site, model, output, needs_cost, answers, stream, .. } = *self;
        Self { request, site, model, output, needs_cost, answers, stream, filters }
    }
}

impl<S, C> fmt::Debug for ModelCall<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelCall").field("site", &self.site).field("request", &self.request).finish_non_exhaustive()
    }
}

impl<'a, S, C> ModelCall<'a, S, C> {
    /// Returns the agent, the run and the state of the call.
    pub fn site(&self) -> CallSite<'a, S, C> {
        self.site
    }

    /// Returns the state at the start of the superstep. See [`CallSite::state`].
    pub fn state(&self) -> &'a S {
        self.site.state
    }

    /// Returns the run. See [`CallSite::run`].
    pub fn run(&self) -> &'a Run<C> {
        self.site.run
    }

    /// Returns the context of the run.
    pub fn context(&self) -> &'a C {
        self.site.run.context()
    }

    /// Returns the model that receives the request.
    pub fn model(&self) -> &'a dyn ChatModel {
        self.model
    }

    /// Sets the model that receives the request.
    #[must_use]
    pub fn with_model<'b>(self, model: &'b dyn ChatModel) -> ModelCall<'b, S, C>
    where
        'a: 'b,
    {
        let mut call: ModelCall<'b, S, C> = ModelCall { model, ..self };
        if let Some(output) = call.output {
            output.adapt(&mut call.request, model);
        }
        call
    }

    /// Returns true if the client has already received a chunk of a reply to this call. If the layer then passes the
    /// call on again, the client receives a second reply.
    pub fn has_streamed(&self) -> bool {
        self.stream.has_started()
    }

    /// Adds a filter for streamed chunks. The function `make` creates a new filter for each model request.
    #[must_use]
    pub fn filter_chunks<F: ChunkFilter>(mut self, make: impl Fn() -> F + Send + Sync + 'static) -> Self {
        self.filters.push(Arc::new(move || Box::new(make())));
        self
    }

    pub(crate) fn new(
        request: ChatRequest,
        site: CallSite<'a, S, C>,
        model: &'a dyn ChatModel,
        output: Option<&'a OutputTool>,
        (answers, stream): (&'a AnswerCounter, &'a StreamState),
    ) -> Self {
        Self { request, site, model, output, needs_cost: false, answers, stream, filters: Vec::new() }
    }

    pub(crate) fn pipeline(&self) -> ChunkPipeline {
        ChunkPipeline::new(&self.filters)
    }

    pub(super) fn at_site<'b, T, D>(self, site: CallSite<'b, T, D>) -> ModelCall<'b, T, D>
    where
        'a: 'b,
    {
        let Self { request, model, output, needs_cost, answers, stream, filters, .. } = self;
        ModelCall { request, site, model, output, needs_cost, answers, stream, filters }
    }
}

/// The outcome of a model call.
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "a call of a model has one outcome")]
pub enum ModelOutcome {
    /// The reply of the model, or of a layer that replied instead of the model.
    Answer(ChatResponse),
    /// The limit at which a layer ends the agent instead of asking a model. If a custom node made the request, the
    /// request fails.
    End(AgentLimit),
}

/// The result of a model call, with the writes that layers have added.
pub struct ModelReply<S: Values> {
    /// The outcome of the call.
    pub outcome: ModelOutcome,
    pub(super) writes: LayerWrites<S>,
    /// Writes to a state of another type, which pass through layers over this state.
    pub(super) carried: Vec<Box<dyn Any + Send + Sync>>,
}

impl<S: Values> fmt::Debug for ModelReply<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelReply")
            .field("outcome", &self.outcome)
            .field("writes", &self.writes)
            .finish_non_exhaustive()
    }
}

impl<S: Values> ModelReply<S> {
    /// Creates the result of a model call to which the model, or the layer itself, replied with `response`.
    pub fn answer(response: ChatResponse) -> Self {
        Self::from_outcome(ModelOutcome::Answer(response))
    }

    /// Creates the result of a model call that ends the agent with [`AgentEnd::Limit`](crate::AgentEnd::Limit).
    pub fn end(limit: AgentLimit) -> Self {
        Self::from_outcome(ModelOutcome::End(limit))
    }

    pub(crate) fn from_outcome(outcome: ModelOutcome) -> Self {
        Self { outcome, writes: Vec::new(), carried: Vec::new() }
    }

    pub(crate) fn into_parts(self) -> (ModelOutcome, LayerWrites<S>) {
        (self.outcome, self.writes)
    }

    /// Adds the writes in `update` to this result. hier stores them in the agent's state together with the reply.
    ///
    /// A channel without a reducer accepts only one write in a superstep. If another layer or the agent itself also
    /// writes the channel, the run fails.
    #[must_use]
    pub fn write(mut self, update: impl Update<State = S>) -> Self {
        self.writes.extend(update.into_writes().into_iter().map(|write| (None, write)));
        self
    }

    pub(crate) fn map_writes(
        &mut self,
        mut change: impl FnMut(S::Write) -> Result<S::Write, NodeError>,
    ) -> Result<(), NodeError> {
        let changed = std::mem::take(&mut self.writes).into_iter().map(|(key, write)| Ok((key, change(write)?)));
        self.writes = changed.collect::<Result<_, NodeError>>()?;
        Ok(())
    }

    pub(crate) fn with_first_write(mut self, write: S::Write) -> Self {
        self.writes.insert(0, (None, write));
        self
    }

    /// Returns the reply, or `None` if the agent ends at a limit.
    pub fn response(&self) -> Option<&ChatResponse> {
        match &self.outcome {
            ModelOutcome::Answer(response) => Some(response),
            ModelOutcome::End(_) => None,
        }
    }

    /// Returns a mutable reference to the reply, or `None` if the agent ends at a limit.
    pub fn response_mut(&mut self) -> Option<&mut ChatResponse> {
        match &mut self.outcome {
            ModelOutcome::Answer(response) => Some(response),
            ModelOutcome::End(_) => None,
        }
    }

    /// Returns the text of the reply, or `None` if the agent ends at a limit.
    pub fn text(&self) -> Option<String> {
        self.response().map(ChatResponse::text)
    }
}
