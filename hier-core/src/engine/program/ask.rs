use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::SystemTime;

use serde_json::Value;

use super::asking::PreparedQuestion;
use super::{Run, Task};
use crate::checkpoint::{CodecError, codec};
use crate::error::NodeError;
use crate::question::{DeclaredQuestion, Question, answer_schema, to_value};
use crate::state::Values;

/// A node or tool argument that asks the declared question `Q`.
///
/// The graph of the node must list the question in `asks: […]`, and so must every graph that contains this graph.
/// Otherwise the program does not compile. See [`QuestionSet`](crate::QuestionSet) for an example. To ask without a
/// declaration, use [`Run::interrupt`].
pub struct Ask<Q> {
    run: Arc<dyn AskingRun>,
    question: PhantomData<fn() -> Q>,
}

/// A run, without the type of its context.
trait AskingRun: Send + Sync {
    fn ask(&self, asking: PreparedQuestion<'_>) -> Result<Value, NodeError>;
}

impl<C: Send + Sync + 'static> AskingRun for Run<C> {
    fn ask(&self, asking: PreparedQuestion<'_>) -> Result<Value, NodeError> {
        self.ask_prepared(asking)
    }
}

impl<Q> fmt::Debug for Ask<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ask").field(&std::any::type_name::<Q>()).finish()
    }
}

impl<Q: DeclaredQuestion> Ask<Q> {
    /// Creates the argument from a node's task, in a graph that is built at run time. Declare the question with
    /// [`GraphBuilder::asks`](crate::graph::GraphBuilder::asks).
    pub fn of_task<S: Values, C: Send + Sync + 'static>(task: &Task<S, C>) -> Self {
        Self { run: Arc::new(task.run().clone()), question: PhantomData }
    }

    /// Creates the argument from the run of a task.
    #[doc(hidden)]
    pub fn of_run<C: Send + Sync + 'static>(run: &Run<C>) -> Self {
        Self { run: Arc::new(run.clone()), question: PhantomData }
    }

    /// Asks the question and returns the answer. Await the result, and return its error from the node with `?`.
    ///
    /// If the thread has no answer yet, the run stops when the other tasks of the superstep have ended. When a later
    /// run resumes the thread with an answer, the node runs again from its start, and this call returns the answer. The
    /// rules for answers are those of [`Run::interrupt`].
    #[allow(clippy::needless_pass_by_value, reason = "the caller has no further use for it")]
    pub fn ask(&self, question: Q) -> TypedInterrupt<'_, Q> {
        let value = Some(to_value(&question));
        TypedInterrupt { ask: self, value, key: None, due: None, default: None, check: None }
    }
}

/// Checks a typed answer. The error describes the mistake.
type Check<'a, A> = Box<dyn Fn(&A) -> Result<(), String> + Send + Sync + 'a>;

/// A declared question that has not been asked. Await it to ask the question. [`Ask::ask`] returns it.
#[must_use = "nothing is asked before this is awaited: add `.await`"]
pub struct TypedInterrupt<'a, Q: DeclaredQuestion> {
    ask: &'a Ask<Q>,
    /// None once the question has been asked.
    value: Option<Result<Value, CodecError>>,
    key: Option<String>,
    due: Option<SystemTime>,
    default: Option<Result<Value, CodecError>>,
    check: Option<Check<'a, Q::Answer>>,
}

impl<Q: DeclaredQuestion> fmt::Debug for TypedInterrupt<'_, Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedInterrupt").field("question", &self.value).field("due", &self.due).finish_non_exhaustive()
    }
}

impl<'a, Q: DeclaredQuestion> TypedInterrupt<'a, Q> {
    /// Identifies the question by this key instead of its value. See [`Interrupt::key`](crate::Interrupt::key).
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// Sets a deadline, after which `default` is the answer. See [`Interrupt::until`](crate::Interrupt::until).
    #[allow(clippy::needless_pass_by_value, reason = "the caller has no further use for it")]
    pub fn until(mut self, time: SystemTime, default: Q::Answer) -> Self {
        self.due = Some(time);
        self.default = Some(codec::to_json(&default));
        self
    }

    /// Adds a check of answers, in addition to the check of their type. If the function returns an error, the run fails
    /// and the question stays open, as for an answer of the wrong type.
    pub fn check(mut self, check: impl Fn(&Q::Answer) -> Result<(), String> + Send + Sync + 'a) -> Self {
        self.check = Some(Box::new(check));
        self
    }

    fn ask(&mut self) -> Result<Q::Answer, NodeError> {
        let value = self.value.take().ok_or_else(|| NodeError::permanent("a question was awaited twice"))??;
        let (key, default, own) = (self.key.take(), self.default.take().transpose()?, self.check.take());
        let check = |answer: &Value| {
            Q::check_answer(answer)?;
            let Some(own) = &own else { return Ok(()) };
            own(&codec::from_json(answer).map_err(|error| error.to_string())?)
        };
        let asking = PreparedQuestion { value, key, due: self.due, default, check: &check, describe: &describe::<Q> };
        Ok(codec::from_json(&self.ask.run.ask(asking)?)?)
    }
}

/// Adds the name and the schema of the question's type.
fn describe<Q: DeclaredQuestion>(question: &mut Question) {
    question.name = Some(Q::NAME.to_owned());
    question.schema = Some(answer_schema::<Q>());
}

impl<Q: DeclaredQuestion> Future for TypedInterrupt<'_, Q> {
    type Output = Result<Q::Answer, NodeError>;

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        Poll::Ready(self.ask())
    }
}
