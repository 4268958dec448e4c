//! The path of a call through all layers: the inherited ones, then the agent's own.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::model_call::{CallSite, ModelCall, ModelReply};
use super::outer::OuterLayers;
use super::tool_call::{ToolReply, ToolUse};
use super::writes::LayerWrites;
use super::{ListedLayer, ModelEnd, NextModel, NextTool, ToolEnd, Verdict};
use crate::state::base::{BaseState, BaseStateWrite};
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::Run;
use hier_core::graph::Command;
use hier_core::internals::Repeat;
use hier_core::state::{Contains, Values};

/// All layers around a call: the inherited layers, and the caller's own layers.
pub(crate) struct CallLayers<'a, S, C> {
    pub(crate) outer: OuterLayers<'a>,
    pub(crate) own: &'a [ListedLayer<S, C>],
}

impl<S, C> Clone for CallLayers<'_, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S, C> Copy for CallLayers<'_, S, C> {}

impl<'a, S: Values, C> CallLayers<'a, S, C> {
    pub(crate) fn is_empty(&self) -> bool {
        self.outer.layers.is_empty() && self.own.is_empty()
    }

    /// Creates a call site that does not belong to a layer yet.
    pub(crate) fn call_site<'b>(
        &self,
        state: &'b S,
        run: &'b Run<C>,
        agent: &'b str,
        projection: &StateProjection<S>,
    ) -> CallSite<'b, S, C>
    where
        'a: 'b,
    {
        let counters = self.outer.counters;
        CallSite { state, run, agent, counters, is_stored: projection.lift.is_some(), key: "" }
    }
}

/// The view of inherited layers on a state.
pub(crate) struct StateProjection<S: Values> {
    pub(crate) base: fn(&S) -> Cow<'_, BaseState>,
    /// `None` if the state does not store the writes of inherited layers.
    pub(crate) lift: Option<fn(BaseStateWrite) -> S::Write>,
}

impl<S: Values + Contains<BaseState>> StateProjection<S> {
    pub(crate) fn of_agent() -> Self {
        Self { base: |state| Cow::Borrowed(state.part()), lift: Some(<S as Contains<BaseState>>::lift) }
    }
}

impl<S: Values> StateProjection<S> {
    fn lift_all(&self, signed: LayerWrites<BaseState>) -> impl Iterator<Item = (Option<Arc<str>>, S::Write)> {
        let lift = self.lift;
        signed.into_iter().filter_map(move |(key, write)| Some((key, lift?(write))))
    }
}

/// Calls a model through the inherited layers and the agent's own.
pub(crate) async fn around_model<S, C>(
    layers: CallLayers<'_, S, C>,
    projection: &StateProjection<S>,
    call: ModelCall<'_, S, C>,
    end: &dyn ModelEnd<S, C>,
) -> Result<ModelReply<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let (own_repeat, repeat) = (Repeat::default(), Repeat::default());
    let next = NextModel { layers: layers.own, end, repeat: &own_repeat };
    if layers.outer.layers.is_empty() {
        return next.call(call).await;
    }
    let (base, run) = ((projection.base)(call.site.state), call.site.run.in_context(Arc::new(())));
    let (inner, site) = (IntoOwnLayers { next, site: call.site }, call.site.with_state(&*base, &run));
    let ModelReply { outcome, writes, carried } =
        NextModel { layers: layers.outer.layers, end: &inner, repeat: &repeat }.call(call.at_site(site)).await?;
    let own = carried.into_iter().filter_map(|carried| carried.downcast::<LayerWrites<S>>().ok());
    let writes = own.flat_map(|own| *own).chain(projection.lift_all(writes)).collect();
    Ok(ModelReply { outcome, writes, carried: Vec::new() })
}

/// Calls a tool through the inherited layers and the agent's own.
pub(crate) async fn around_tool<S, C>(
    layers: CallLayers<'_, S, C>,
    projection: &StateProjection<S>,
    site: CallSite<'_, S, C>,
    call: ToolCall,
    end: &dyn ToolEnd<S, C>,
) -> Result<ToolReply<S>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    let (own_repeat, repeat) = (Repeat::default(), Repeat::default());
    let (next, call) = (NextTool { layers: layers.own, end, repeat: &own_repeat }, ToolUse { call, site });
    if layers.outer.layers.is_empty() {
        return next.call(call).await;
    }
    let (base, run) = ((projection.base)(site.state), site.run.in_context(Arc::new(())));
    let (inner, site) = (IntoOwnLayers { next, site }, site.with_state(&*base, &run));
    let reply = NextTool { layers: layers.outer.layers, end: &inner, repeat: &repeat }.call(call.at_site(site)).await?;
    let own = reply.carried.and_then(|carried| carried.downcast::<ToolEffects<S>>().ok());
    let (rest, own) = own.map(|own| *own).unwrap_or_default();
    let writes = own.into_iter().chain(projection.lift_all(reply.writes)).collect();
    Ok(ToolReply { result: reply.result, writes, rest, carried: None })
}

/// The part of a tool's result that inherited layers cannot see, because their state has another type.
type ToolEffects<S> = (Option<Command<S>>, LayerWrites<S>);

/// Asks all layers whether the call may be made. Returns the call with revised arguments, or the reason for the denial.
pub(crate) async fn check_layers<S, C>(
    layers: CallLayers<'_, S, C>,
    projection: &StateProjection<S>,
    site: CallSite<'_, S, C>,
    mut call: ToolCall,
) -> Result<Result<ToolCall, String>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    if !layers.outer.layers.is_empty() {
        let (base, run) = ((projection.base)(site.state), site.run.in_context(Arc::new(())));
        match check_each(layers.outer.layers, call, site.with_state(&*base, &run)).await? {
            Ok(revised) => call = revised,
            denied => return Ok(denied),
        }
    }
    check_each(layers.own, call, site).await
}

async fn check_each<S, C>(
    layers: &[ListedLayer<S, C>],
    mut call: ToolCall,
    mut site: CallSite<'_, S, C>,
) -> Result<Result<ToolCall, String>, NodeError>
where
    S: Values,
    C: Send + Sync + 'static,
{
    for ListedLayer { key, layer } in layers {
        site.key = key;
        match layer.check(&call, site).await? {
            Verdict::Allow => {}
            Verdict::Deny(reason) => return Ok(Err(reason)),
            Verdict::Revise(args @ Value::Object(_)) => call.args = args,
            Verdict::Revise(_) => {
                return Err(NodeError::permanent(format!(
                    "the layer `{key}` revised the arguments of `{}` to a value that is not a JSON object: pass an object \
                     to `Verdict::Revise`",
                    call.name
                )));
            }
        }
    }
    Ok(Ok(call))
}

/// Continues from the inherited layers to the agent's own.
struct IntoOwnLayers<'a, N, S, C> {
    next: N,
    site: CallSite<'a, S, C>,
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> ModelEnd<BaseState, ()> for IntoOwnLayers<'_, NextModel<'_, S, C>, S, C> {
    async fn call(&self, call: ModelCall<'_, BaseState, ()>) -> Result<ModelReply<BaseState>, NodeError> {
        let ModelReply { outcome, writes, .. } = self.next.call(call.at_site(self.site)).await?;
        Ok(ModelReply { carried: vec![Box::new(writes)], ..ModelReply::from_outcome(outcome) })
    }

    fn compacts(&self) -> bool {
        self.next.compacts()
    }
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> ToolEnd<BaseState, ()> for IntoOwnLayers<'_, NextTool<'_, S, C>, S, C> {
    async fn call(&self, call: ToolUse<'_, BaseState, ()>) -> Result<ToolReply<BaseState>, NodeError> {
        let ToolReply { result, writes, rest, .. } = self.next.call(call.at_site(self.site)).await?;
        let effects: ToolEffects<S> = (rest, writes);
        Ok(ToolReply { result, writes: Vec::new(), rest: None, carried: Some(Box::new(effects)) })
    }
}
