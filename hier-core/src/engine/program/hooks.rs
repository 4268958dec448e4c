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

/// Returns the writes of a graph before a new input. The arguments are the state before the input and, for the state of a thread, the
/// open questions that the input withdraws.
pub type Prepare<S> = Arc<dyn Fn(&S, Option<&[Value]>) -> Writes<S> + Send + Sync>;

/// Makes the value that a graph passes to its subgraphs, when a run begins. The arguments are the value that was passed to the graph, and
/// its context.
pub type Enter<C> = Arc<dyn Fn(Option<&Scope>, &Arc<C>) -> Scope + Send + Sync>;

/// The background runs of a graph that continue after the run that started them. The state of the graph has a record of
/// each until a later run has collected its result.
pub trait DetachedRuns<S: Values, C>: Send + Sync {
    /// Returns the names of the graphs of the runs.
    fn graphs(&self) -> Vec<String>;

    /// Returns the names of the runs in a state whose results are not collected.
    fn names(&self, state: &S) -> Vec<String>;

    /// Starts or continues a run, as a task of a graph in that state.
    ///
    /// # Errors
    ///
    /// Fails without a tokio runtime.
    fn start(&self, task: &Task<S, C>, name: &str) -> Result<(), NodeError>;

    /// Describes the end of a run.
    fn end(&self, end: &BackgroundEnd) -> DetachedEnd;
}

/// The end of a detached run in this process.
#[derive(Debug)]
pub enum DetachedEnd {
    /// The run has ended. The value describes the result.
    Ended(Value),
    /// The run waits for answers.
    Asks(Vec<Question>),
    /// The run was stopped.
    Stopped,
    /// Another run drives this run.
    Elsewhere,
    /// The thread of the run could not be read or written.
    Unstored(NodeError),
}

/// Code that runs when a graph is entered and when it is left. The macro makes it.
pub struct Hooks<S: Values, C> {
    /// The names of the layers around calls of models and tools, the outermost layer first.
    pub(crate) layers: Vec<String>,
    /// Makes the value that subgraphs receive. Defaults to the value that was passed to the graph.
    pub(crate) scope: Option<Enter<C>>,
    /// Returns the writes before each input. An agent uses them to end its unfinished turn.
    pub(crate) prepare: Option<Prepare<S>>,
    /// Returns further writes before each input.
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

impl<S: Values, C> Clone for Hooks<S, C> {
    fn clone(&self) -> Self {
        Self {
            layers: self.layers.clone(),
            scope: self.scope.clone(),
            prepare: self.prepare.clone(),
            mark_input: self.mark_input.clone(),
            on_entry: self.on_entry.clone(),
            on_exit: self.on_exit.clone(),
            detached: self.detached.clone(),
        }
    }
}

impl<S: Values, C> fmt::Debug for Hooks<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("layers", &self.layers)
            .field("scope", &self.scope.is_some())
            .field("prepare", &self.prepare.is_some())
            .field("mark_input", &self.mark_input.is_some())
            .field("on_entry", &self.on_entry.is_some())
            .field("on_exit", &self.on_exit.is_some())
            .field("detached", &self.detached.is_some())
            .finish()
    }
}

impl<S: Values, C> Hooks<S, C> {
    /// Creates the hooks of a graph that is built at run time.
    pub fn made(layers: Vec<String>, scope: Option<Enter<C>>, prepare: Prepare<S>) -> Self {
        Self { layers, scope, prepare: Some(prepare), ..Self::default() }
    }

    /// Sets the background runs that continue after the run that started them.
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
    /// Runs this code when the graph is entered.
    #[must_use]
    pub fn on_entry(mut self, hook: HookFn<S, C>) -> Self {
        self.on_entry = Some(body(hook));
        self
    }

    /// Runs this code when the graph is left.
    #[must_use]
    pub fn on_exit(mut self, hook: HookFn<S, C>) -> Self {
        self.on_exit = Some(body(hook));
        self
    }
}
