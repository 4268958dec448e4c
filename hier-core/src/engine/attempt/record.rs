//! Writes down what a task has done, as soon as it has done it.

use uuid::Uuid;

use crate::checkpoint::{PendingWrite, SaverError, TaskWrites, slot};
use crate::engine::attempt::stored;
use crate::engine::attempt::stored::Failed;
use crate::engine::log::task_log::{Around, TaskLog};
use crate::engine::program::{Done, Inbox, Run, Task, TaskAnswer};
use crate::error::{NodeError, NodeErrorKind};
use crate::question::Question;
use crate::state::Values;

impl TaskLog {
    /// A task has ended. Its writes and its routing are stored together, and only then does it count as done.
    pub(crate) async fn ended<S: Values, C>(
        &self,
        task: &Task<S, C>,
        result: &Result<Done<S>, NodeError>,
    ) -> Result<(), NodeError> {
        let inbox = task.run.inbox.as_deref();
        let first = inbox.map_or(0, |inbox| inbox.free_slot);
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
                _ => failure(task.run.task_id(), inbox, error)?,
            },
        };
        let is_wrong = result.as_ref().is_err_and(|error| matches!(error.kind(), NodeErrorKind::WrongAnswer { .. }));
        if !is_wrong {
            writes.extend(took(inbox)?);
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
    pub(crate) async fn done_alone<C>(&self, run: &Run<C>, writes: Vec<PendingWrite>) -> Result<(), NodeError> {
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
        let inbox = run.inbox.as_deref();
        let (message, void) = (error.to_string(), inbox.and_then(|inbox| inbox.void));
        let mut writes = vec![failed(&Failed { message, handled: true, void })?];
        writes.extend(took(inbox)?);
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
fn nobody_elses<C>(run: &Run<C>) -> Option<Around> {
    let inbox = run.inbox.as_ref().filter(|inbox| inbox.taken.get().is_some())?;
    let anyone = inbox.anyone.as_ref()?;
    let writes = vec![stored::no_answer_for_anyone()];
    let writes = TaskWrites { checkpoint: anyone.checkpoint, task: Uuid::nil(), path: "~".into(), writes };
    Some(Around { namespace: anyone.namespace.clone(), writes })
}

/// Why a task failed. What it had done before and could not be applied stays void, and a question that was given a wrong
/// answer in a graph inside is open again. The answer is taken back if it is stored with this task.
fn failure(task: Uuid, inbox: Option<&Inbox>, error: &NodeError) -> Result<Vec<PendingWrite>, NodeError> {
    let void = inbox.and_then(|inbox| inbox.void);
    let mut writes = vec![failed(&Failed { message: error.to_string(), void, ..Failed::default() })?];
    if let (Some(wrong), Some(inbox)) = (error.wrongly_answered(), inbox) {
        let mut questions = inbox.questions.clone();
        questions.iter_mut().filter(|question| question.id == wrong.id).for_each(|question| question.answered = false);
        writes.push(asks(&questions)?);
        let own = wrong.asker.as_ref().filter(|asker| asker.task == task);
        writes.extend(own.map(|asker| stored::no_answer(asker.number)));
    }
    Ok(writes)
}

/// The answer for whoever asks first, if the task has taken it.
fn took(inbox: Option<&Inbox>) -> Result<Option<PendingWrite>, NodeError> {
    let taken = inbox.and_then(|inbox| inbox.taken.get());
    taken.map(|TaskAnswer { number, identity, value }| stored::answer(*number, identity, value)).transpose()
}

/// The stored form of the questions of a task.
fn asks(questions: &[Question]) -> Result<PendingWrite, NodeError> {
    stored::entry(slot::INTERRUPT, stored::INTERRUPT, questions)
}

pub(in crate::engine) fn failed(failed: &Failed) -> Result<PendingWrite, NodeError> {
    stored::entry(slot::ERROR, stored::ERROR, failed)
}

/// The error for the writes of a task that could not be stored.
pub(in crate::engine) fn unsaved(error: SaverError) -> NodeError {
    NodeError::from_kind(NodeErrorKind::Saver(error), false)
}
