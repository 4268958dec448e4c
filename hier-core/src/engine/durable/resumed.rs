//! Earlier progress of the tasks of the step that a run goes on with.

use std::sync::Arc;

use crate::checkpoint::CodecError;
use crate::engine::durable::answer::Open;
use crate::engine::durable::load::Reader;
use crate::engine::durable::pending::Pending;
use crate::engine::program::{Anyone, Done, Inbox, TaskKey};
use crate::error::RunError;
use crate::question::Question;
use crate::state::Values;

/// What is known of the tasks of the first step, if the run goes on where it stopped.
pub(crate) struct Resumed {
    pub(in crate::engine) pending: Pending,
    pub(in crate::engine) mode: Mode,
    /// An answer for whoever asks first.
    pub(in crate::engine) anyone: Option<Arc<Anyone>>,
    /// The questions that are open beside others that have their answers: who asked them waits.
    pub(in crate::engine) open: Option<Open>,
}

/// How far what tasks have done counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::engine) enum Mode {
    /// Tasks that are done do not run again.
    GoOn,
    /// All tasks run again, with the answers that they were given.
    Again,
    /// All tasks run again, as if none had run: what they have stored is void.
    Afresh,
}

/// What is known of a task when its step is taken up again.
pub(crate) enum Before<S: Values> {
    /// It is done.
    Done(Done<S>),
    /// It waits for the answers to these: others have been answered, and it does not run before it is.
    Waits(Vec<Question>),
    /// It runs.
    Open(Arc<Inbox>),
}

impl Resumed {
    /// Nothing is known of the tasks; one of them can take this answer.
    pub(in crate::engine) fn offered(anyone: Arc<Anyone>) -> Self {
        Self { pending: Pending::default(), mode: Mode::Afresh, anyone: Some(anyone), open: None }
    }

    /// The first slot that a task has not written.
    pub(crate) fn free_slot(&self, place: &str) -> i32 {
        self.pending.free_slot(place)
    }

    /// What is known of a task: what it has done, or what it has to know to go on.
    pub(crate) fn task<S: Values, C>(
        &self,
        reader: &Reader<'_, S, C>,
        state: &S,
        key: TaskKey,
    ) -> Result<Before<S>, RunError> {
        let unfit = |error: CodecError| reader.unfit(error);
        let place = &*reader.graph.plan.path(key);
        if self.mode == Mode::GoOn
            && let Some(done) = self.pending.done(place, reader, state).map_err(unfit)?
        {
            return Ok(Before::Done(done));
        }
        let mut inbox = self.pending.inbox(place).map_err(unfit)?;
        if let Some(open) = &self.open {
            inbox.questions.iter_mut().for_each(|question| question.answered = !open.contains(&question.id));
            if !inbox.questions.is_empty() && inbox.questions.iter().all(|question| !question.answered) {
                return Ok(Before::Waits(inbox.questions));
            }
        }
        if self.mode != Mode::GoOn {
            inbox.failure = None;
        }
        inbox.is_afresh = self.mode == Mode::Afresh;
        inbox.anyone.clone_from(&self.anyone);
        Ok(Before::Open(Arc::new(inbox)))
    }
}
