use std::sync::Arc;

use crate::checkpoint::Source;
use crate::engine::run::runner::GraphRunner;
use crate::engine::step::Applied;
use crate::engine::stream::event::{CheckpointEvent, Event, StreamMode};
use crate::state::Values;
use crate::state::secret::without_secrets;

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    /// Returns true for a subgraph. A superstep with a subgraph always counts as having written, because a subgraph
    /// returns all its channels in LangGraph.
    pub(super) fn runs_graph(&self, node: usize) -> bool {
        self.task.graph.child(node).is_some()
    }

    pub(super) fn emit_values_of(&self, written: bool, tasks: &[Applied<S>]) {
        if written || tasks.iter().filter_map(|task| task.node).any(|node| self.runs_graph(node)) {
            self.emit_values();
        }
    }

    pub(super) fn emit_values(&self) {
        if let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Values)) {
            emitter.emit(Event::Values(self.shown_state()));
        }
    }

    fn shown_state(&self) -> Arc<S> {
        without_secrets(&self.task.state, &self.task.graph.channels)
    }

    pub(super) fn emit_checkpoint(&self, step: i64, source: Source) {
        let Some(emitter) = self.emitter.as_ref().filter(|emitter| emitter.wants(StreamMode::Checkpoints)) else {
            return;
        };
        let Some((id, parent)) = self.journal.as_ref().and_then(|journal| Some((journal.base?, journal.before))) else {
            return;
        };
        let starts = source == Source::Input || self.position.has_input();
        let next = if starts { vec![hier_spec::START.to_owned()] } else { self.next() };
        let state = self.shown_state();
        emitter.emit(Event::Checkpoint(CheckpointEvent { id, parent, step, source, state, next }));
    }
}
