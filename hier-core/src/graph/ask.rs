//! Declared questions in graphs: the argument of nodes, answers as inputs, and typed questions of outcomes and threads.

use std::marker::PhantomData;

use super::handler::{Extract, NoPayload};
use super::input::GraphInput;
use crate::engine::program::{Ask, Command, Input, Task};
use crate::engine::{Interrupted, Outcome, StateSnapshot};
use crate::error::NodeError;
use crate::question::{DeclaredQuestion, QuestionAnswer, QuestionError, QuestionFacts, QuestionSet, QuestionType};
use crate::state::secret::Shows;
use crate::state::{Reads, Values};

impl<'a, S: Values, C: Send + Sync + 'static, Q: DeclaredQuestion> Extract<'a, S, C> for Ask<Q> {
    type Accepts = NoPayload;
    const READS: Reads = Reads::Nothing;
    const QUESTIONS: QuestionFacts = QuestionFacts::One(QuestionType::of::<Q>());

    fn extract(task: &'a Task<S, C>) -> Result<Self, NodeError> {
        Ok(Self::of_task(task))
    }
}

/// A helper with which the code of `#[tool]` finds the questions that an argument of type `T` can ask. For a view or a
/// state, `QUESTIONS` is an inherent constant: such an argument asks nothing. For other types, it is the constant of
/// [`MayAsk`].
#[derive(Debug)]
pub struct ArgumentQuestions<T>(PhantomData<T>);

impl<T: Shows> ArgumentQuestions<T> {
    /// The argument asks nothing.
    pub const QUESTIONS: QuestionFacts = QuestionFacts::Nothing;
}

/// The fallback of [`ArgumentQuestions`] for types that are neither a view nor a state.
pub trait MayAsk {
    /// Unknown, because the type does not show which questions the argument asks.
    const QUESTIONS: QuestionFacts = QuestionFacts::Unknown;
}

impl<T> MayAsk for ArgumentQuestions<T> {}

impl<S: Values> From<QuestionAnswer> for Command<S> {
    fn from(answer: QuestionAnswer) -> Self {
        Self::from_iter([answer])
    }
}

impl<S: Values> FromIterator<QuestionAnswer> for Command<S> {
    fn from_iter<Answers: IntoIterator<Item = QuestionAnswer>>(answers: Answers) -> Self {
        Self::answers(answers.into_iter().map(|answer| (answer.id, answer.value)))
    }
}

impl<S: Values, I> GraphInput<S, I> for QuestionAnswer {
    fn into_input(self) -> Input<S> {
        Input::Command(Box::new(self.into()))
    }
}

impl<S: Values, I> GraphInput<S, I> for Vec<QuestionAnswer> {
    fn into_input(self) -> Input<S> {
        Input::Command(Box::new(self.into_iter().collect()))
    }
}

impl<S> Outcome<S> {
    /// Returns the open questions of the run with their types: `out.questions::<SupportQuestion>()?`. The list is empty
    /// if no question is open.
    ///
    /// # Errors
    ///
    /// Fails for a question that the graph does not declare. See [`QuestionSet::read`].
    pub fn questions<Q: QuestionSet>(&self) -> Result<Vec<Q>, QuestionError> {
        match self {
            Self::Interrupted(interrupted) => interrupted.questions(),
            Self::Finished(_) | Self::Stopped(_) => Ok(Vec::new()),
        }
    }
}

impl<S> Interrupted<S> {
    /// Returns the open questions with their types.
    ///
    /// # Errors
    ///
    /// Fails for a question that the graph does not declare. See [`QuestionSet::read`].
    pub fn questions<Q: QuestionSet>(&self) -> Result<Vec<Q>, QuestionError> {
        Q::read_open(&self.questions)
    }
}

impl<S: Values> StateSnapshot<S> {
    /// Returns the open questions of the thread with their types.
    ///
    /// # Errors
    ///
    /// Fails for a question that the graph does not declare. See [`QuestionSet::read`].
    pub fn questions<Q: QuestionSet>(&self) -> Result<Vec<Q>, QuestionError> {
        Q::read_open(&self.questions)
    }
}
