//! The open questions of a thread as an enum, which `asks: […]` generates.

use std::fmt;
use std::ops::Deref;
use std::time::SystemTime;

use serde_json::Value;

use super::{DeclaredQuestion, Question, QuestionType, declared};
use crate::checkpoint::codec;

/// An enum of the questions that a graph and its subgraphs declare. For a graph with `asks: […]`, `graph!` generates
/// this enum, with a variant for each question. For the graph `Approval`, its name is `ApprovalQuestion`.
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
    /// The declared questions.
    #[doc(hidden)]
    const TYPES: &'static [QuestionType];

    /// Converts a stored question to its variant.
    ///
    /// # Errors
    ///
    /// Fails if the graph does not declare the question. Also fails if the type of the question was changed after the
    /// node had asked it, so that the stored question cannot be read.
    fn read(question: &Question) -> Result<Self, QuestionError>;

    /// Returns the question in its stored form.
    fn stored(&self) -> &Question;

    /// Converts the open questions in a list. Leaves out waits for timers and signals, which no person answers.
    ///
    /// # Errors
    ///
    /// Fails if [`read`](Self::read) fails for one of the questions. The error contains this question. To convert the
    /// others, call `read` for each of them.
    fn read_open<'a>(questions: impl IntoIterator<Item = &'a Question>) -> Result<Vec<Self>, QuestionError> {
        let open = questions.into_iter().filter(|question| !question.answered && question.kind.is_person());
        open.map(Self::read).collect()
    }
}

/// A declared question that waits for an answer. It dereferences to `Q`, the type of the question.
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
    /// Converts a stored question to this type.
    ///
    /// # Errors
    ///
    /// Fails for a question of another type. Also fails if the type was changed after the node had asked the question,
    /// so that the stored question cannot be read.
    pub fn read(question: &Question) -> Result<Self, QuestionError> {
        if !question.is::<Q>() {
            let fix = "check its type with `Question::is`, or read it as the enum of the graph's questions";
            return Err(QuestionError::unexpected(question, |name| {
                format!("the question `{name}` is not a `{}`: {fix}", Q::IDENT)
            }));
        }
        match declared::from_value(&question.value) {
            Ok(typed) => Ok(Self { question: typed, stored: question.clone() }),
            Err(error) => Err(QuestionError {
                reason: format!("{} is not a `{}`: {error}", question.value, Q::IDENT),
                question: Box::new(question.clone()),
            }),
        }
    }

    /// Creates an answer to this question. The answer, or a `Vec` of answers to several questions, is an input for
    /// `invoke`.
    #[allow(clippy::needless_pass_by_value, reason = "the caller has no further use for it")]
    pub fn answer(&self, answer: Q::Answer) -> QuestionAnswer {
        // The text is not an answer of this type. The question refuses it, and the reason reaches the caller.
        let value = codec::to_json(&answer).unwrap_or_else(|error| Value::String(format!("no answer: {error}")));
        QuestionAnswer { id: self.stored.id.clone(), value }
    }
}

impl<Q> OpenQuestion<Q> {
    /// Returns the id of the question.
    pub fn id(&self) -> &str {
        &self.stored.id
    }

    /// Returns the names of the nodes from the root graph to the node that asks.
    pub fn path(&self) -> &[String] {
        &self.stored.path
    }

    /// Returns the deadline, after which the default counts as the answer. Returns `None` if the question has no
    /// deadline.
    pub fn due(&self) -> Option<SystemTime> {
        self.stored.due
    }

    /// Returns the question in its stored form.
    pub fn stored(&self) -> &Question {
        &self.stored
    }

    /// Returns the question as a `Q`, without the id.
    pub fn into_inner(self) -> Q {
        self.question
    }
}

/// An answer with the id of its question. [`OpenQuestion::answer`] creates it. The answer, or a `Vec` of answers to
/// several questions, is an input for `invoke`.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "pass the answer to `invoke`"]
pub struct QuestionAnswer {
    /// The id of the question.
    pub id: String,
    /// The answer as JSON.
    pub value: Value,
}

/// The error for a question that a [`QuestionSet`] cannot read: the graph does not declare the question, or its type
/// was changed after the node had asked it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("node `{}` asks a question that cannot be read: {reason}", question.path.join(" → "))]
pub struct QuestionError {
    /// The question in its stored form. To answer it nevertheless, use its id with `Command::answers`.
    pub question: Box<Question>,
    reason: String,
}

impl QuestionError {
    /// Creates the error for a question that is not in the enum of this graph.
    #[doc(hidden)]
    pub fn undeclared(graph: &str, question: &Question) -> Self {
        Self::unexpected(question, |name| format!("`{graph}` has no question `{name}`: add it to `asks: […]`"))
    }

    /// Creates the error for a question that is not one of the expected ones. `reason` describes a question with this
    /// name.
    fn unexpected(question: &Question, reason: impl FnOnce(&str) -> String) -> Self {
        let reason = match &question.name {
            Some(name) => reason(name),
            None => format!(
                "{} is not a declared question: ask it with `Ask<…>`, or answer it by the id {}",
                question.value, question.id
            ),
        };
        Self { question: Box::new(question.clone()), reason }
    }
}
