use std::sync::Arc;

use hier_spec::trust::GraphTrust;

use super::compiled::{CompiledGraph, Graph};
use super::handler::{Attach, NestedFacts, SubgraphArgs};
use crate::engine::program::{Attached, Child, Shares};
use crate::state::{SharesWith, State, Values};

/// A graph that can run as a subgraph of a graph with the context `C`. The graph has the same context `C`, or declares
/// no context. An agent that declares no context needs a `C` that implements `AsRef<BaseContext>`.
#[diagnostic::on_unimplemented(
    message = "the graph `{Self}` needs another context than `{C}`, which the graph around it has",
    label = "needs another context",
    note = "give both graphs the same context, or the inner one none"
)]
pub trait FitsContext<C>: Graph {
    /// Returns the context of this graph. `outer` is the context of the outer graph.
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

    const NESTED: Option<&'static NestedFacts> = Some(&NestedFacts {
        spec: || G::SPEC,
        depth: 1 + G::DEPTH,
        asks_model: G::ASKS_MODEL,
        flow: G::FLOW,
        // A graph without the conversation shares single channels. The labels of their texts are not known.
        trust: if <G::State as State>::CHANNELS.contains(hier_spec::trust::CONVERSATION) {
            G::TRUST
        } else {
            GraphTrust::NONE
        },
    });
}

macro_rules! functions {
    ($(($($arg:ident)*))*) => {$(
        impl<S: Values, C, F: FnOnce($($arg),*) -> R, R, $($arg),*> Attach<S, C, F> for ($($arg,)*) {
            fn child() -> Option<Child<S, C>> {
                None
            }

            const NESTED: Option<&'static NestedFacts> = None;
        }
    )*};
}

functions! { () (A1) (A1 A2) (A1 A2 A3) (A1 A2 A3 A4) }
