//! Records the result of a task as soon as it ends.

use uuid::Uuid;

use crate::checkpoint::{PendingWrite, TaskWrites, slot};
use crate::engine::attempt::stored;
use crate::engine::attempt::stored::FailureRecord;
use crate::engine::log::task_log::{NamespacedWrites, TaskLog};
use crate::engine::program::{Run, Task, TaskAnswer, TaskOutcome, TaskResume, unsaved};
use crate::error::{NodeError, NodeErrorKind};
use crate::question::Question;
use crate::state::Values;

impl TaskLog {
    /// Records the end of a task. One commit stores the writes and the routing, and only then the task counts as done.
    pub(crate) async fn record_end<S: Values, C>(
        &self,
        task: &Task<S, C>,
        result: &Result<TaskOutcome<S>, NodeError>,
    ) -> Result<(), NodeError> {
        let resume = task.run.resume.as_deref();
        let first = resume.map_or(0, |resume| resume.free_slot);
        let mut writes = match result {
            Ok(done) if done.is_for_parent() => return Ok(()),
            Ok(done) => stored::done(&task.graph, first, done)?,
            Err(error) => match error.kind() {
                NodeErrorKind::Interrupt(questions) => vec![asks(questions)?],
                NodeErrorKind::WrongAnswer { question, .. } => {
                    let number = question.asker.as_ref().map_or(0, |asker| asker.number);
                    vec![asks(std::slice::from_ref(question))?, stored::no_answer(number)]
                }
                NodeErrorKind::Saver(_) => return Ok(()),
                _ if error.is_of_handler() => Vec::new(),
                _ => failure(task.run.task_id(), resume, error)?,
            },
        };
        let is_wrong = result.as_ref().is_err_and(|error| matches!(error.kind(), NodeErrorKind::WrongAnswer { .. }));
        if !is_wrong {
            writes.extend(took(resume)?);
        }
        match result.as_ref().map_err(NodeError::kind) {
            Err(NodeErrorKind::Interrupt(questions)) if questions.iter().any(Question::is_woken) => {
                self.record_wait(&task.run, writes, questions).await?;
            }
            _ => self.record_task(&task.run, writes).await?,
        }
        Ok(())
    }

    async fn record_wait<C>(
        &self,
        run: &Run<C>,
        writes: Vec<PendingWrite>,
        asked: &[Question],
    ) -> Result<(), NodeError> {
        let Some(checkpoint) = run.base else { return Ok(()) };
        let writes = TaskWrites { checkpoint, task: run.task_id(), path: run.place(), writes };
        let due = asked.iter().filter_map(|question| question.due).min();
        Box::pin(self.write_due(writes, removal_of_unaddressed_answer(run), due)).await.map_err(unsaved)
    }

    /// Records that the error handler takes over from the node.
    pub(crate) async fn handled<C>(&self, run: &Run<C>, error: &NodeError) -> Result<(), NodeError> {
        let resume = run.resume.as_deref();
        let (message, void) = (error.to_string(), resume.and_then(|resume| resume.void));
        let mut writes = vec![failed(&FailureRecord { message, handled: true, void })?];
        writes.extend(took(resume)?);
        self.record_task(run, writes).await
    }

    /// Records these writes of a task.
    pub(crate) async fn record_task<C>(&self, run: &Run<C>, writes: Vec<PendingWrite>) -> Result<(), NodeError> {
        let Some(checkpoint) = run.base else { return Ok(()) };
        let path = run.place();
        let writes = TaskWrites { checkpoint, task: run.task_id(), path, writes };
        self.write_with(writes, removal_of_unaddressed_answer(run)).await.map_err(unsaved)
    }
}

/// Returns the record that removes the answer for the first task that asks, if this task has taken the answer. One
/// commit removes the answer and stores it with the task, so that no run finds it twice.
fn removal_of_unaddressed_answer<C>(run: &Run<C>) -> Option<NamespacedWrites> {
    let resume = run.resume.as_ref().filter(|resume| resume.taken.get().is_some())?;
    let unaddressed = resume.unaddressed.as_ref()?;
    let writes = vec![stored::no_answer_for_anyone()];
    let writes = TaskWrites { checkpoint: unaddressed.checkpoint, task: Uuid::nil(), path: "~".into(), writes };
    Some(NamespacedWrites { namespace: unaddressed.namespace.clone(), writes })
}

/// Returns the records of a failure. Results that could not be applied stay void. If a question in a subgraph received
/// a wrong answer, the question is open again. If this task stored that answer, the answer is removed.
fn failure(task: Uuid, resume: Option<&TaskResume>, error: &NodeError) -> Result<Vec<PendingWrite>, NodeError> {
    let void = resume.and_then(|resume| resume.void);
    let mut writes = vec![failed(&FailureRecord { message: error.to_string(), void, ..FailureRecord::default() })?];
    if let (Some(wrong), Some(resume)) = (error.wrongly_answered(), resume) {
        let mut questions = resume.questions.clone();
        questions.iter_mut().filter(|question| question.id == wrong.id).for_each(|question| question.answered = false);
        writes.push(asks(&questions)?);
        let own = wrong.asker.as_ref().filter(|asker| asker.task == task);
        writes.extend(own.map(|asker| stored::no_answer(asker.number)));
    }
    Ok(writes)
}

fn took(resume: Option<&TaskResume>) -> Result<Option<PendingWrite>, NodeError> {
    let taken = resume.and_then(|resume| resume.taken.get());
    taken.map(|TaskAnswer { number, identity, value }| stored::answer(*number, identity, value)).transpose()
}

fn asks(questions: &[Question]) -> Result<PendingWrite, NodeError> {
    stored::entry(slot::INTERRUPT, stored::INTERRUPT, questions)
}

pub(in crate::engine) fn failed(failed: &FailureRecord) -> Result<PendingWrite, NodeError> {
    stored::entry(slot::ERROR, stored::ERROR, failed)
}
