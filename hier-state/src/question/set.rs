//! The open questions of a thread, with their types: the enum that `asks: […]` generates.

use std::fmt;
use std::ops::Deref;
use std::time::SystemTime;

use serde_json::Value;

use super::{DeclaredQuestion, Question, QuestionType, declared};
use crate::checkpoint::codec;

/// The questions that a graph and all graphs within it declare. `asks: […]` of `graph!` generates the enum: `SupportQuestion` for the graph
/// `Support`, with a variant for each question.
///
/// ```
/// # use hier_core::prelude::*;
/// # #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// # struct Invoice { amount: u32, paid: bool }
/// #[derive(Question, Serialize, Deserialize, JsonSchema)]
/// #[question(answer = bool)]
/// struct Pay {
///     amount: u32,
/// }
///
/// async fn pay(invoice: &Invoice, pay: Ask<Pay>) -> hier_core::Result<InvoiceUpdate> {
///     let paid = pay.ask(Pay { amount: invoice.amount }).await?;
///     Ok(Invoice::update().paid(paid))
/// }
///
/// graph! {
///     Approval<Invoice> = Graph { nodes: [pay], edges: [START >> pay >> END], asks: [Pay] }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let approval = Approval::compile().checkpointer(MemorySaver::new());
/// let out = approval.invoke(Invoice::update().amount(500)).thread("t").await?;
/// for question in out.questions()? {
///     let answer = match question {
///         ApprovalQuestion::Pay(pay) => pay.answer(pay.amount < 1000),
///     };
///     let out = approval.invoke(answer).thread("t").await?;
///     assert!(out.state().paid);
/// }
/// # Ok(())
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the enum of a graph's questions",
    note = "`asks: […]` in `graph!` generates it: `SupportQuestion` for the graph `Support`"
)]
pub trait QuestionSet: Sized {
    /// The questions.
    #[doc(hidden)]
    const TYPES: &'static [QuestionType];

    /// Reads a question.
    ///
    /// # Errors
    ///
    /// The graph does not declare the question, or its fields have changed since it was asked.
    fn read(question: &Question) -> Result<Self, QuestionError>;

    /// Returns the stored question.
    fn stored(&self) -> &Question;

    /// Reads the open questions of a list. Timers and signals are left out, because no person answers them.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read). The error has the question. The others can be read one by one.
    fn read_open<'a>(questions: impl IntoIterator<Item = &'a Question>) -> Result<Vec<Self>, QuestionError> {
        let open = questions.into_iter().filter(|question| !question.answered && question.kind.is_person());
        open.map(Self::read).collect()
    }
}

/// A question with its type that waits for an answer. Its fields are those of the question.
pub struct OpenQuestion<Q> {
    question: Q,
    stored: Question,
}

impl<Q> fmt::Debug for OpenQuestion<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OpenQuestion").field(&self.stored).finish()
    }
}

impl<Q> Deref for OpenQuestion<Q> {
    type Target = Q;

    fn deref(&self) -> &Q {
        &self.question
    }
}

impl<Q: DeclaredQuestion> OpenQuestion<Q> {
    /// Reads a question of this type.
    ///
    /// # Errors
    ///
    /// It is another question, or its fields have changed since it was asked.
    pub fn read(question: &Question) -> Result<Self, QuestionError> {
        if !question.is::<Q>() {
            return Err(QuestionError::undeclared(Q::IDENT, question));
        }
        match declared::from_value(&question.value) {
            Ok(typed) => Ok(Self { question: typed, stored: question.clone() }),
            Err(error) => Err(QuestionError {
                reason: format!("{} is not a `{}`: {error}", question.value, Q::IDENT),
                question: Box::new(question.clone()),
            }),
        }
    }

    /// Answers the question. Pass the answer to `invoke`, or several as a `Vec`.
    #[allow(clippy::needless_pass_by_value, reason = "the caller has no further use for it")]
    pub fn answer(&self, answer: Q::Answer) -> QuestionAnswer {
        // A question refuses a text that is not its answer, so the reason reaches the caller.
        let value = codec::to_json(&answer).unwrap_or_else(|error| Value::String(format!("no answer: {error}")));
        QuestionAnswer { id: self.stored.id.clone(), value }
    }
}

impl<Q> OpenQuestion<Q> {
    /// Returns the id of the question.
    pub fn id(&self) -> &str {
        &self.stored.id
    }

    /// Returns the names of the outer nodes and of the node that asks.
    pub fn path(&self) -> &[String] {
        &self.stored.path
    }

    /// Returns the time at which the question is answered with its default.
    pub fn due(&self) -> Option<SystemTime> {
        self.stored.due
    }

    /// Returns the stored question.
    pub fn stored(&self) -> &Question {
        &self.stored
    }

    /// Returns the question.
    pub fn into_inner(self) -> Q {
        self.question
    }
}

/// An answer with the id of its question, from [`OpenQuestion::answer`]. It is an input of
/// `invoke`, and so is a `Vec` of answers.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "pass the answer to `invoke`"]
pub struct QuestionAnswer {
    /// The id of the question.
    pub id: String,
    /// The answer as JSON.
    pub value: Value,
}

/// A question that the enum of a graph does not contain.
#[derive(Clone, Debug, thiserror::Error)]
#[error("node `{}` asks a question that cannot be read: {reason}", question.path.join(" → "))]
pub struct QuestionError {
    /// The stored question. It can be answered by its id with `Command::answers`.
    pub question: Box<Question>,
    reason: String,
}

impl QuestionError {
    /// Creates the error for a question that a graph does not declare.
    #[doc(hidden)]
    pub fn undeclared(wanted: &str, question: &Question) -> Self {
        let reason = match &question.name {
            Some(name) => format!("`{wanted}` has no question `{name}`: add it to `asks: […]`"),
            None => format!(
                "{} is not a declared question: ask it with `Ask<…>`, or answer it by the id {}",
                question.value, question.id
            ),
        };
        Self { question: Box::new(question.clone()), reason }
    }
}
