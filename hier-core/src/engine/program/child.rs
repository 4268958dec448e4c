use std::sync::{Arc, OnceLock};

use futures_core::future::BoxFuture;

use super::{ErasedGraph, LEVELS, NodeResult, Prepare, Program, SendArg, Task, apart};
use crate::checkpoint::CodecError;
use crate::state::Values;

/// A graph that runs as a node of a graph over `S`.
pub trait Subgraph<S: Values, C>: Send + Sync {
    /// Runs the graph as a task of the outer graph.
    fn run<'a>(&'a self, task: &'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>;

    /// Returns true if the graph, or a graph in it, calls a model.
    fn asks_model(&self) -> bool;

    /// Returns the graph without its types, to read and update its threads.
    fn erased(&self) -> &dyn ErasedGraph;

    /// Returns the writes before a new input, if the graph is a part of the outer graph and has the same state.
    fn prepare(&self) -> Option<Prepare<S>> {
        None
    }

    /// Returns true if the payload of a Send is the initial state of the graph.
    fn takes_state(&self) -> bool {
        false
    }

    /// Returns the options that decide which values cross the border. Empty if the two graphs share one state.
    fn policy(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Encodes a state for a Send by the names of its channels. Returns `None` if the payload has another type.
    fn pack(&self, _arg: &SendArg) -> Option<Result<Vec<u8>, CodecError>> {
        None
    }
}

/// A graph at a node of another graph over `S`.
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
    #[doc(hidden)]
    pub fn new(child: impl Subgraph<S, C> + 'static) -> Self {
        Self(Arc::new(child))
    }

    pub(crate) fn asks_model(&self) -> bool {
        self.0.asks_model()
    }

    pub(crate) fn erased(&self) -> &dyn ErasedGraph {
        self.0.erased()
    }

    pub(crate) fn prepare(&self) -> Option<Prepare<S>> {
        self.0.prepare()
    }

    pub(crate) fn takes_state(&self) -> bool {
        self.0.takes_state()
    }

    pub(crate) fn policy(&self) -> Vec<(&'static str, String)> {
        self.0.policy()
    }

    pub(crate) fn pack(&self, arg: &SendArg) -> Option<Result<Vec<u8>, CodecError>> {
        self.0.pack(arg)
    }

    /// Runs the graph as this task.
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

/// Returns the context of an inner graph from that of the outer graph.
pub type ContextFn<C, D> = fn(&Arc<C>) -> Arc<D>;

/// An inner graph, with its context and the channels that it shares.
pub struct Attached<T: Values, C, D> {
    /// The graph.
    pub graph: Arc<Program<T, D>>,
    /// Returns the context of the graph from that of the outer graph.
    pub context: ContextFn<C, D>,
    /// The channels that both states have.
    pub shares: Shares,
}

/// For each channel of the inner state, the index of the outer channel with the same name.
pub type Shares = OnceLock<Vec<Option<usize>>>;
