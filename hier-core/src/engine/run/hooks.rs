//! Runs `on_entry` and `on_exit`.

use std::sync::Arc;

use uuid::Uuid;

use crate::engine::attempt::exec::call_node;
use crate::engine::attempt::route::with_writes;
use crate::engine::program::{Body, By, Task};
use crate::engine::run::runner::GraphRunner;
use crate::error::{NodeError, NodeErrorKind, RunError};
use crate::state::{Values, Writes};

const ON_ENTRY: &str = "on_entry";
const ON_EXIT: &str = "on_exit";

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    /// Runs `on_exit` and returns its writes.
    pub(super) async fn leaving(&self) -> Result<Writes<S>, NodeError> {
        self.hook(ON_EXIT, self.task.graph.hooks.on_exit.as_ref(), self.task.state.clone()).await
    }

    async fn hook(&self, name: &'static str, hook: Option<&Body<S, C>>, state: Arc<S>) -> Result<Writes<S>, NodeError> {
        let Some(hook) = hook else { return Ok(Writes::new()) };
        let refuse =
            |what| NodeError::permanent(format!("code of `on_entry` and `on_exit` cannot {what}: move it to a node"));
        let mut task = Task { state, ..self.task.clone() };
        task.run.key.step = self.step;
        task.run.hook = Some(Box::new((name, self.hook_id(name))));
        match call_node(&task, hook).await {
            Ok(output) if output.gotos.is_some() => Err(refuse("choose targets")),
            Ok(output) => Ok(output.writes),
            Err(error) if matches!(error.kind(), NodeErrorKind::Interrupt(_)) => Err(refuse("ask")),
            Err(error) => Err(error),
        }
    }

    /// Returns the task id of the hook. The id stays the same if the hook runs again for the same call or the same end
    /// of a run. Each input of a root graph gets a new id.
    fn hook_id(&self, name: &str) -> Uuid {
        let shared = &self.task.run.shared;
        let is_stored = self.is_child() || name == ON_EXIT || self.position.waits_to_be_entered();
        let base = match &self.journal {
            Some(journal) if is_stored => journal.base.unwrap_or_default(),
            None if self.is_child() => Uuid::nil(),
            _ => shared.checkpoint_id(self.step),
        };
        let mut text = Vec::new();
        for id in shared.parents.iter().flat_map(|parents| parents.values()).chain([&base]) {
            text.extend_from_slice(id.as_bytes());
        }
        for part in shared.namespace.iter().map(String::as_str).chain([name]) {
            text.extend_from_slice(part.as_bytes());
            text.push(b'|');
        }
        Uuid::from_u128(xxhash_rust::xxh3::xxh3_128(&text))
    }

    /// Enters the graph with an input that `update_state` has stored, if the superstep that ends now is applied.
    pub(super) async fn enter_stored(&mut self, is_applied: bool) -> Result<(), RunError> {
        if !is_applied || !self.position.waits_to_be_entered() {
            return Ok(());
        }
        let input = self.enter_graph(self.position.input().cloned().unwrap_or_default()).await?;
        self.position.set_input(Some(input));
        Ok(())
    }

    /// Enters the graph. Returns the prepared input and the writes of `on_entry`, in this order.
    pub(super) async fn enter_graph(&self, input: Writes<S>) -> Result<Writes<S>, RunError> {
        let input = match self.task.graph.prepare() {
            Some(prepare) => prepare(&self.task.state, self.withdrawn.as_deref(), input),
            None => input,
        };
        let Some(hook) = &self.task.graph.hooks.on_entry else { return Ok(input) };
        // The superstep that applies these writes refuses them with an error.
        let Ok(state) = with_writes(&*self.task.state, &input) else { return Ok(input) };
        let added = self.hook(ON_ENTRY, Some(hook), Arc::new(state)).await;
        let added = added.map_err(|error| self.in_hook(ON_ENTRY, error))?;
        Ok(input.into_iter().chain(added).collect())
    }

    /// Returns true if a durable root graph may end after this node, which runs alone. The result of the node is then
    /// stored before `on_exit` runs. A plain edge leads to another node, unless the error handler produced the result.
    #[inline]
    pub(super) fn may_be_left(&self, node: usize, by: By) -> bool {
        let continues = by != By::Handler && !self.task.graph.plan.exits[node].signals.is_empty();
        self.journal.is_some() && self.is_left() && !continues
    }

    /// If a root graph has finished, adds the writes of `on_exit` to its last superstep. Stores the results of that
    /// superstep first, so that its tasks do not run again if `on_exit` fails.
    pub(super) async fn leave_if_over(&mut self) -> Result<(), RunError> {
        let done = self.last_task.take();
        if !self.is_left() || !self.position.is_over() {
            return Ok(());
        }
        if let (Some(done), Some(log)) = (done, &self.task.run.shared.log) {
            log.record_task(&self.task.run, done).await.map_err(|error| self.failed(self.task.run.key.node, error))?;
        }
        let writes = self.leaving().await.map_err(|error| self.in_hook(ON_EXIT, error))?;
        if writes.is_empty() {
            return Ok(());
        }
        let Task { graph, state, .. } = &mut self.task;
        self.position.apply_outside(graph, Arc::make_mut(state), writes)?;
        self.emit_values();
        Ok(())
    }

    fn in_hook(&self, hook: &str, error: NodeError) -> RunError {
        RunError::Node { graph: self.graph_name(), node: hook.to_owned(), error }
    }
}
