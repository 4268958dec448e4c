//! Writes down what a task has done, as soon as it has done it.

use uuid::Uuid;

use crate::checkpoint::{PendingWrite, SaverError, TaskWrites, slot};
use crate::engine::attempt::stored;
use crate::engine::attempt::stored::FailureRecord;
use crate::engine::log::task_log::{NamespacedWrites, TaskLog};
use crate::engine::program::{Run, Task, TaskAnswer, TaskOutcome, TaskResume};
use crate::error::{NodeError, NodeErrorKind};
use crate::question::Question;
use crate::state::Values;

impl TaskLog {
    /// A task has ended. Its writes and its routing are stored together, and only then does it count as done.
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
                self.waits(&task.run, writes, questions).await?;
            }
            _ => self.task(&task.run, writes).await?,
        }
        Ok(())
    }

    /// A task that ran alone has ended, and these are its writes with its routing.
    pub(crate) async fn record_done<C>(&self, run: &Run<C>, writes: Vec<PendingWrite>) -> Result<(), NodeError> {
        self.task(run, writes).await
    }

    /// A task waits for a time or a signal.
    async fn waits<C>(&self, run: &Run<C>, writes: Vec<PendingWrite>, asked: &[Question]) -> Result<(), NodeError> {
        let Some(checkpoint) = run.base else { return Ok(()) };
        let writes = TaskWrites { checkpoint, task: run.task_id(), path: run.place(), writes };
        let due = asked.iter().filter_map(|question| question.due).min();
        Box::pin(self.write_due(writes, nobody_elses(run), due)).await.map_err(unsaved)
    }

    /// A task has failed, and its handler takes over.
    pub(crate) async fn handled<C>(&self, run: &Run<C>, error: &NodeError) -> Result<(), NodeError> {
        let resume = run.resume.as_deref();
        let (message, void) = (error.to_string(), resume.and_then(|resume| resume.void));
        let mut writes = vec![failed(&FailureRecord { message, handled: true, void })?];
        writes.extend(took(resume)?);
        self.task(run, writes).await
    }

    async fn task<C>(&self, run: &Run<C>, writes: Vec<PendingWrite>) -> Result<(), NodeError> {
        let Some(checkpoint) = run.base else { return Ok(()) };
        let path = run.place();
        let writes = TaskWrites { checkpoint, task: run.task_id(), path, writes };
        self.write_with(writes, nobody_elses(run)).await.map_err(unsaved)
    }
}

/// The answer for whoever asks first, if this task has taken it: it is no other's, whatever becomes of the task. It is taken back where
/// it waits in the commit that stores it with the task, so that nobody ever finds two.
fn nobody_elses<C>(run: &Run<C>) -> Option<NamespacedWrites> {
    let resume = run.resume.as_ref().filter(|resume| resume.taken.get().is_some())?;
    let unaddressed = resume.unaddressed.as_ref()?;
    let writes = vec![stored::no_answer_for_anyone()];
    let writes = TaskWrites { checkpoint: unaddressed.checkpoint, task: Uuid::nil(), path: "~".into(), writes };
    Some(NamespacedWrites { namespace: unaddressed.namespace.clone(), writes })
}

/// Why a task failed. What it had done before and could not be applied stays void, and a question that was given a wrong
/// answer in a graph inside is open again. The answer is taken back if it is stored with this task.
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

/// The answer for whoever asks first, if the task has taken it.
fn took(resume: Option<&TaskResume>) -> Result<Option<PendingWrite>, NodeError> {
    let taken = resume.and_then(|resume| resume.taken.get());
    taken.map(|TaskAnswer { number, identity, value }| stored::answer(*number, identity, value)).transpose()
}

/// The stored form of the questions of a task.
fn asks(questions: &[Question]) -> Result<PendingWrite, NodeError> {
    stored::entry(slot::INTERRUPT, stored::INTERRUPT, questions)
}

pub(in crate::engine) fn failed(failed: &FailureRecord) -> Result<PendingWrite, NodeError> {
    stored::entry(slot::ERROR, stored::ERROR, failed)
}

/// The error for the writes of a task that could not be stored.
pub(in crate::engine) fn unsaved(error: SaverError) -> NodeError {
    NodeError::from_kind(NodeErrorKind::Saver(error), false)
}
