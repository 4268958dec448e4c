//! A call of a model as layers see it, and what comes of it.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::heirs::Tally;
use super::pieces::{Line, MakePieces, Pieces};
use crate::model::{ChatModel, ChatRequest, OutputSpec, ToolSpec};
use crate::state::turn::AgentLimit;
use hier_checkpoint::message::ChatResponse;
use hier_core::NodeError;
use hier_core::Run;
use hier_core::state::{Update, Values};

/// Where a call is made: by which agent, in which run and state.
pub struct CallSite<'a, S, C> {
    pub(super) state: &'a S,
    pub(super) run: &'a Run<C>,
    pub(super) agent: &'a str,
    /// What is counted in this process, where a layer is inherited.
    pub(super) tally: Option<&'a Tally>,
    /// Whether the state is an agent's, in which counts are stored.
    pub(super) is_stored: bool,
    /// The layer that is called: the same in every process.
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
    /// The state as of the start of the step: the agent's; in an [inherited](super::Inherited) layer the [`BaseState`] part of that of
    /// the agent that makes the call. A node that asks a model has none: it is a fresh one then, with the conversation of a node
    /// `tools![…]`.
    ///
    /// [`BaseState`]: crate::BaseState
    pub fn state(&self) -> &'a S {
        self.state
    }

    /// The run: context, configuration, steps that are done once, events.
    pub fn run(&self) -> &'a Run<C> {
        self.run
    }

    /// The agent or graph that makes the call.
    pub fn agent(&self) -> &'a str {
        self.agent
    }

    /// The same place, seen in another state and run.
    pub(super) fn seen<'b, T, D>(&self, state: &'b T, run: &'b Run<D>) -> CallSite<'b, T, D>
    where
        'a: 'b,
    {
        let Self { agent, tally, is_stored, key, .. } = *self;
        CallSite { state, run, agent, tally, is_stored, key }
    }
}

/// What a model is told of the answer that an agent is for: a shape, if it keeps to one itself, else a tool.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) shape: OutputSpec,
    /// The tools beside the shape.
    pub(crate) tools: Arc<[ToolSpec]>,
    /// The tools with the one by which the answer is given.
    pub(crate) all: Arc<[ToolSpec]>,
}

impl Offer {
    /// The request as this model takes it, unless its tools are others already.
    pub(crate) fn fit(&self, request: &mut ChatRequest, model: &dyn ChatModel) {
        let (from, to, output) = if model.native_output(&self.shape) {
            (&self.all, &self.tools, Some(&self.shape))
        } else {
            (&self.tools, &self.all, None)
        };
        if Arc::ptr_eq(&request.tools, from) {
            request.tools = to.clone();
        }
        request.output = output.cloned();
    }
}

/// What was told of an answer so far.
#[derive(Debug, Default)]
pub(crate) struct Voice {
    spoken: AtomicBool,
}

impl Voice {
    pub(crate) fn speak(&self) {
        self.spoken.store(true, Ordering::Relaxed);
    }

    pub(crate) fn has_spoken(&self) -> bool {
        self.spoken.load(Ordering::Relaxed)
    }
}

/// A call of a model, on its way to it. A clone is the same call once more: for a layer that calls several times.
pub struct ModelCall<'a, S, C> {
    /// What the model is asked. What a layer changes here is sent, and stored nowhere.
    pub request: ChatRequest,
    pub(super) site: CallSite<'a, S, C>,
    pub(super) model: &'a dyn ChatModel,
    pub(super) offer: Option<&'a Offer>,
    pub(super) voice: &'a Voice,
    pub(super) pieces: Vec<MakePieces>,
}

impl<S, C> Clone for ModelCall<'_, S, C> {
    fn clone(&self) -> Self {
        let (request, pieces) = (self.request.clone(), self.pieces.clone());
        Self { request, pieces, site: self.site, model: self.model, offer: self.offer, voice: self.voice }
    }
}

impl<S, C> fmt::Debug for ModelCall<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelCall").field("site", &self.site).field("request", &self.request).finish_non_exhaustive()
    }
}

impl<'a, S, C> ModelCall<'a, S, C> {
    /// Where the call is made.
    pub fn site(&self) -> CallSite<'a, S, C> {
        self.site
    }

    /// The state as of the start of the step: see [`CallSite::state`].
    pub fn state(&self) -> &'a S {
        self.site.state
    }

    /// The run: see [`CallSite::run`].
    pub fn run(&self) -> &'a Run<C> {
        self.site.run
    }

    /// The context of the run.
    pub fn context(&self) -> &'a C {
        self.site.run.context()
    }

    /// The model that is asked.
    pub fn model(&self) -> &'a dyn ChatModel {
        self.model
    }

    /// The same call of another model.
    #[must_use]
    pub fn with_model<'b>(self, model: &'b dyn ChatModel) -> ModelCall<'b, S, C>
    where
        'a: 'b,
    {
        let mut call: ModelCall<'b, S, C> = ModelCall { model, ..self };
        if let Some(offer) = call.offer {
            offer.fit(&mut call.request, model);
        }
        call
    }

    /// Whether somebody has been told a piece of the answer already. Who asks again then says things twice.
    pub fn has_spoken(&self) -> bool {
        self.voice.has_spoken()
    }

    /// The same call, whose pieces go out through what this makes: anew each time that a model is asked.
    #[must_use]
    pub fn through<P: Pieces>(mut self, make: impl Fn() -> P + Send + Sync + 'static) -> Self {
        self.pieces.push(Arc::new(move || Box::new(make())));
        self
    }

    /// A call that no layer has seen.
    pub(crate) fn new(
        request: ChatRequest,
        site: CallSite<'a, S, C>,
        model: &'a dyn ChatModel,
        offer: Option<&'a Offer>,
        voice: &'a Voice,
    ) -> Self {
        Self { request, site, model, offer, voice, pieces: Vec::new() }
    }

    /// What the pieces of one answer go through.
    pub(crate) fn line(&self) -> Line {
        Line::new(&self.pieces)
    }

    pub(crate) fn voice(&self) -> &'a Voice {
        self.voice
    }

    /// The same call, seen in another place.
    pub(super) fn at<'b, T, D>(self, site: CallSite<'b, T, D>) -> ModelCall<'b, T, D>
    where
        'a: 'b,
    {
        let Self { request, model, offer, voice, pieces, .. } = self;
        ModelCall { request, site, model, offer, voice, pieces }
    }
}

/// What comes of a call of a model.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Reply {
    /// The answer.
    Answer(ChatResponse),
    /// The model is not asked: the agent is ended at this limit. A question of a node fails.
    End(AgentLimit),
}

/// What comes of a call of a model, and what layers write into the state together with it.
pub struct ModelReply<S: Values> {
    /// What comes of it.
    pub reply: Reply,
    pub(super) writes: Signed<S>,
    /// The writes of a state of another type, on their way through layers of this one.
    pub(super) carried: Option<Box<dyn Any + Send>>,
}

/// Writes, each with the layer that makes it; none: it returns it just now.
pub(crate) type Signed<S> = Vec<(Option<Arc<str>>, <S as Values>::Write)>;

impl<S: Values> fmt::Debug for ModelReply<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelReply").field("reply", &self.reply).field("writes", &self.writes).finish_non_exhaustive()
    }
}

impl<S: Values> ModelReply<S> {
    /// This answer.
    pub fn answer(response: ChatResponse) -> Self {
        Self::of(Reply::Answer(response))
    }

    /// The agent is ended at this limit.
    pub fn end(limit: AgentLimit) -> Self {
        Self::of(Reply::End(limit))
    }

    pub(crate) fn of(reply: Reply) -> Self {
        Self { reply, writes: Vec::new(), carried: None }
    }

    /// What comes of it, and the writes of layers.
    pub(crate) fn into_parts(self) -> (Reply, Signed<S>) {
        (self.reply, self.writes)
    }

    /// The same, and what the layer writes: stored together with what the answer leads to. In a channel without a reducer there
    /// may be one write, of one layer: another one, or the agent's own, is an error.
    #[must_use]
    pub fn write(mut self, update: impl Update<State = S>) -> Self {
        self.writes.extend(update.into_writes().into_iter().map(|write| (None, write)));
        self
    }

    /// Changes each write of the layers.
    pub(crate) fn map_writes(
        &mut self,
        mut change: impl FnMut(S::Write) -> Result<S::Write, NodeError>,
    ) -> Result<(), NodeError> {
        let changed = std::mem::take(&mut self.writes).into_iter().map(|(key, write)| Ok((key, change(write)?)));
        self.writes = changed.collect::<Result<_, NodeError>>()?;
        Ok(())
    }

    /// Inserts a write before those of the layers.
    pub(crate) fn written_before(mut self, write: S::Write) -> Self {
        self.writes.insert(0, (None, write));
        self
    }

    /// The answer, if there is one.
    pub fn response(&self) -> Option<&ChatResponse> {
        match &self.reply {
            Reply::Answer(response) => Some(response),
            Reply::End(_) => None,
        }
    }

    /// The answer, if there is one, to be changed.
    pub fn response_mut(&mut self) -> Option<&mut ChatResponse> {
        match &mut self.reply {
            Reply::Answer(response) => Some(response),
            Reply::End(_) => None,
        }
    }

    /// The text of the answer, if there is one.
    pub fn text(&self) -> Option<String> {
        self.response().map(ChatResponse::text)
    }
}

/// Says of writes that are new whose they are.
pub(super) fn sign<S: Values>(writes: &mut Signed<S>, key: &Arc<str>) {
    for (signed, _) in writes.iter_mut().filter(|(signed, _)| signed.is_none()) {
        *signed = Some(key.clone());
    }
}
