//! Earlier progress of the tasks of the step that a run goes on with.

use std::sync::Arc;

use crate::checkpoint::CodecError;
use crate::engine::durable::commands::OpenQuestionIds;
use crate::engine::durable::pending::Pending;
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::program::{TaskKey, TaskOutcome, TaskResume, UnaddressedAnswer};
use crate::error::RunError;
use crate::question::Question;
use crate::state::Values;

/// What is known of the tasks of the first step, if the run goes on where it stopped.
pub(crate) struct ResumedStep {
    pub(in crate::engine) pending: Pending,
    pub(in crate::engine) mode: ResumeMode,
    /// An answer for whoever asks first.
    pub(in crate::engine) unaddressed: Option<Arc<UnaddressedAnswer>>,
    /// The questions that are open beside others that have their answers: who asked them waits.
    pub(in crate::engine) open: Option<OpenQuestionIds>,
}

/// How far what tasks have done counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum ResumeMode {
    /// Tasks that are done do not run again.
    Continue,
    /// All tasks run again, with the answers that they were given.
    Again,
    /// All tasks run again, as if none had run: what they have stored is void.
    Afresh,
}

/// What is known of a task when its step is taken up again.
pub(crate) enum TaskProgress<S: Values> {
    /// It is done.
    Done(TaskOutcome<S>),
    /// It waits for the answers to these: others have been answered, and it does not run before it is.
    Waits(Vec<Question>),
    /// It runs.
    Open(Arc<TaskResume>),
}

impl ResumedStep {
    /// Nothing is known of the tasks; one of them can take this answer.
    pub(in crate::engine) fn offered(unaddressed: Arc<UnaddressedAnswer>) -> Self {
        Self { pending: Pending::default(), mode: ResumeMode::Afresh, unaddressed: Some(unaddressed), open: None }
    }

    /// The first slot that a task has not written.
    pub(crate) fn free_slot(&self, place: &str) -> i32 {
        self.pending.free_slot(place)
    }

    /// What is known of a task: what it has done, or what it has to know to go on.
    pub(crate) fn task<S: Values, C>(
        &self,
        reader: ThreadReader<'_, S, C>,
        state: &S,
        key: TaskKey,
    ) -> Result<TaskProgress<S>, RunError> {
        let unfit = |error: CodecError| reader.unfit(error);
        let place = &*reader.graph.plan.path(key);
        if self.mode == ResumeMode::Continue
            && let Some(done) = self.pending.done(place, reader, state).map_err(unfit)?
        {
            return Ok(TaskProgress::Done(done));
        }
        let mut resume = self.pending.resume(place).map_err(unfit)?;
        if let Some(open) = &self.open {
            resume.questions.iter_mut().for_each(|question| question.answered = !open.contains(&question.id));
            if !resume.questions.is_empty() && resume.questions.iter().all(|question| !question.answered) {
                return Ok(TaskProgress::Waits(resume.questions));
            }
        }
        if self.mode != ResumeMode::Continue {
            resume.failure = None;
        }
        resume.is_afresh = self.mode == ResumeMode::Afresh;
        resume.unaddressed.clone_from(&self.unaddressed);
        Ok(TaskProgress::Open(Arc::new(resume)))
    }
}
