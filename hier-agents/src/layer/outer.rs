//! The layers that agents inherit from outer agents.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::counters::CallCounters;
use super::model_call::{CallSite, ModelCall, ModelReply};
use super::tool_call::{ToolReply, ToolUse};
use super::{Layer, ListedLayer, ModelEnd, NextModel, NextTool, ToolEnd, Verdict};
use crate::redaction::Redact;
use crate::state::base::BaseState;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::Run;
use hier_core::internals::{Repeat, Scope};

/// The layers that an agent passes to the agents below.
pub(crate) struct InheritedLayers {
    /// The layers that the agent itself inherits.
    outer: Arc<[ListedLayer<BaseState, ()>]>,
    /// The inherited layers, and the layers that the agent passes on.
    all: Arc<[ListedLayer<BaseState, ()>]>,
    counters: Arc<CallCounters>,
}

/// The inherited layers that a call passes through.
#[derive(Clone, Copy)]
pub(crate) struct OuterLayers<'a> {
    pub(super) layers: &'a [ListedLayer<BaseState, ()>],
    pub(super) counters: Option<&'a CallCounters>,
}

impl fmt::Debug for OuterLayers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OuterLayers").field(&self.layers).finish()
    }
}

impl InheritedLayers {
    /// Adds the agent's own layers, in the agent's context, to the layers that the agent inherits.
    pub(crate) fn extended<C: Send + Sync + 'static>(
        inherited: Option<&Self>,
        own: &[ListedLayer<BaseState, C>],
        context: &Arc<C>,
    ) -> Self {
        let outer: Arc<[_]> = inherited.map_or_else(|| Arc::from([]), |inherited| inherited.all.clone());
        let own = own.iter().map(|ListedLayer { key, layer }| {
            let layer: Arc<dyn Layer<BaseState, ()>> =
                Arc::new(LayerInContext { layer: layer.clone(), context: context.clone() });
            ListedLayer { key: key.clone(), layer }
        });
        let all = outer.iter().cloned().chain(own).collect();
        Self { outer, all, counters: inherited.map(|inherited| inherited.counters.clone()).unwrap_or_default() }
    }

    /// Returns the scope of this run with counters that start at 0, for a run that continues in later turns.
    pub(crate) fn with_own_counters<C>(run: &Run<C>) -> Option<Scope> {
        let scope = run.scope()?;
        let Some(Self { outer, all, .. }) = scope.downcast_ref() else { return Some(scope.clone()) };
        Some(Arc::new(Self { outer: outer.clone(), all: all.clone(), counters: Arc::default() }))
    }

    /// Returns the inherited layers for a call in this run. If the calling agent passes layers on, the result excludes
    /// the agent's own layers.
    pub(crate) fn around<C>(run: &Run<C>, passes_on: bool) -> OuterLayers<'_> {
        match run.scope().and_then(|scope| scope.downcast_ref::<Self>()) {
            Some(inherited) => OuterLayers {
                layers: if passes_on { &inherited.outer } else { &inherited.all },
                counters: Some(&inherited.counters),
            },
            None => OuterLayers { layers: &[], counters: None },
        }
    }
}

/// A layer that runs in the context of the agent that lists it.
struct LayerInContext<C> {
    layer: Arc<dyn Layer<BaseState, C>>,
    context: Arc<C>,
}

/// Continues a call in the context of the caller.
struct BackToCaller<'a, N> {
    next: N,
    site: CallSite<'a, BaseState, ()>,
}

#[async_trait]
impl<C: Send + Sync + 'static> Layer<BaseState, ()> for LayerInContext<C> {
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
        let back = BackToCaller { next, site: call.site };
        let site = call.site.with_state(call.site.state, &run);
        let next = NextModel { layers: &[], end: &back, repeat: &Repeat::default() };
        self.layer.model_call(call.at_site(site), next).await
    }

    async fn check(&self, call: &ToolCall, site: CallSite<'_, BaseState, ()>) -> Result<Verdict, NodeError> {
        let run = site.run.in_context(self.context.clone());
        self.layer.check(call, site.with_state(site.state, &run)).await
    }

    async fn tool_call(
        &self,
        call: ToolUse<'_, BaseState, ()>,
        next: NextTool<'_, BaseState, ()>,
    ) -> Result<ToolReply<BaseState>, NodeError> {
        let run = call.site.run.in_context(self.context.clone());
        let back = BackToCaller { next, site: call.site };
        let site = call.site.with_state(call.site.state, &run);
        let next = NextTool { layers: &[], end: &back, repeat: &Repeat::default() };
        self.layer.tool_call(call.at_site(site), next).await
    }
}

#[async_trait]
impl<C: Send + Sync + 'static> ModelEnd<BaseState, C> for BackToCaller<'_, NextModel<'_, BaseState, ()>> {
    async fn call(&self, call: ModelCall<'_, BaseState, C>) -> Result<ModelReply<BaseState>, NodeError> {
        self.next.call(call.at_site(self.site)).await
    }

    fn compacts(&self) -> bool {
        self.next.compacts()
    }
}

#[async_trait]
impl<C: Send + Sync + 'static> ToolEnd<BaseState, C> for BackToCaller<'_, NextTool<'_, BaseState, ()>> {
    async fn call(&self, call: ToolUse<'_, BaseState, C>) -> Result<ToolReply<BaseState>, NodeError> {
        self.next.call(call.at_site(self.site)).await
    }
}
