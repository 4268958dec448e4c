//! Runs the code that belongs to entering and leaving a graph.

use std::sync::Arc;

use super::exec::{call, with_writes};
use super::runner::Runner;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::graph::Body;
use crate::state::{Values, Writes};

const ON_ENTRY: &str = "on_entry";
const ON_EXIT: &str = "on_exit";

impl<S: Values, C: Send + Sync + 'static> Runner<S, C> {
    /// What entering the graph writes.
    pub(super) async fn entering(&self) -> Result<Writes<S>, NodeError> {
        self.hook(self.task.graph.hooks.on_entry.as_ref()).await
    }

    /// What leaving the graph writes.
    pub(super) async fn leaving(&self) -> Result<Writes<S>, NodeError> {
        self.hook(self.task.graph.hooks.on_exit.as_ref()).await
    }

    async fn hook(&self, hook: Option<&Body<S, C>>) -> Result<Writes<S>, NodeError> {
        let Some(hook) = hook else { return Ok(Writes::new()) };
        let refuse =
            |what| NodeError::permanent(format!("code of `on_entry` and `on_exit` cannot {what}: let a node do it"));
        match call(&self.task, hook).await {
            Ok(output) if output.orders.is_some() => Err(refuse("say where to go")),
            Ok(output) => Ok(output.writes),
            Err(error) if matches!(error.kind(), NodeErrorKind::Interrupt(_)) => Err(refuse("ask")),
            Err(error) => Err(error),
        }
    }

    /// Begins a root that is not durable.
    pub(super) async fn enter(&mut self, input: Writes<S>) -> Result<(), RunError> {
        let input = self.entered(input).await?;
        self.begin(input)
    }

    /// The input of a root, and what entering the graph adds to it.
    pub(super) async fn entered(&mut self, input: Writes<S>) -> Result<Writes<S>, RunError> {
        if self.is_child() || self.task.graph.hooks.on_entry.is_none() {
            return Ok(input);
        }
        // What cannot be applied is refused where it is applied.
        let Ok(state) = with_writes(&*self.task.state, &input) else { return Ok(input) };
        let before = std::mem::replace(&mut self.task.state, Arc::new(state));
        let added = self.entering().await;
        self.task.state = before;
        let added = added.map_err(|error| self.in_hook(ON_ENTRY, error))?;
        Ok(input.into_iter().chain(added).collect())
    }

    /// What leaving a root adds to its last step.
    pub(super) async fn left(&mut self) -> Result<(), RunError> {
        let writes = self.leaving().await.map_err(|error| self.in_hook(ON_EXIT, error))?;
        if writes.is_empty() {
            return Ok(());
        }
        let graph = &*self.task.graph;
        let state = Arc::make_mut(&mut self.task.state);
        self.ledger.apply_outside(&graph.plan, &graph.channels, state, writes)?;
        self.emit_values();
        Ok(())
    }

    fn in_hook(&self, hook: &str, error: NodeError) -> RunError {
        RunError::Node { graph: self.graph_name(), node: hook.to_owned(), error }
    }
}
