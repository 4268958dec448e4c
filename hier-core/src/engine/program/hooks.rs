//! Code that runs when a graph is entered and left, beside its nodes.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use futures_core::future::BoxFuture;
use serde_json::Value;

use super::{Body, NodeResult, Task, body};
use crate::state::{Values, Writes};

/// Code that runs when a graph is entered or left, as the macro gives it.
type HookFn<S, C> = for<'a> fn(&'a Task<S, C>) -> BoxFuture<'a, NodeResult<S>>;

/// Returns the writes of a graph before a new input. The arguments are the state before the input and, for the state of a thread, the
/// open questions that the input withdraws.
pub type Prepare<S> = Arc<dyn Fn(&S, Option<&[Value]>) -> Writes<S> + Send + Sync>;

/// What the code around passes down to the graphs inside. The engine does not look into it.
pub type Scope = Arc<dyn Any + Send + Sync>;

/// What a graph passes down: made as a run of it begins, of what was passed to it and of its context.
pub type Enter<C> = Arc<dyn Fn(Option<&Scope>, &Arc<C>) -> Scope + Send + Sync>;

/// The code that runs when a graph is entered and when it is left. Made by the macro.
pub struct Hooks<S: Values, C> {
    /// What stands around the calls of models and tools, the outermost first, by its names.
    pub(crate) layers: Vec<String>,
    /// What the graph passes down; none: what was passed to it.
    pub(crate) scope: Option<Enter<C>>,
    /// What stands in front of each input: an agent puts away what is left of its last turn.
    pub(crate) prepare: Option<Prepare<S>>,
    pub(crate) on_entry: Option<Body<S, C>>,
    pub(crate) on_exit: Option<Body<S, C>>,
}

impl<S: Values, C> Default for Hooks<S, C> {
    fn default() -> Self {
        Self { layers: Vec::new(), scope: None, prepare: None, on_entry: None, on_exit: None }
    }
}

impl<S: Values, C> Clone for Hooks<S, C> {
    fn clone(&self) -> Self {
        Self {
            layers: self.layers.clone(),
            scope: self.scope.clone(),
            prepare: self.prepare.clone(),
            on_entry: self.on_entry.clone(),
            on_exit: self.on_exit.clone(),
        }
    }
}

impl<S: Values, C> fmt::Debug for Hooks<S, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks")
            .field("layers", &self.layers)
            .field("scope", &self.scope.is_some())
            .field("prepare", &self.prepare.is_some())
            .field("on_entry", &self.on_entry.is_some())
            .field("on_exit", &self.on_exit.is_some())
            .finish()
    }
}

impl<S: Values, C> Hooks<S, C> {
    /// The hooks of a graph whose nodes are made at run time: the names of the layers, the value that it passes down, the writes before
    /// each input.
    pub fn made(layers: Vec<String>, scope: Option<Enter<C>>, prepare: Prepare<S>) -> Self {
        Self { layers, scope, prepare: Some(prepare), ..Self::default() }
    }

    /// These, completed by the layers of others, what they pass down, and what stands before each input of theirs.
    pub(crate) fn prepared_by(self, others: Self) -> Self {
        Self { layers: others.layers, scope: others.scope, prepare: others.prepare, ..self }
    }

    /// What the graph passes down, of what was passed to it.
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
