use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;

use super::model_call::{CallSite, ModelCall, ModelReply};
use super::tool_call::{ToolReply, ToolUse};
use super::{Layer, NextModel, NextTool, Verdict};
use crate::redaction::Redact;
use crate::state::base::BaseState;
use hier_checkpoint::message::ToolCall;
use hier_core::NodeError;
use hier_core::state::Values;

/// A wrapper that applies a layer to an agent, its subagents, their subagents, and so on: `Inherited(Limit {
/// model_calls: 200 })`. If one of these subagents is a custom graph, the layer also applies to the model requests of
/// its nodes, and to its `tools![…]` nodes.
///
/// * **Order.** A call passes through the inherited layers first, and then through the layers of the agent that makes
///   the call.
/// * **State.** The layer sees and writes the [`BaseState`] of the agent that makes the call. It must therefore be a
///   layer over [`BaseState`], as all built-in layers are. A custom node that asks a model does not have this state.
///   The layer then sees the default [`BaseState`], and hier drops its writes.
/// * **Context.** The layer sees the context of the agent that lists the layer.
#[derive(Debug)]
pub struct Inherited<L>(Arc<L>);

impl<L> Inherited<L> {
    /// Creates a wrapper that applies `layer` to the agent that lists the wrapper, and to its subagents at any depth.
    pub fn new(layer: L) -> Self {
        Self(Arc::new(layer))
    }
}

impl<L> Clone for Inherited<L> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[async_trait]
impl<S, C, L> Layer<S, C> for Inherited<L>
where
    S: Values,
    C: Send + Sync + 'static,
    L: Layer<S, C> + Layer<BaseState, C>,
{
    fn name(&self) -> Cow<'static, str> {
        Layer::<S, C>::name(&*self.0)
    }

    fn inherited(&self) -> Option<Arc<dyn Layer<BaseState, C>>> {
        Some(self.0.clone())
    }

    fn mistake(&self) -> Option<String> {
        Layer::<S, C>::mistake(&*self.0)
    }

    fn compacts(&self) -> bool {
        Layer::<S, C>::compacts(&*self.0)
    }

    fn redacts(&self) -> Option<&Redact> {
        Layer::<S, C>::redacts(&*self.0)
    }

    async fn model_call(
        &self,
        call: ModelCall<'_, S, C>,
        next: NextModel<'_, S, C>,
    ) -> Result<ModelReply<S>, NodeError> {
        self.0.model_call(call, next).await
    }

    async fn check(&self, call: &ToolCall, site: CallSite<'_, S, C>) -> Result<Verdict, NodeError> {
        self.0.check(call, site).await
    }

    async fn tool_call(&self, call: ToolUse<'_, S, C>, next: NextTool<'_, S, C>) -> Result<ToolReply<S>, NodeError> {
        self.0.tool_call(call, next).await
    }
}
