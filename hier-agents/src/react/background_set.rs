//! The background subagents of an agent, independent of the types of their states.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use uuid::Uuid;

use super::background_calls::EndingCalls;
use crate::state::background::{BackgroundStatus, BackgroundSubagent, BackgroundSubagents};
use crate::state::base::BaseState;
use crate::state::counts::{self, LayerCounts};
use crate::state::labels::ConversationLabels;
use hier_checkpoint::message::Message;
use hier_core::graph::{Command, Task};
use hier_core::state::{Contains, State, Values};
use hier_core::{NodeError, Question};

/// The end of a background subagent's run.
pub(crate) enum SubagentEnd {
    /// The subagent has ended.
    Ended { report: String, is_success: bool, labels: ConversationLabels },
    /// The subagent waits for answers.
    Asks(Vec<Question>),
    /// The subagent cannot read the answer to this question.
    WrongAnswer(Box<Question>, String),
    /// The subagent was stopped. It continues when the supervisor's thread continues.
    Stopped,
    /// Another run drives the subagent, which is detached.
    Elsewhere,
    /// The subagent's thread could not be read or written.
    Unstored(NodeError),
}

/// A subagent that can run in the background of an agent over `S`.
#[async_trait]
pub(crate) trait BackgroundRunner<S: Values, C>: Send + Sync {
    fn graph(&self) -> &str;

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

    /// Returns the counts of layers that a subagent and the agents below have added since the subagent started, as far
    /// as their threads contain the counts. The subagent must not be running.
    async fn spent(
        &self,
        task: &Task<S, C>,
        thread: &str,
        record: &BackgroundSubagent,
    ) -> Result<LayerCounts, NodeError>;

    /// Returns the number of stored supersteps of a subagent, and the number of messages that it has not received.
    async fn progress(&self, task: &Task<S, C>, thread: &str) -> Result<(i64, usize), NodeError>;

    /// Returns true if a subagent that continues from its checkpoint would end at once.
    async fn stands_still(&self, task: &Task<S, C>, thread: &str) -> bool;

    /// Returns true if the subagent continues when the supervisor's turn ends.
    fn is_detached(&self) -> bool;
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
    /// Returns true if some of the subagents continue when the turn ends.
    pub(crate) fn has_detached(&self) -> bool {
        self.0.iter().any(|(_, runner)| runner.is_detached())
    }

    pub(crate) fn runner(&self, record: &BackgroundSubagent) -> Option<&dyn BackgroundRunner<S, C>> {
        self.0.iter().find(|(node, _)| **node == *record.node).map(|(_, runner)| &**runner)
    }

    /// Continues the subagents that are not running, and stops the subagents whose end is recorded. If a call of an
    /// open reply ends a subagent, only this call continues the subagent. An earlier attempt of the call may have ended
    /// it.
    pub(crate) fn keep_running(&self, task: &Task<S, C>) -> Result<(), NodeError> {
        if self.0.is_empty() {
            return Ok(());
        }
        let base = task.state().part();
        if base.background_subagents.is_empty() {
            return Ok(());
        }
        let ending = EndingCalls::of(base);
        for (handle, record) in base.background_subagents.iter() {
            let Some(runner) = self.runner(record) else { continue };
            match record.status {
                BackgroundStatus::Running if ending.ends(handle) => {}
                BackgroundStatus::Running => runner.start(task, handle, record, Vec::new())?,
                _ => task.run().background().stop(&runner.thread(task, handle, record)),
            }
        }
        Ok(())
    }

    /// Cancels the running subagents of an agent that ends with this command. Adds the writes that record their ends to
    /// the command. A detached subagent continues if a later turn can collect its report.
    pub(crate) async fn end_all(&self, task: &Task<S, C>, command: &mut Command<S>) -> Result<(), NodeError> {
        let mut ended = Vec::new();
        for (handle, record) in task.state().part().background_subagents.running() {
            let Some(runner) = self.runner(record) else { continue };
            if runner.is_detached() && task.run().can_detach() {
                continue;
            }
            let thread = runner.thread(task, handle, record);
            task.run().background().cancel(&thread).await;
            let end = (handle.to_owned(), record.with_status(BackgroundStatus::Cancelled));
            ended.push((thread, end));
        }
        let writes = self.record_ends(task, ended).await?;
        for write in writes {
            command.writes.push(write);
        }
        Ok(())
    }

    /// Returns the writes that record the ends of subagents and the counts of their layers.
    pub(crate) async fn record_ends(
        &self,
        task: &Task<S, C>,
        ended: Vec<(Arc<str>, (String, BackgroundSubagent))>,
    ) -> Result<Vec<S::Write>, NodeError> {
        let mut counts = LayerCounts::new();
        for (thread, (_, record)) in &ended {
            let Some(runner) = self.runner(record) else { continue };
            counts::merge(&mut counts, runner.spent(task, thread, record).await?);
        }
        let (channels, records) = (BaseState::channels(), records(ended));
        let records = (!records.is_empty()).then(|| channels.background_subagents.write::<S>(records));
        let counts = (!counts.is_empty()).then(|| channels.layer_counts.write::<S>(counts));
        Ok(records.into_iter().chain(counts).collect())
    }
}

fn records(ended: Vec<(Arc<str>, (String, BackgroundSubagent))>) -> BackgroundSubagents {
    ended.into_iter().map(|(_, end)| end).collect()
}
