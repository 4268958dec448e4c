//! Layers that agents inherit from those around them, and the path of a call through all layers.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::Value;

use super::call::{CallSite, ModelCall, ModelReply, Signed};
use super::chain::{ModelEnd, NextModel};
use super::listed::Listed;
use super::tool::{NextTool, ToolEnd, ToolReply, ToolUse};
use super::{Layer, Redact, Verdict};
use crate::state::base::{BaseState, BaseStateWrite};
use hier_checkpoint::message::ToolCall;
use hier_checkpoint::sync::lock;
use hier_core::NodeError;
use hier_core::Run;
use hier_core::graph::Command;
use hier_core::internals::Repeat;
use hier_core::state::{Contains, Values};

/// Counters of inherited layers, shared by the agents of this process.
#[derive(Debug, Default)]
pub(super) struct Tally(Mutex<HashMap<String, u64>>);

impl Tally {
    /// Returns the count: the stored one, or that of this process if it is higher.
    pub(super) fn get(&self, key: &str, stored: u64) -> u64 {
        lock(&self.0).get(key).copied().unwrap_or_default().max(stored)
    }

    /// Adds to a count.
    pub(super) fn add(&self, key: &str, stored: u64, more: u64) {
        let mut counts = lock(&self.0);
        let count = counts.entry(key.to_owned()).or_default();
        *count = (*count).max(stored).saturating_add(more);
    }

    /// Increments a count if it is below `most`. Returns false otherwise.
    pub(super) fn take(&self, key: &str, stored: u64, most: u64) -> bool {
        let mut counts = lock(&self.0);
        let count = counts.entry(key.to_owned()).or_default();
        *count = (*count).max(stored);
        let is_left = *count < most;
        *count = count.saturating_add(u64::from(is_left));
        is_left
    }
}

/// The layers that an agent passes to the agents below.
pub(crate) struct Heirs {
    /// The layers that the agent itself inherits.
    above: Arc<[Listed<BaseState, ()>]>,
    /// The inherited layers, and those that the agent passes on.
    all: Arc<[Listed<BaseState, ()>]>,
    tally: Arc<Tally>,
}

const NONE: &[Listed<BaseState, ()>] = &[];

/// The inherited layers that a call passes through.
#[derive(Clone, Copy)]
pub(crate) struct Above<'a> {
    layers: &'a [Listed<BaseState, ()>],
    tally: Option<&'a Tally>,
}

impl fmt::Debug for Above<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Above").field(&self.layers).finish()
    }
}

impl<'a> Above<'a> {
    pub(super) fn listed(self) -> &'a [Listed<BaseState, ()>] {
        self.layers
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }
}

impl Heirs {
    /// Adds the agent's own layers, in its context, to those that it inherits.
    pub(crate) fn extended<C: Send + Sync + 'static>(
        outer: Option<&Self>,
        own: &[Listed<BaseState, C>],
        context: &Arc<C>,
    ) -> Self {
        let above: Arc<[_]> = outer.map_or_else(|| Arc::from([]), |outer| outer.all.clone());
        let own = own.iter().map(|Listed { key, layer }| {
            let layer: Arc<dyn Layer<BaseState, ()>> =
                Arc::new(InContext { layer: layer.clone(), context: context.clone() });
            Listed { key: key.clone(), layer }
        });
        let all = above.iter().cloned().chain(own).collect();
        Self { above, all, tally: outer.map(|outer| outer.tally.clone()).unwrap_or_default() }
    }

    /// Returns the inherited layers for a call in this run. If the calling agent passes layers on, this excludes its
    /// own.
    pub(crate) fn of<C>(run: &Run<C>, passes_on: bool) -> Above<'_> {
        let heirs = run.scope().and_then(|scope| scope.downcast_ref::<Self>());
        match heirs {
            Some(heirs) if passes_on => Above { layers: &heirs.above, tally: Some(&heirs.tally) },
            Some(heirs) => Above { layers: &heirs.all, tally: Some(&heirs.tally) },
            None => Above { layers: NONE, tally: None },
        }
    }
}

/// The view of inherited layers on a state.
pub(crate) struct Lens<S: Values> {
    pub(crate) base: fn(&S) -> Cow<'_, BaseState>,
    /// None if the state does not store their writes.
    pub(crate) lift: Option<fn(BaseStateWrite) -> S::Write>,
}

impl<S: Values + Contains<BaseState>> Lens<S> {
    /// Returns the projection of an agent's state.
    pub(crate) fn part() -> Self {
        Self { base: |state| Cow::Borrowed(state.part()), lift: Some(<S as Contains<BaseState>>::lift) }
    }
}

impl<S: Values> Lens<S> {
    fn raise(&self, signed: Signed<BaseState>) -> impl Iterator<Item = (Option<Arc<str>>, S::Write)> {
        let lift = self.lift;
        signed.into_iter().filter_map(move |(key, write)| Some((key, lift?(write))))
    }
}

/// Creates a call site without a layer.
pub(crate) fn site<'a, S: Values, C>(
    state: &'a S,
    run: &'a Run<C>,
    agent: &'a str,
    above: Above<'a>,
    lens: &Lens<S>,
) -> CallSite<'a, S, C> {
    CallSite { state, run, agent, tally: above.tally, is_stored: lens.lift.is_some(), key: "" }
}

/// Calls a model through the inherited layers and the agent's own.
pub(crate) async fn around_model<S, C>(
    (above, own): (Above<'_>, &[Listed<S, C>]),
    lens: &Lens<S>,
    call: ModelCall<'_, S, C>,
    end: &dyn ModelEnd<S, C>,
) -> Result<ModelReply<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let (own_repeat, repeat) = (Repeat::default(), Repeat::default());
    let next = NextModel { layers: own, end, repeat: &own_repeat };
    if above.is_empty() {
        return next.call(call).await;
    }
    let (base, run) = ((lens.base)(call.site.state), call.site.run.in_context(Arc::new(())));
    let (inner, site) = (Own { next, site: call.site }, call.site.seen(&*base, &run));
    let ModelReply { reply, writes, carried } =
        NextModel { layers: above.layers, end: &inner, repeat: &repeat }.call(call.at(site)).await?;
    let own = carried.and_then(|carried| carried.downcast::<Signed<S>>().ok());
    let writes = own.map(|own| *own).unwrap_or_default().into_iter().chain(lens.raise(writes)).collect();
    Ok(ModelReply { reply, writes, carried: None })
}

/// Calls a tool through the inherited layers and the agent's own.
pub(crate) async fn around_tool<S, C>(
    (above, own): (Above<'_>, &[Listed<S, C>]),
    lens: &Lens<S>,
    site: CallSite<'_, S, C>,
    call: ToolCall,
    end: &dyn ToolEnd<S, C>,
) -> Result<ToolReply<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let (own_repeat, repeat) = (Repeat::default(), Repeat::default());
    let (next, call) = (NextTool { layers: own, end, repeat: &own_repeat }, ToolUse { call, site });
    if above.is_empty() {
        return next.call(call).await;
    }
    let (base, run) = ((lens.base)(site.state), site.run.in_context(Arc::new(())));
    let (inner, site) = (Own { next, site }, site.seen(&*base, &run));
    let reply = NextTool { layers: above.layers, end: &inner, repeat: &repeat }.call(call.at(site)).await?;
    let own = reply.carried.and_then(|carried| carried.downcast::<Effects<S>>().ok());
    let (rest, own) = own.map(|own| *own).unwrap_or_default();
    let writes = own.into_iter().chain(lens.raise(reply.writes)).collect();
    Ok(ToolReply { said: reply.said, writes, rest, carried: None })
}

/// The part of a tool's result that layers of another state cannot see.
type Effects<S> = (Option<Command<S>>, Signed<S>);

/// Asks all layers whether the call may be made. Returns the call with revised arguments, or the reason for the denial.
pub(crate) async fn check<S, C>(
    (above, own): (Above<'_>, &[Listed<S, C>]),
    lens: &Lens<S>,
    site: CallSite<'_, S, C>,
    mut call: ToolCall,
) -> Result<Result<ToolCall, String>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    if !above.is_empty() {
        let (base, run) = ((lens.base)(site.state), site.run.in_context(Arc::new(())));
        for listed in above.layers {
            match asked(listed, call, site.seen(&*base, &run)).await? {
                Ok(revised) => call = revised,
                Err(reason) => return Ok(Err(reason)),
            }
        }
    }
    for listed in own {
        match asked(listed, call, site).await? {
            Ok(revised) => call = revised,
            Err(reason) => return Ok(Err(reason)),
        }
    }
    Ok(Ok(call))
}

async fn asked<S, C>(
    listed: &Listed<S, C>,
    call: ToolCall,
    mut site: CallSite<'_, S, C>,
) -> Result<Result<ToolCall, String>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    site.key = &listed.key;
    Ok(match listed.layer.check(&call, site).await? {
        Verdict::Allow => Ok(call),
        Verdict::Deny(reason) => Err(reason),
        Verdict::Revise(args @ Value::Object(_)) => Ok(ToolCall { args, ..call }),
        Verdict::Revise(_) => {
            return Err(NodeError::permanent(format!(
                "the layer `{}` revised the arguments of `{}` to a value that is not a JSON object",
                listed.key, call.name
            )));
        }
    })
}

/// Continues from the inherited layers to the agent's own.
struct Own<'a, N, S, C> {
    next: N,
    site: CallSite<'a, S, C>,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> ModelEnd<BaseState, ()> for Own<'_, NextModel<'_, S, C>, S, C> {
    async fn call(&self, call: ModelCall<'_, BaseState, ()>) -> Result<ModelReply<BaseState>, NodeError> {
        let ModelReply { reply, writes, .. } = self.next.call(call.at(self.site)).await?;
        Ok(ModelReply { carried: Some(Box::new(writes)), ..ModelReply::of(reply) })
    }

    fn compacts(&self) -> bool {
        self.next.compacts()
    }
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> ToolEnd<BaseState, ()> for Own<'_, NextTool<'_, S, C>, S, C> {
    async fn call(&self, call: ToolUse<'_, BaseState, ()>) -> Result<ToolReply<BaseState>, NodeError> {
        let ToolReply { said, writes, rest, .. } = self.next.call(call.at(self.site)).await?;
        let effects: Effects<S> = (rest, writes);
        Ok(ToolReply { said, writes: Vec::new(), rest: None, carried: Some(Box::new(effects)) })
    }
}

/// A layer in the context of the agent that lists it.
struct InContext<C> {
    layer: Arc<dyn Layer<BaseState, C>>,
    context: Arc<C>,
}

/// Continues in the context of the caller.
struct Back<'a, N> {
    next: N,
    site: CallSite<'a, BaseState, ()>,
}

#[async_trait]
impl<C: Send + Sync + 'static> Layer<BaseState, ()> for InContext<C> {
    fn name(&self) -> Cow<'static, str> {
        self.layer.name()
    }

    fn compacts(&self) -> bool {
        self.layer.compacts()
    }

    fn redacts(&self) -> Option<&Redact> {
        self.layer.redacts()
    }

    async fn model_call(
        &self,
        call: ModelCall<'_, BaseState, ()>,
        next: NextModel<'_, BaseState, ()>,
    ) -> Result<ModelReply<BaseState>, NodeError> {
        let run = call.site.run.in_context(self.context.clone());
        let back = Back { next, site: call.site };
        let site = call.site.seen(call.site.state, &run);
        self.layer.model_call(call.at(site), NextModel { layers: &[], end: &back, repeat: &Repeat::default() }).await
    }

    async fn check(&self, call: &ToolCall, site: CallSite<'_, BaseState, ()>) -> Result<Verdict, NodeError> {
        let run = site.run.in_context(self.context.clone());
        self.layer.check(call, site.seen(site.state, &run)).await
    }

    async fn tool_call(
        &self,
        call: ToolUse<'_, BaseState, ()>,
        next: NextTool<'_, BaseState, ()>,
    ) -> Result<ToolReply<BaseState>, NodeError> {
        let run = call.site.run.in_context(self.context.clone());
        let back = Back { next, site: call.site };
        let site = call.site.seen(call.site.state, &run);
        self.layer.tool_call(call.at(site), NextTool { layers: &[], end: &back, repeat: &Repeat::default() }).await
    }
}

#[async_trait]
impl<C: Send + Sync + 'static> ModelEnd<BaseState, C> for Back<'_, NextModel<'_, BaseState, ()>> {
    async fn call(&self, call: ModelCall<'_, BaseState, C>) -> Result<ModelReply<BaseState>, NodeError> {
        self.next.call(call.at(self.site)).await
    }

    fn compacts(&self) -> bool {
        self.next.compacts()
    }
}

#[async_trait]
impl<C: Send + Sync + 'static> ToolEnd<BaseState, C> for Back<'_, NextTool<'_, BaseState, ()>> {
    async fn call(&self, call: ToolUse<'_, BaseState, C>) -> Result<ToolReply<BaseState>, NodeError> {
        self.next.call(call.at(self.site)).await
    }
}
