use std::sync::Arc;

use crate::checkpoint::CodecError;
use crate::engine::durable::commands::OpenQuestionIds;
use crate::engine::durable::pending::Pending;
use crate::engine::durable::thread_reader::ThreadReader;
use crate::engine::program::{TaskKey, TaskOutcome, TaskResume, UnaddressedAnswer};
use crate::error::RunError;
use crate::question::Question;
use crate::state::Values;

/// The earlier progress of the tasks of a resumed superstep.
pub(crate) struct ResumedStep {
    pub(in crate::engine) pending: Pending,
    pub(in crate::engine) mode: ResumeMode,
    /// An answer for the first task that asks.
    pub(in crate::engine) unaddressed: Option<Arc<UnaddressedAnswer>>,
    /// The open questions of the superstep, if other questions of it have been answered. The tasks that asked the open
    /// questions wait.
    pub(in crate::engine) open: Option<OpenQuestionIds>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum ResumeMode {
    /// Finished tasks do not run again.
    Continue,
    /// All tasks run again, with their answers.
    Again,
    /// All tasks run again without earlier results and answers.
    Afresh,
}

pub(crate) enum TaskProgress<S: Values> {
    Done(TaskOutcome<S>),
    /// The task waits for answers to its questions, because only questions of other tasks have been answered.
    Waits(Vec<Question>),
    Open(Arc<TaskResume>),
}

impl ResumedStep {
    /// Returns a new superstep in which one task can take this answer.
    pub(in crate::engine) fn offered(unaddressed: Arc<UnaddressedAnswer>) -> Self {
        Self { pending: Pending::default(), mode: ResumeMode::Afresh, unaddressed: Some(unaddressed), open: None }
    }

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
