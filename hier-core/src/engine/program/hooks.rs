use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::{BackgroundEnd, Body, NodeResult, Scope, Task, body};
use crate::error::NodeError;
use crate::question::Question;
use crate::state::{Values, Writes};

/// The code of `on_entry` or `on_exit`, as the macro generates it.
type HookFn<S, C> = for<'a> fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>;

/// A function that prepares the input of a graph. It returns the input, possibly changed, with further writes. Its
/// arguments are the state before the input, the values of the open questions that the input withdraws, and the input.
/// The second argument is `None` if the input does not replace an open superstep.
pub type Prepare<S> = Arc<dyn Fn(&S, Option<&[Value]>, Writes<S>) -> Writes<S> + Send + Sync>;

/// A function that makes the [`Scope`] that a graph passes to its subgraphs. The engine calls it when a run of the
/// graph begins. The function receives the scope that the graph itself got from its outer graph, and the context of the
/// graph.
pub type Enter<C> = Arc<dyn Fn(Option<&Scope>, &Arc<C>) -> Scope + Send + Sync>;

/// The detached runs of a graph. A detached run is a background run that continues after the run that started it has
/// ended. The state of the graph contains a record of each detached run until a later run of the graph has collected
/// the result.
pub trait DetachedRuns<S: Values, C>: Send + Sync {
    /// Returns the names of the graphs that the detached runs execute.
    fn graphs(&self) -> Vec<String>;

    /// Returns the names of the detached runs that have a record in `state`. The graph has not collected the results of
    /// these runs.
    fn names(&self, state: &S) -> Vec<String>;

    /// Starts the detached run with this name, or continues it. The `task` contains the state of the graph that started
    /// the detached run. If this state has no record of the name, the method does nothing.
    ///
    /// # Errors
    ///
    /// Fails without a tokio runtime.
    fn start(&self, task: &Task<S, C>, name: &str) -> Result<(), NodeError>;

    /// Converts `end`, the result of a background run, to the way in which the run has ended.
    fn end(&self, end: &BackgroundEnd) -> DetachedEnd;
}

/// The way in which an attempt of this process to execute a detached run has ended.
#[derive(Debug)]
pub enum DetachedEnd {
    /// The run has finished or failed. The value describes the result for the caller of
    /// [`DynGraph::continue_detached`](crate::graph::DynGraph::continue_detached).
    Ended(Value),
    /// The run stopped because it waits for answers to these questions.
    Asks(Vec<Question>),
    /// The run was stopped before it had ended, for example because its cancellation token was cancelled.
    Stopped,
    /// Another run holds the thread of the detached run, for example in another process.
    Elsewhere,
    /// The saver could not read or write the thread of the detached run.
    Unstored(NodeError),
}

/// The functions that the engine calls when a run enters or leaves a graph, and before each input. `graph!` generates
/// them.
pub struct Hooks<S: Values, C> {
    /// The names of the layers around calls of models and tools, the outermost layer first.
    pub(crate) layers: Vec<String>,
    /// Makes the value that subgraphs receive. Defaults to the value that was passed to the graph.
    pub(crate) scope: Option<Enter<C>>,
    /// Prepares each input. An agent then ends its unfinished turn.
    pub(crate) prepare: Option<Prepare<S>>,
    /// Adds further writes to each input.
    pub(crate) mark_input: Option<Prepare<S>>,
    pub(crate) on_entry: Option<Body<S, C>>,
    pub(crate) on_exit: Option<Body<S, C>>,
    /// The background runs that continue after the run that started them.
    pub(crate) detached: Option<Arc<dyn DetachedRuns<S, C>>>,
}

impl<S: Values, C> Default for Hooks<S, C> {
    fn default() -> Self {
        Self {
            layers: Vec::new(),
            scope: None,
            prepare: None,
            mark_input: None,
            on_entry: None,
            on_exit: None,
            detached: None,
        }
    }
}

clone_fields!([S: Values, C] Hooks<S, C> { layers, scope, prepare, mark_input, on_entry, on_exit, detached });

impl<S: Values, C> fmt::Debug for Hooks<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").field("layers", &self.layers).finish_non_exhaustive()
    }
}

impl<S: Values, C> Hooks<S, C> {
    /// Creates the hooks of a graph that is built at run time. `layers` contains the names of an agent's layers,
    /// outermost first. `scope` makes the value that subgraphs receive. `prepare` prepares each input.
    pub fn made(layers: Vec<String>, scope: Option<Enter<C>>, prepare: Prepare<S>) -> Self {
        Self { layers, scope, prepare: Some(prepare), ..Self::default() }
    }

    /// Sets the [`DetachedRuns`] of the graph.
    #[must_use]
    pub fn detached(self, runs: Arc<dyn DetachedRuns<S, C>>) -> Self {
        Self { detached: Some(runs), ..self }
    }

    /// Takes all other hooks from `others`, which belong to the graph's kind.
    pub(crate) fn prepared_by(self, others: Self) -> Self {
        Self { on_entry: self.on_entry, on_exit: self.on_exit, ..others }
    }

    /// Returns the value that subgraphs receive.
    pub(crate) fn enter(&self, outer: Option<&Scope>, context: &Arc<C>) -> Option<Scope> {
        self.scope.as_ref().map(|scope| scope(outer, context)).or_else(|| outer.cloned())
    }
}

impl<S: Values, C: 'static> Hooks<S, C> {
    /// Sets the code of `on_entry`, which runs when a run enters the graph.
    #[must_use]
    pub fn on_entry(mut self, hook: HookFn<S, C>) -> Self {
        self.on_entry = Some(body(hook));
        self
    }

    /// Sets the code of `on_exit`, which runs when a run leaves the graph.
    #[must_use]
    pub fn on_exit(mut self, hook: HookFn<S, C>) -> Self {
        self.on_exit = Some(body(hook));
        self
    }
}
