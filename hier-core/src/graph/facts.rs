//! Graphs whose stored threads are checked against a lock file.

use schemars::SchemaGenerator;

use super::{CompiledGraph, Graph};
use crate::engine::program::GraphFacts;
use crate::state::Values;

/// A graph that can be compared with its earlier versions: the type of a graph, or a compiled graph. To declare earlier
/// names, use the compiled graph with [`CompiledGraph::renamed`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a graph",
    label = "not a graph",
    note = "name a type that `graph!` declares, or pass a compiled graph: `Review::compile().renamed(\"old\", \"new\")`"
)]
pub trait StoredGraph {
    /// Returns the properties of the graph on which its stored threads depend. The function adds the schemas of named
    /// types to `generator`.
    fn facts(&self, generator: &mut SchemaGenerator) -> GraphFacts;
}

impl<G: Graph> StoredGraph for G {
    fn facts(&self, generator: &mut SchemaGenerator) -> GraphFacts {
        G::compile().inner.facts(generator)
    }
}

impl<S: Values, C, I, O> StoredGraph for CompiledGraph<S, C, I, O> {
    fn facts(&self, generator: &mut SchemaGenerator) -> GraphFacts {
        self.inner.facts(generator)
    }
}
