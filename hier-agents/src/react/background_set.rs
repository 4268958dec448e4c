//! The background subagents of an agent, whatever their types.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use uuid::Uuid;

use crate::state::background::{BackgroundStatus, BackgroundSubagent, BackgroundSubagents};
use crate::state::base::BaseState;
use crate::state::counts::LayerCounts;
use crate::state::labels::ConversationLabels;
use hier_checkpoint::message::Message;
use hier_core::graph::Task;
use hier_core::state::{Contains, State, Values};
use hier_core::{NodeError, Question};

/// The end of a background subagent's run.
pub(crate) enum SubagentEnd {
    /// It has ended.
    Ended { report: String, is_success: bool, labels: ConversationLabels, counts: LayerCounts },
    /// It waits for answers.
    Asks(Vec<Question>),
    /// It cannot read the answer to this question.
    WrongAnswer(Box<Question>, String),
    /// It was stopped. It continues when the supervisor's thread does.
    Stopped,
    /// Its thread could not be read or written.
    Unstored(NodeError),
}

/// A subagent that can run in the background of an agent over `S`.
#[async_trait]
pub(crate) trait BackgroundRunner<S: Values, C>: Send + Sync {
    fn thread(&self, task: &Task<S, C>, handle: &str, record: &BackgroundSubagent) -> Arc<str>;

    /// Starts or continues a subagent, unless it is running in this run.
    fn start(
        &self,
        task: &Task<S, C>,
        handle: &str,
        record: &BackgroundSubagent,
        answers: Vec<(String, Value)>,
    ) -> Result<(), NodeError>;

    /// Sends a message to a subagent. Returns false if the subagent takes no messages.
    async fn send(&self, task: &Task<S, C>, thread: &str, id: Uuid, message: &Message) -> Result<bool, NodeError>;

    /// Returns the number of stored supersteps of a subagent, and of messages that it has not received.
    async fn progress(&self, task: &Task<S, C>, thread: &str) -> Result<(i64, usize), NodeError>;
}

/// The subagents that an agent may run in the background, by the names of their nodes.
pub(crate) struct BackgroundSet<S: Values, C>(pub(crate) Vec<NamedRunner<S, C>>);

type NamedRunner<S, C> = (Arc<str>, Arc<dyn BackgroundRunner<S, C>>);

impl<S: Values, C> Default for BackgroundSet<S, C> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<S: Values + Contains<BaseState>, C: Send + Sync + 'static> BackgroundSet<S, C> {
    pub(crate) fn runner(&self, record: &BackgroundSubagent) -> Option<&dyn BackgroundRunner<S, C>> {
        self.0.iter().find(|(node, _)| **node == *record.node).map(|(_, runner)| &**runner)
    }

    /// Continues the subagents that are not running, and stops those whose end is recorded.
    pub(crate) fn keep_running(&self, task: &Task<S, C>) -> Result<(), NodeError> {
        if self.0.is_empty() {
            return Ok(());
        }
        for (handle, record) in task.state().part().background_subagents.iter() {
            let Some(runner) = self.runner(record) else { continue };
            match record.status {
                BackgroundStatus::Running => runner.start(task, handle, record, Vec::new())?,
                _ => task.run().background().stop(&runner.thread(task, handle, record)),
            }
        }
        Ok(())
    }

    /// Stops the running subagents of an agent that ends. Returns the write that records it.
    pub(crate) fn end_all(&self, task: &Task<S, C>) -> Option<S::Write> {
        let running = task.state().part().background_subagents.running();
        let ended = running.filter_map(|(handle, record)| {
            let runner = self.runner(record)?;
            task.run().background().stop(&runner.thread(task, handle, record));
            Some((handle.to_owned(), record.with_status(BackgroundStatus::Cancelled)))
        });
        let ended: BackgroundSubagents = ended.collect();
        (!ended.is_empty()).then(|| BaseState::channels().background_subagents.write::<S>(ended))
    }
}
