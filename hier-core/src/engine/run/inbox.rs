//! Applies the messages of a thread's inbox between two supersteps.

use std::fmt::Display;
use std::sync::Arc;

use uuid::Uuid;

use crate::engine::attempt::route::merge;
use crate::engine::program::Task;
use crate::engine::run::runner::GraphRunner;
use crate::error::RunError;
use crate::state::{Values, Writes};

impl<S: Values, C: Send + Sync + 'static> GraphRunner<S, C> {
    /// Writes the waiting messages to the inbox channel, and returns their ids. The commit of the superstep must take
    /// these messages. After the last superstep, messages wait for the next run. A failure does not change the state.
    pub(super) async fn drain_inbox(&mut self) -> Result<Vec<Uuid>, RunError> {
        match self.task.graph.inbox {
            Some(channel) if !self.is_child() && !self.position.is_over() => Box::pin(self.drain_into(channel)).await,
            _ => Ok(Vec::new()),
        }
    }

    async fn drain_into(&mut self, channel: usize) -> Result<Vec<Uuid>, RunError> {
        let Some(journal) = &self.journal else { return Ok(Vec::new()) };
        let waiting = journal.log.committer.mail().await.map_err(|error| journal.saver(error))?;
        let (mut taken, mut writes) = (Vec::new(), Writes::<S>::new());
        for posted in waiting.into_iter().filter(|posted| posted.message.signal.is_none()) {
            let write = self.task.state.write_from(channel, false, &posted.message.value);
            writes.push(write.map_err(|error| self.bad_message(posted.message.id, error))?);
            taken.push(posted.message.id);
        }
        if !taken.is_empty() {
            self.check_messages(&taken, &writes)?;
            let Task { graph, state, .. } = &mut self.task;
            self.position.apply_outside(graph, Arc::make_mut(state), writes)?;
            self.emit_values();
        }
        Ok(taken)
    }

    /// Checks that the inbox channel accepts these messages, one after the other.
    fn check_messages(&self, messages: &[Uuid], writes: &Writes<S>) -> Result<(), RunError> {
        let mut state = S::clone(&self.task.state);
        for (message, write) in messages.iter().zip(writes) {
            merge(&mut state, write).map_err(|error| self.bad_message(*message, error))?;
        }
        Ok(())
    }

    fn bad_message(&self, message: Uuid, error: impl Display) -> RunError {
        let thread = self.task.run.shared.config.thread_id().unwrap_or_default().to_owned();
        let reason = format!(
            "the inbox channel does not accept the message `{message}`: {error}; remove it with \
             `graph.discard(\"{thread}\", id)` or `hier inbox discard {thread} {message}`, or change the channel's type"
        );
        RunError::Incompatible { graph: self.graph_name(), thread, reason }
    }
}
