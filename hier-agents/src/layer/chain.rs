//! The way of a call of a model through layers.

use std::fmt;

use async_trait::async_trait;

use super::call::{ModelCall, ModelReply, sign};
use super::listed::Listed;
use hier_core::NodeError;
use hier_core::internals::Repeat;
use hier_core::state::Values;

/// The innermost end of the layers.
#[async_trait]
pub(crate) trait ModelEnd<S: Values, C>: Send + Sync {
    async fn call(&self, call: ModelCall<'_, S, C>) -> Result<ModelReply<S>, NodeError>
    where
        C: Send + Sync + 'static;

    /// Returns true if a layer behind it [compacts](super::Layer::compacts).
    fn compacts(&self) -> bool {
        false
    }
}

/// The inner layers, then the model.
pub struct NextModel<'a, S: Values, C> {
    pub(super) layers: &'a [Listed<S, C>],
    pub(super) end: &'a dyn ModelEnd<S, C>,
    pub(super) repeat: &'a Repeat,
}

impl<S: Values, C> Clone for NextModel<'_, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Values, C> Copy for NextModel<'_, S, C> {}

impl<S: Values, C> fmt::Debug for NextModel<'_, S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextModel").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl<S: Values, C: Send + Sync + 'static> NextModel<'_, S, C> {
    /// Returns true if one of the inner layers [compacts](super::Layer::compacts).
    pub fn compacts(&self) -> bool {
        self.layers.iter().any(|listed| listed.layer.compacts()) || self.end.compacts()
    }

    /// Passes the call on, any number of times. If the call failed or was dropped and is passed on again, the inner
    /// layers keep their steps and questions, and recorded steps are not repeated. After a successful call, the next
    /// one gets new steps and questions.
    ///
    /// Cancel safety: dropping this future drops the call.
    pub async fn call(&self, call: ModelCall<'_, S, C>) -> Result<ModelReply<S>, NodeError> {
        let run = call.site.run;
        let passed = async {
            let Some((first, layers)) = self.layers.split_first() else { return self.end.call(call).await };
            let (mut site, repeat) = (call.site, Repeat::default());
            site.key = &first.key;
            let next = NextModel { layers, end: self.end, repeat: &repeat };
            let mut reply = first.layer.model_call(call.at(site), next).await?;
            sign::<S>(&mut reply.writes, &first.key);
            Ok(reply)
        };
        self.repeat.call(run, passed).await
    }
}
