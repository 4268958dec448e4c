//! Questions that a task asks.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::numbers::Around;
use super::{Run, StepKey};
use crate::checkpoint::{CodecError, codec};
use crate::error::{NodeError, NodeErrorKind};
use crate::question::{Asker, Question};

/// Says what is wrong with an answer.
type Check<'a> = Box<dyn Fn(&Value) -> Result<(), String> + Send + Sync + 'a>;

/// A question that is being asked: [`Run::interrupt`]. Await it.
#[must_use = "nothing is asked before this is awaited"]
pub struct Interrupt<'a, A, C = ()> {
    run: &'a Run<C>,
    /// What is asked, until it has been.
    value: Option<Result<Value, CodecError>>,
    due: Option<SystemTime>,
    default: Option<Result<Value, CodecError>>,
    schema: Option<Value>,
    check: Option<Check<'a>>,
    answer: PhantomData<fn() -> A>,
}

impl<A, C> std::fmt::Debug for Interrupt<'_, A, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt").field("question", &self.value).field("due", &self.due).finish_non_exhaustive()
    }
}

impl<'a, A, C> Interrupt<'a, A, C> {
    /// Who has no answer at this time gets this one: whoever drives the thread gives it
    /// ([`CompiledGraph::sweeper`](crate::graph::CompiledGraph::sweeper), or a run that goes on with `()`). An answer that comes
    /// later is refused, as a second one is. The time is that of the first time the question was asked.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use hier_core::prelude::*;
    /// async fn approve(run: &Run) -> Result<bool> {
    ///     let end_of_day = SystemTime::now() + Duration::from_hours(8);
    ///     run.interrupt(&"May it be sent?").until(end_of_day, false).await
    /// }
    /// # let _ = approve;
    /// ```
    pub fn until(mut self, time: SystemTime, default: A) -> Self
    where
        A: Serialize,
    {
        self.due = Some(time);
        self.default = Some(codec::to_json(&default));
        self
    }

    /// Gives the question the JSON schema of its answer ([`Question::schema`]), for whoever shows it.
    pub fn schema(mut self) -> Self
    where
        A: JsonSchema,
    {
        self.schema = Some(schemars::schema_for!(A).to_value());
        self
    }

    /// The same with a schema that is known at run time only.
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Says what is wrong with an answer, beyond its type. Such an answer is not taken, as one of another type.
    pub fn check(mut self, check: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'a) -> Self {
        self.check = Some(Box::new(check));
        self
    }
}

impl<A: DeserializeOwned, C> Future for Interrupt<'_, A, C> {
    type Output = Result<A, NodeError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.ask())
    }
}

impl<A: DeserializeOwned, C> Interrupt<'_, A, C> {
    /// Checks that the default is a valid answer.
    fn check_default(&self, question: &Question) -> Result<(), NodeError> {
        let Some(default) = &question.default else { return Ok(()) };
        let checked = self.check.as_ref().map_or(Ok(()), |check| check(default));
        checked.and_then(|()| codec::from_json::<A>(default).map(drop).map_err(|error| error.to_string())).map_err(|error| {
            NodeError::permanent(format!(
                "node `{}` asks `{}` until a time, and its default {default} is not an answer: {error}; give `until` a default that \
                 passes the question's `check`",
                self.run.node(),
                question.value
            ))
        })
    }

    fn ask(&mut self) -> Result<A, NodeError> {
        let value = self.value.take().ok_or_else(|| NodeError::permanent("a question was awaited twice"))??;
        let inbox = self.run.inbox.as_deref();
        let number = self.run.next_question();
        let answer = inbox.and_then(|inbox| inbox.answer(number));
        let mut question = self.run.question(number, value);
        question.schema = self.schema.take();
        if let (Some(due), Some(default)) = (self.due, self.default.take()) {
            (question.due, question.default) = (Some(due), Some(default?));
            // Asked again, it has no more time than before.
            let before = inbox.into_iter().flat_map(|inbox| &inbox.questions);
            let before = before.filter(|before| before.id == question.id).find_map(|before| before.due);
            question.due = before.or(question.due);
            self.check_default(&question)?;
        }
        let Some(answer) = answer else {
            return Err(NodeError::from_kind(NodeErrorKind::Interrupt(vec![question]), false));
        };
        self.run.note_answer();
        let checked = self.check.as_ref().map_or(Ok(()), |check| check(&answer));
        checked.and_then(|()| codec::from_json(&answer).map_err(|error| error.to_string())).map_err(|error| {
            let reason = format!("{answer} is no answer to `{}`: {error}", question.value);
            NodeError::from_kind(NodeErrorKind::WrongAnswer { question: Box::new(question), reason }, false)
        })
    }
}

impl<C> Run<C> {
    /// Asks something that only somebody outside can answer.
    ///
    /// The run stops, once the other tasks of the step have ended, with
    /// [`Outcome::Interrupted`](crate::Outcome::Interrupted), which has the question. The error must be returned from the
    /// node (`?`). When the thread goes on with an answer ([`Command::resume`](crate::graph::Command::resume)), the node runs
    /// again from its beginning, and this call returns the answer; the n-th call of a node gets the n-th answer.
    ///
    /// An answer that is no `A` fails the run and is not taken: the question stays and can be answered again. Without a
    /// checkpointer there is nothing to go on with. See [`Interrupt::until`] for a question that does not wait for ever.
    pub fn interrupt<A: DeserializeOwned>(&self, question: &impl Serialize) -> Interrupt<'_, A, C> {
        let value = Some(codec::to_json(question));
        Interrupt { run: self, value, due: None, default: None, schema: None, check: None, answer: PhantomData }
    }

    /// Whether what this task asks next is answered already.
    pub(crate) fn has_answer(&self) -> bool {
        self.inbox.as_deref().is_some_and(|inbox| {
            let known = self.around().and_then(|around| around.numbers.next_question());
            inbox.has_answer(known.map_or_else(|| inbox.asked.load(Ordering::Relaxed), |known| known as usize))
        })
    }

    /// The number of a question that is asked now.
    pub(super) fn next_question(&self) -> usize {
        let Some(inbox) = &self.inbox else { return 0 };
        let of_task = || u32::try_from(inbox.asked.fetch_add(1, Ordering::Relaxed)).unwrap_or(u32::MAX);
        let number = self.around().map_or_else(of_task, |around| around.numbers.next(&StepKey::question(), &of_task));
        number as usize
    }

    /// Returns the step or call that contains the code that asks.
    fn around(&self) -> Option<Around> {
        Around::current(&self.home().ok()??.steps)
    }

    /// A question of this task, by its number.
    fn question(&self, number: usize, value: Value) -> Question {
        let name = if number > 0 { format!("|{number}") } else { String::new() };
        let asker = self.base.map(|checkpoint| Asker {
            namespace: self.shared.namespace.join("|"),
            checkpoint,
            task: self.task_id(),
            path: self.place().to_string(),
            number,
        });
        Question { asker, ..self.named_question(&name, value) }
    }

    /// Something that this task waits for and nobody answers.
    pub(super) fn waiting(&self, call: &StepKey, value: Value) -> Question {
        self.named_question(&format!("|{}", call.digest()), value)
    }

    fn named_question(&self, name: &str, value: Value) -> Question {
        let mut place: String = self.shared.namespace.iter().flat_map(|level| [level, "|"]).collect();
        place.push_str(self.node());
        place.push(':');
        place.push_str(&self.task_id().to_string());
        place.push_str(name);
        let id = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(place.as_bytes()));
        Question::new(id, vec![self.node().to_owned()], value)
    }
}
