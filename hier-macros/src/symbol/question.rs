//! The words of `#[derive(Question)]`.

use super::{ANSWER, CRATE, NAME};

pub(crate) const QUESTION: &str = "question";
pub(crate) const QUESTION_OPTIONS: &[&str] = &[ANSWER, NAME, CRATE];

/// The field of a question's JSON that contains the question's name.
pub(crate) const TYPE: &str = "type";

/// The names of the questions that agents ask.
pub(crate) const BUILT_IN_QUESTIONS: &[&str] = &["tool_approval", "operator_question"];

/// The last path segment of the type of a parameter that asks a question.
pub(crate) const ASK: &str = "Ask";
