use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::compiled::CompiledGraph;
use super::detached::ContinueDetached;
use super::input::{FullState, GraphInput};
use super::request::{GraphRequest, Invoke, Streaming, WithContext};
use crate::engine::program::GraphOutput;
use crate::state::Values;

/// A compiled graph with a context for its runs. [`CompiledGraph::with_context`] returns it.
///
/// A `BoundGraph` dereferences to [`CompiledGraph`], so it has the methods that read and change threads.
pub struct BoundGraph<S: Values, C, I = FullState, O = S> {
    graph: CompiledGraph<S, C, I, O>,
    context: Arc<C>,
}

impl<S, C, I, O> CompiledGraph<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    /// Sets the context for all runs of the graph, so that requests need none. Accepts a value or an [`Arc`].
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
    /// # struct Filing { fee: u32 }
    /// struct Desk { fee: u32 }
    ///
    /// async fn charge(run: &Run<Desk>) -> FilingUpdate {
    ///     Filing::update().fee(run.context().fee)
    /// }
    /// # graph! { Review<Filing, Desk> = Graph { nodes: [charge], edges: [START >> charge >> END] } }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> hier_core::Result<()> {
    /// let review = Review::compile().with_context(Desk { fee: 20 });
    /// assert_eq!(review.invoke(Filing::update()).await?.state().fee, 20);
    /// # Ok(())
    /// # }
    /// ```
    pub fn with_context(self, context: impl Into<Arc<C>>) -> BoundGraph<S, C, I, O> {
        BoundGraph { graph: self, context: context.into() }
    }
}

impl<S, C, I, O> BoundGraph<S, C, I, O>
where
    S: Values,
    C: Send + Sync + 'static,
    O: GraphOutput<S>,
{
    /// Returns a request that runs the graph. See [`CompiledGraph::invoke`].
    pub fn invoke(&self, input: impl GraphInput<S, I>) -> GraphRequest<Invoke<S, C, O>, WithContext<C>> {
        self.graph.invoke(input).context(self.context.clone())
    }

    /// Returns a request that streams the events of a run. See [`CompiledGraph::stream`].
    pub fn stream(&self, input: impl GraphInput<S, I>) -> GraphRequest<Streaming<S, C, O>, WithContext<C>> {
        self.graph.stream(input).context(self.context.clone())
    }

    /// Returns a request that continues detached subagents. See [`CompiledGraph::continue_detached`].
    pub fn continue_detached(&self, thread: impl Into<String>) -> GraphRequest<ContinueDetached<S, C>, WithContext<C>> {
        self.graph.continue_detached(thread).context(self.context.clone())
    }
}

impl<S: Values, C, I, O> Deref for BoundGraph<S, C, I, O> {
    type Target = CompiledGraph<S, C, I, O>;

    fn deref(&self) -> &Self::Target {
        &self.graph
    }
}

impl<S: Values, C, I, O> Clone for BoundGraph<S, C, I, O> {
    fn clone(&self) -> Self {
        Self { graph: self.graph.clone(), context: self.context.clone() }
    }
}

impl<S: Values, C, I, O> fmt::Debug for BoundGraph<S, C, I, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundGraph").field("name", &self.spec().name).finish_non_exhaustive()
    }
}
