use crate::checkpoint::{CodecError, SaverError};
use crate::config::Config;
use crate::engine::program::Program;
use crate::error::RunError;
use crate::state::Values;

/// A graph and one of its threads. Finds stored names in the graph, and mentions the graph and the thread in errors.
pub(crate) struct ThreadReader<'a, S: Values, C> {
    pub(crate) graph: &'a Program<S, C>,
    pub(crate) thread: &'a str,
}

impl<S: Values, C> Clone for ThreadReader<'_, S, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S: Values, C> Copy for ThreadReader<'_, S, C> {}

impl<'a, S: Values, C> ThreadReader<'a, S, C> {
    pub(crate) fn of_config(graph: &'a Program<S, C>, config: &'a Config) -> Result<Self, RunError> {
        let thread = config.thread_id().ok_or_else(|| RunError::NoThread { graph: graph.plan.graph().to_owned() })?;
        Ok(Self { graph, thread })
    }

    pub(crate) fn graph_name(&self) -> String {
        self.graph.plan.graph().to_owned()
    }

    /// The error for stored data that this program cannot use.
    #[allow(clippy::needless_pass_by_value)] // a text or an error, as the caller has it
    pub(crate) fn unfit(&self, reason: impl ToString) -> RunError {
        let (graph, thread) = (self.graph_name(), self.thread.to_owned());
        RunError::Incompatible { graph, thread, reason: reason.to_string() }
    }

    pub(crate) fn failed(&self, error: SaverError) -> RunError {
        RunError::Saver { graph: self.graph_name(), error }
    }

    /// Returns the index of a channel that was stored by its name.
    pub(crate) fn channel(&self, name: &str) -> Result<usize, CodecError> {
        let found = self.graph.channels.iter().position(|spec| spec.name == *name);
        found.ok_or_else(|| {
            CodecError::new(format!(
                "a task has written channel `{name}`, but the state no longer has it: finish the thread's superstep with the \
                 program that began it"
            ))
        })
    }
}
