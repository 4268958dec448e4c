use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use super::model_call::{ModelCall, ModelReply};
use super::{Layer, NextModel};
use crate::model::{ChatModel, ChooseModel, ModelError};
use hier_core::state::Values;
use hier_core::{NodeError, NodeErrorKind};

/// A layer that asks another model if the agent's model returns an error. In `graph!`, write `Fallback(|desk|
/// &desk.cheap)`.
///
/// Add more models with [`or`](Self::or). The layer asks the models in order, and returns the last error if all of them
/// fail. If a part of a reply has been streamed when the model fails, the layer does not ask another model. To change
/// this, call [`after_chunks`](Self::after_chunks).
///
/// Only the provider that created a signature or encrypted reasoning can read it. hier leaves such data out of requests
/// to other providers.
///
/// ```
/// # use std::sync::Arc;
/// # use hier_agents::{AgentBuilder, ChatModel};
/// # use hier_agents::prelude::*;
/// # use hier_agents::layer::Fallback;
/// struct Desk {
///     base: BaseContext,
///     cheap: Arc<dyn ChatModel>,
/// }
/// # impl AsRef<BaseContext> for Desk {
/// #     fn as_ref(&self) -> &BaseContext {
/// #         &self.base
/// #     }
/// # }
///
/// let agent = AgentBuilder::<BaseState, Desk>::new("support").layer(Fallback::<Desk>::new(|desk| &desk.cheap));
/// # let _ = agent;
/// ```
#[must_use]
pub struct Fallback<C> {
    models: Vec<ChooseModel<C>>,
    after_chunks: bool,
}

impl<C> fmt::Debug for Fallback<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fallback").field("after_chunks", &self.after_chunks).finish_non_exhaustive()
    }
}

impl<C> Fallback<C> {
    /// Creates a layer with one fallback. If the agent's model fails, the layer asks the model that `choose` selects in
    /// the context.
    pub fn new<M: ChatModel>(choose: impl for<'a> Fn(&'a C) -> &'a M + Send + Sync + 'static) -> Self {
        Self { models: Vec::new(), after_chunks: false }.or(choose)
    }

    /// Adds a fallback. If the agent's model and all earlier fallbacks fail, the layer asks the model that `choose`
    /// selects in the context.
    pub fn or<M: ChatModel>(mut self, choose: impl for<'a> Fn(&'a C) -> &'a M + Send + Sync + 'static) -> Self {
        self.models.push(Arc::new(move |context| choose(context)));
        self
    }

    /// Makes the layer ask another model even if a part of the failed reply has been streamed. The client then receives
    /// the beginning of the failed reply, and after that the next model's reply with another message id.
    pub fn after_chunks(mut self) -> Self {
        self.after_chunks = true;
        self
    }
}

#[async_trait]
impl<S: Values, C: Send + Sync + 'static> Layer<S, C> for Fallback<C> {
    fn name(&self) -> Cow<'static, str> {
        "Fallback".into()
    }

    async fn model_call(
        &self,
        call: ModelCall<'_, S, C>,
        next: NextModel<'_, S, C>,
    ) -> Result<ModelReply<S>, NodeError> {
        let mut result = next.call(call.clone()).await;
        for choose in &self.models {
            let Err(error) = &result else { break };
            if !is_models(error) || (call.has_streamed() && !self.after_chunks) {
                break;
            }
            let model = choose(call.context());
            let (failed, other) = (call.model().name(), model.name());
            tracing::warn!(agent = call.site().agent(), model = failed, other, %error, "a model failed; asking the next model");
            result = next.call(call.clone().with_model(model)).await;
        }
        result
    }
}

fn is_models(error: &NodeError) -> bool {
    matches!(error.kind(), NodeErrorKind::Source(source) if source.is::<ModelError>())
}
