//! A graph as a node of another.

use std::sync::Arc;

use hier_spec::GraphSpec;

use super::compiled::{CompiledGraph, Graph, Inner};
use super::handler::{Attach, BoxFuture, NodeResult, SubgraphArgs};
use super::task::Task;
use crate::engine::{LEVELS, Shares, Subgraph, apart};
use crate::state::{SharesWith, Values};

/// A graph whose context can be had from the context `C` of the graph around it: the same, or none.
#[diagnostic::on_unimplemented(
    message = "the graph `{Self}` needs another context than `{C}`, which the graph around it has",
    label = "needs another context",
    note = "give both graphs the same context, or the inner one none"
)]
pub trait FitsContext<C>: Graph {
    /// The inner graph's context.
    fn context(outer: &Arc<C>) -> Arc<Self::Context>;
}

/// A graph that is attached to a node of another graph over `S`.
pub struct Child<S: Values, C>(Arc<dyn Subgraph<S, C>>);

impl<S: Values, C> Clone for Child<S, C> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Values, C> std::fmt::Debug for Child<S, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Child").finish_non_exhaustive()
    }
}

impl<S: Values, C> Child<S, C> {
    pub(crate) fn new(child: impl Subgraph<S, C> + 'static) -> Self {
        Self(Arc::new(child))
    }

    pub(crate) fn asks_model(&self) -> bool {
        self.0.asks_model()
    }

    /// Runs it as this task.
    pub(crate) fn run<'a>(&'a self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>
    where
        C: Send + Sync + 'static,
    {
        let level = task.run.shared.namespace.len() + 1;
        if !level.is_multiple_of(LEVELS) {
            return self.0.run(task);
        }
        let (child, own) = (self.0.clone(), task.clone());
        Box::pin(apart(&task.run.shared.crew, Box::pin(async move { child.run(&own).await })))
    }
}

/// How the context of an inner graph is had from that of the outer one.
pub(crate) type ContextFn<C, D> = fn(&Arc<C>) -> Arc<D>;

/// An inner graph and how to give it its context.
pub(crate) struct Attached<T: Values, C, D> {
    pub(crate) graph: Arc<Inner<T, D>>,
    pub(crate) context: ContextFn<C, D>,
    pub(crate) shares: Shares,
}

impl<S, C, G> Attach<S, C, G> for SubgraphArgs<'_, S, C, G>
where
    S: Values,
    C: Send + Sync + 'static,
    G: FitsContext<C>,
    G::State: SharesWith<S>,
{
    fn child() -> Option<Child<S, C>> {
        let graph: CompiledGraph<G::State, G::Context, G::Input, G::Output> = G::compile();
        Some(Child::new(Attached { graph: graph.inner, context: G::context, shares: Shares::new() }))
    }

    const SPEC: Option<fn() -> &'static GraphSpec> = Some(|| G::SPEC);
    const DEPTH: usize = 1 + G::DEPTH;
    const ASKS_MODEL: bool = G::MEMBER.asks_model;
}

macro_rules! functions {
    ($(($($arg:ident)*))*) => {$(
        impl<S: Values, C, F: FnOnce($($arg),*) -> R, R, $($arg),*> Attach<S, C, F> for ($($arg,)*) {
            fn child() -> Option<Child<S, C>> {
                None
            }

            const SPEC: Option<fn() -> &'static GraphSpec> = None;
            const DEPTH: usize = 0;
            const ASKS_MODEL: bool = false;
        }
    )*};
}

functions! { () (A1) (A1 A2) (A1 A2 A3) (A1 A2 A3 A4) }
