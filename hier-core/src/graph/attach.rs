//! A graph as a node of another.

use std::sync::Arc;

use hier_spec::GraphSpec;
use hier_spec::trust::GraphTrust;

use super::compiled::{CompiledGraph, Graph};
use super::flow::GraphFlow;
use super::handler::{Attach, SubgraphArgs};
use crate::engine::program::{Attached, Child, Shares};
use crate::state::{SharesWith, State, Values};

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
    const ASKS_MODEL: bool = G::ASKS_MODEL;
    const FLOW: Option<GraphFlow> = Some(G::FLOW);
    // A graph without the conversation shares single channels, of whose text nothing is known.
    const TRUST: GraphTrust = if <G::State as State>::CHANNELS.contains(hier_spec::trust::CONVERSATION) {
        G::TRUST
    } else {
        GraphTrust::NONE
    };
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
            const FLOW: Option<GraphFlow> = None;
            const TRUST: GraphTrust = GraphTrust::NONE;
        }
    )*};
}

functions! { () (A1) (A1 A2) (A1 A2 A3) (A1 A2 A3 A4) }
