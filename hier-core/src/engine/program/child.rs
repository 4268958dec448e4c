use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use futures_core::future::BoxFuture;

use super::{ErasedGraph, LEVELS, NodeResult, Prepare, Program, SendArg, Task, apart};
use crate::checkpoint::CodecError;
use crate::state::Values;

/// A graph that runs as a node of a graph over `S`.
pub trait Subgraph<S: Values, C>: Send + Sync {
    /// Runs the graph as a task of the outer graph.
    fn run<'a>(&'a self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>;

    /// Returns true if the graph or one of its subgraphs calls a model.
    fn asks_model(&self) -> bool;

    /// Returns the graph without its types, to read and update its threads.
    fn erased(&self) -> &dyn ErasedGraph;

    /// Returns the function that prepares each new input of the outer graph. Returns `None` if this graph has no such
    /// function, is not marked as a part of the outer graph, or has another state type than the outer graph.
    fn prepare(&self) -> Option<Prepare<S>> {
        None
    }

    /// Returns true if the graph takes the payload of a Send as its initial state. Defaults to false.
    fn takes_state(&self) -> bool {
        false
    }

    /// Returns the names and values of the policy's options. These options decide which values pass between the outer
    /// graph and this graph. Empty if both graphs share one state.
    fn policy(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Encodes the payload of a Send as an object of channels, if the payload is a state of this graph. Returns `None`
    /// for a payload of another type.
    fn pack(&self, _arg: &SendArg) -> Option<Result<Vec<u8>, CodecError>> {
        None
    }
}

/// A subgraph at a node of a graph over `S`.
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

impl<S: Values, C> Deref for Child<S, C> {
    type Target = dyn Subgraph<S, C>;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl<S: Values, C> Child<S, C> {
    #[doc(hidden)]
    pub fn new(child: impl Subgraph<S, C> + 'static) -> Self {
        Self(Arc::new(child))
    }

    /// Runs the subgraph as the work of this task.
    #[doc(hidden)]
    pub fn run<'a>(&'a self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>
    where
        C: Send + Sync + 'static,
    {
        let level = task.run.shared.namespace.len() + 1;
        if !level.is_multiple_of(LEVELS) {
            return self.0.run(task);
        }
        let (child, own) = (self.0.clone(), task.clone());
        Box::pin(apart(&task.run.shared.tracker, Box::pin(async move { child.run(&own).await })))
    }
}

/// A function that returns the context of a subgraph. It receives the context of the outer graph.
pub type ContextFn<C, D> = fn(&Arc<C>) -> Arc<D>;

/// A subgraph with the function that creates the context of the subgraph.
pub struct Attached<T: Values, C, D> {
    /// The subgraph.
    pub graph: Arc<Program<T, D>>,
    /// Makes the context of the subgraph from the context of the outer graph.
    pub context: ContextFn<C, D>,
    /// The channels that the outer state and the state of the subgraph have in common. The first task of the node fills
    /// this field.
    pub shares: Shares,
}

/// For each channel of the subgraph's state, the index of the channel with the same name in the outer state. `None` if
/// the outer state has no such channel.
pub type Shares = OnceLock<Vec<Option<usize>>>;
