//! Where tasks write down what they have done, as soon as they have done it.

use std::sync::{Arc, Mutex};

use super::Committer;
use super::pending::{self, Failed};
use crate::checkpoint::{PendingWrite, Record, SaverError, TaskWrites, slot};
use crate::config::{Durability, lock};
use crate::engine::exec::Done;
use crate::engine::outcome::Question;
use crate::error::{NodeError, NodeErrorKind};
use crate::graph::Task;
use crate::run::Run;
use crate::state::Values;

/// What the tasks of one graph of a durable run have done.
pub(crate) struct Book {
    pub(crate) committer: Arc<Committer>,
    pub(crate) namespace: Arc<str>,
    /// What is stored when the run ends, if nothing is stored before.
    held: Mutex<Vec<TaskWrites>>,
}

impl Book {
    pub(crate) fn new(committer: Arc<Committer>, namespace: Arc<str>) -> Self {
        Self { committer, namespace, held: Mutex::default() }
    }

    /// Whether records are kept until the run ends.
    pub(crate) fn holds(&self) -> bool {
        self.committer.durability == Durability::Exit
    }

    /// A task has ended. Its writes and its routing are stored together, and only then does it count as done.
    pub(crate) async fn ended<S: Values, C>(
        &self,
        task: &Task<S, C>,
        result: &Result<Done<S>, NodeError>,
    ) -> Result<(), NodeError> {
        let first = task.run.inbox.as_ref().map_or(0, |inbox| inbox.free_slot);
        let writes = match result {
            Ok(done) if done.is_for_parent() => return Ok(()),
            Ok(done) => pending::done(&task.graph.plan, first, done)?,
            Err(error) => match error.kind() {
                NodeErrorKind::Interrupt(questions) => vec![asks(questions)?],
                NodeErrorKind::WrongAnswer { question, .. } => {
                    let number = question.asker.as_ref().map_or(0, |asker| asker.number);
                    vec![asks(std::slice::from_ref(question))?, pending::no_answer(number)]
                }
                NodeErrorKind::Saver(_) => return Ok(()),
                _ => vec![failed(&Failed { message: error.to_string(), ..Failed::default() })?],
            },
        };
        self.task(&task.run, writes).await
    }

    /// A task has failed, and its handler takes over.
    pub(crate) async fn handled<C>(&self, run: &Run<C>, error: &NodeError) -> Result<(), NodeError> {
        let record = failed(&Failed { message: error.to_string(), handled: true, ..Failed::default() })?;
        self.task(run, vec![record]).await
    }

    async fn task<C>(&self, run: &Run<C>, writes: Vec<PendingWrite>) -> Result<(), NodeError> {
        let Some(checkpoint) = run.base else { return Ok(()) };
        let path = run.shared.plan.path(run.key).into();
        self.write(TaskWrites { checkpoint, task: run.task_id(), path, writes }).await.map_err(unsaved)
    }

    /// Stores what a task has done.
    pub(crate) async fn write(&self, writes: TaskWrites) -> Result<(), SaverError> {
        if self.holds() {
            lock(&self.held).push(writes);
            return Ok(());
        }
        self.committer.commit(vec![self.record(writes)]).await
    }

    pub(crate) fn record(&self, writes: TaskWrites) -> Record {
        Record::Writes { namespace: self.namespace.clone(), writes }
    }

    /// What was kept for the end of the run.
    pub(crate) fn take_held(&self) -> Vec<TaskWrites> {
        std::mem::take(&mut lock(&self.held))
    }
}

/// What a task asks, as it is stored.
fn asks(questions: &[Question]) -> Result<PendingWrite, NodeError> {
    pending::entry(slot::INTERRUPT, pending::INTERRUPT, questions)
}

pub(super) fn failed(failed: &Failed) -> Result<PendingWrite, NodeError> {
    pending::entry(slot::ERROR, pending::ERROR, failed)
}

/// What a task has done could not be stored.
pub(super) fn unsaved(error: SaverError) -> NodeError {
    NodeError::from_kind(NodeErrorKind::Saver(error), false)
}
