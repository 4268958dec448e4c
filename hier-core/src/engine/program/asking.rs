use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::SystemTime;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Run, StepHome, StepKey, hash};
use crate::checkpoint::{CodecError, codec};
use crate::error::{NodeError, NodeErrorKind};
use crate::question::{Asker, Question, client_call};

/// Checks an answer. The error describes the mistake.
type Check<'a> = Box<dyn Fn(&Value) -> Result<(), String> + Send + Sync + 'a>;

/// A type argument of questions and waits without `.await`. It appears in the compiler errors for them.
#[derive(Debug)]
pub struct NeedsAwait;

/// A question that has not been asked. Await it to ask the question. [`Run::interrupt`] returns it.
#[must_use = "nothing is asked before this is awaited: add `.await`"]
pub struct Interrupt<'a, S, A, C = ()> {
    run: &'a Run<C>,
    /// None once the question has been asked.
    value: Option<Result<Value, CodecError>>,
    key: Option<String>,
    due: Option<SystemTime>,
    default: Option<Result<Value, CodecError>>,
    schema: Option<Value>,
    check: Option<Check<'a>>,
    /// Decodes an answer. `A` has no bound here, so that the compiler accepts the question as a future as soon as it
    /// knows `A`.
    decode: Decode<A>,
    state: PhantomData<S>,
}

type Decode<A> = fn(&Value) -> Result<A, CodecError>;

impl<S, A, C> std::fmt::Debug for Interrupt<'_, S, A, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupt").field("question", &self.value).field("due", &self.due).finish_non_exhaustive()
    }
}

impl<'a, A, C> Interrupt<'a, NeedsAwait, A, C> {
    /// Identifies the question by this key instead of its value. Use a key if the value may differ when the node runs
    /// again, for example because it contains the time. With a key, an answer that was given before the value changed
    /// still counts.
    ///
    /// ```
    /// # use hier_core::prelude::*;
    /// async fn approve(run: &Run, queue_length: usize) -> hier_core::Result<bool> {
    ///     run.interrupt(&format!("{queue_length} orders wait. Stop the sale?")).key("stop").await
    /// }
    /// # let _ = approve;
    /// ```
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets a deadline, after which the call returns `default`.
    ///
    /// When the deadline has passed, a [sweeper](crate::graph::CompiledGraph::sweeper) or a run with the input `()`
    /// resumes the thread, and the default becomes the answer. Until the thread is resumed, the question still accepts
    /// another answer. Afterwards, a run with an answer to this question fails.
    ///
    /// The first call fixes the deadline: if the node runs again and passes another time, that time has no effect.
    ///
    /// ```
    /// # use std::time::{Duration, SystemTime};
    /// # use hier_core::prelude::*;
    /// async fn approve(run: &Run) -> hier_core::Result<bool> {
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

    /// Adds a JSON Schema to the question, for user interfaces: the schema of the answer type `A`. The field
    /// [`Question::schema`] contains this schema.
    pub fn schema(mut self) -> Self
    where
        A: JsonSchema,
    {
        self.schema = Some(schemars::schema_for!(A).to_value());
        self
    }

    /// Adds the JSON Schema of the answer to the question, like [`Self::schema`]. Use this method if the program knows
    /// the schema only at run time.
    pub fn with_schema(mut self, schema: Value) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Adds a check of answers, in addition to the check of their type. If the function returns an error, the run fails
    /// and the question stays open, as for an answer of the wrong type.
    pub fn check(mut self, check: impl Fn(&Value) -> Result<(), String> + Send + Sync + 'a) -> Self {
        self.check = Some(Box::new(check));
        self
    }
}

impl<A, C> Future for Interrupt<'_, NeedsAwait, A, C> {
    type Output = Result<A, NodeError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.ask())
    }
}

impl<A, C> Interrupt<'_, NeedsAwait, A, C> {
    fn ask(&mut self) -> Result<A, NodeError> {
        let value = self.value.take().ok_or_else(|| NodeError::permanent("a question was awaited twice"))??;
        let default = self.default.take().transpose()?;
        let (key, schema, own, decode) = (self.key.take(), self.schema.take(), self.check.take(), self.decode);
        let check = |answer: &Value| {
            own.as_ref().map_or(Ok(()), |check| check(answer))?;
            decode(answer).map(drop).map_err(|error| error.to_string())
        };
        let describe = |question: &mut Question| question.schema.clone_from(&schema);
        let asking = PreparedQuestion { value, key, due: self.due, default, check: &check, describe: &describe };
        Ok(decode(&self.run.ask_prepared(asking)?)?)
    }
}

/// A question before it is asked, without the type of its answer.
pub(super) struct PreparedQuestion<'a> {
    pub(super) value: Value,
    pub(super) key: Option<String>,
    pub(super) due: Option<SystemTime>,
    pub(super) default: Option<Value>,
    /// Checks the answer, and the default before the question is asked.
    pub(super) check: &'a (dyn Fn(&Value) -> Result<(), String> + 'a),
    /// Adds the schema and other properties that the answering program needs.
    pub(super) describe: &'a (dyn Fn(&mut Question) + 'a),
}

impl<C> Run<C> {
    /// Returns the checked answer to a question. If the question has no answer yet, returns the question as an error.
    pub(super) fn ask_prepared(&self, asking: PreparedQuestion<'_>) -> Result<Value, NodeError> {
        let PreparedQuestion { value, key, due, default, check, describe } = asking;
        let home = self.home().ok().flatten();
        let resume = home.as_ref().and_then(StepHome::resume);
        let identity = match &key {
            Some(key) => hash(&("key", key))?,
            None => hash(&value)?,
        };
        let number = home.as_ref().map_or(0, |home| home.place_question(&identity, key.is_some()));
        let asker = home.as_ref().and_then(|home| home.asker(number, &identity, key.is_some()));
        let mut question = self.question(asker, number, value);
        let described = || {
            let mut question = question.clone();
            describe(&mut question);
            question
        };
        // For the question of a client tool, the answer may be the late result of another call.
        let fits = |answer: &Value| {
            client_call::of_question(&question.value).is_none()
                || client_call::may_be_result(answer, described().schema.as_ref())
        };
        let answer = home.as_ref().and_then(|home| resume?.answer(number, &home.scoped(&identity), fits));
        if let (Some(due), Some(default)) = (due, default) {
            check(&default).map_err(|error| self.no_default(&question, &default, &error))?;
            (question.due, question.default) = (Some(due), Some(default));
            // A question that is asked again keeps its deadline.
            let before = resume.into_iter().flat_map(|resume| &resume.questions);
            let mut before = before.filter(|before| match (&before.asker, &question.asker) {
                (Some(before), Some(now)) => before.is_of_same_question(now),
                _ => false,
            });
            question.due = before.find_map(|before| before.due).or(question.due);
        }
        let Some(answer) = answer else {
            describe(&mut question);
            return Err(NodeError::from_kind(NodeErrorKind::Interrupt(vec![question]), false));
        };
        self.note_answer();
        match check(&answer) {
            Ok(()) => Ok(answer),
            Err(error) => {
                describe(&mut question);
                let reason = format!("{answer} is not an answer to `{}`: {error}", question.value);
                Err(NodeError::from_kind(NodeErrorKind::WrongAnswer { question: Box::new(question), reason }, false))
            }
        }
    }

    fn no_default(&self, question: &Question, default: &Value, error: &str) -> NodeError {
        NodeError::permanent(format!(
            "node `{}` asks `{}` until a time, and its default {default} is not an answer: {error}; give `until` a default that passes \
             the question's `check`",
            self.node(),
            question.value
        ))
    }
}

impl<C> Run<C> {
    /// Asks a question that a person or another program answers, and returns the answer.
    ///
    /// Await the result, and return its error from the node with `?`. The error makes the run stop when the other tasks
    /// of the superstep have ended. The outcome is an [`Outcome::Interrupted`](crate::Outcome::Interrupted) that
    /// contains the question.
    ///
    /// To answer, run the thread again with [`Command::resume`](crate::graph::Command::resume). The node then runs
    /// again from its start, and this call returns the answer.
    ///
    /// An answer belongs to one question. The engine identifies a question by its [key](Interrupt::key) or, without a
    /// key, by its value. If a task asks equal questions, the engine numbers them in the order in which the task asks
    /// them. When the node runs again, each of these questions receives the answer to the question with the same
    /// number. If the node then asks a different question, that question needs its own answer.
    ///
    /// Without a checkpointer, the run cannot be resumed. To limit the wait, use [`Interrupt::until`].
    ///
    /// # Errors
    ///
    /// An answer of the wrong type fails the run. The question stays open and can be answered again.
    pub fn interrupt<A: DeserializeOwned>(
        &self,
        question: &(impl Serialize + ?Sized),
    ) -> Interrupt<'_, NeedsAwait, A, C> {
        let value = Some(codec::to_json(question));
        Interrupt {
            run: self,
            value,
            key: None,
            due: None,
            default: None,
            schema: None,
            check: None,
            decode: codec::from_json,
            state: PhantomData,
        }
    }

    /// Returns true if the thread has an answer to the question with this value, so that [`Run::interrupt`] would
    /// return it now.
    #[doc(hidden)]
    pub fn has_answer(&self, question: &(impl Serialize + ?Sized)) -> Result<bool, NodeError> {
        self.is_answered(&hash(&codec::to_json(question)?)?)
    }

    /// Returns true if the thread has an answer to the question with this [key](Interrupt::key), so that
    /// [`Run::interrupt`] would return it now.
    #[doc(hidden)]
    pub fn has_answer_to_key(&self, key: &str) -> Result<bool, NodeError> {
        self.is_answered(&hash(&("key", key))?)
    }

    fn is_answered(&self, identity: &str) -> Result<bool, NodeError> {
        Ok(self.home()?.is_some_and(|home| home.has_answer(identity)))
    }

    /// Makes a question of this task. `asker` is the place where its answer is stored.
    fn question(&self, asker: Option<Asker>, number: usize, value: Value) -> Question {
        let name = if number > 0 { format!("|{number}") } else { String::new() };
        let mut question = self.named_question(&name, value);
        if let Some(asker) = asker.as_ref().filter(|_| self.shared.home.is_some()) {
            // The task ids of a graph without checkpoints change each time the graph runs, so the id of the question
            // depends on the asker.
            let Asker { namespace, task, path, .. } = asker;
            question.id = question_id(&format!("{namespace}|{path}:{task}|{number}"));
        }
        question.asker = asker;
        question
    }

    /// Makes the question of a task that waits for a time or a signal.
    pub(super) fn waiting(&self, call: &StepKey, value: Value) -> Question {
        self.named_question(&format!("|{}", call.digest()), value)
    }

    fn named_question(&self, name: &str, value: Value) -> Question {
        let mut place: String = self.shared.namespace.iter().flat_map(|level| [level, "|"]).collect();
        place.push_str(self.node());
        place.push(':');
        place.push_str(&self.task_id().to_string());
        place.push_str(name);
        Question::new(question_id(&place), vec![self.node().to_owned()], value)
    }
}

fn question_id(place: &str) -> String {
    format!("{:032x}", xxhash_rust::xxh3::xxh3_128(place.as_bytes()))
}
