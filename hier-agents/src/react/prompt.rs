//! Prompts as `graph!` checks and makes them: a text, or a function of the state or of a view of it.

use std::marker::PhantomData;
use std::sync::Arc;

use hier_core::plumbing::BorrowedFrom;

/// A text of an agent over `S`: a constant, or a function of the state or of a view.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a text for an agent over `{S}`",
    label = "neither a text nor a function that returns one",
    note = "pass a text, or a function of `&{S}` or of a view of it that returns one"
)]
pub trait PromptText<'a, S, M> {
    /// True if it shows a secret channel.
    const SECRET: bool;

    /// Makes the text.
    fn text(self, state: &'a S) -> String;
}

/// Marks a constant text.
pub struct ConstantText;
/// Marks a function of an argument that returns a text.
pub struct MadeText<A, T>(PhantomData<fn(A) -> T>);

impl<'a, S, T: Into<Arc<str>>> PromptText<'a, S, ConstantText> for T {
    const SECRET: bool = false;

    fn text(self, _: &'a S) -> String {
        self.into().as_ref().to_owned()
    }
}

impl<'a, S, F, A, T> PromptText<'a, S, MadeText<A, T>> for F
where
    F: Fn(A) -> T,
    A: BorrowedFrom<'a, S>,
    T: Into<String>,
{
    const SECRET: bool = A::SECRET;

    fn text(self, state: &'a S) -> String {
        self(A::borrowed_from(state)).into()
    }
}

/// A prompt whose type has been checked.
pub trait Prompt {
    /// True if it shows a secret channel.
    const SECRET: bool;

    /// Returns the text.
    fn into_text(self) -> String;
}

/// A prompt of a source of type `P`.
pub struct CheckedPrompt<'a, S, M, P> {
    text: String,
    source: PhantomData<fn(&'a S, M) -> P>,
}

impl<'a, S, M, P: PromptText<'a, S, M>> Prompt for CheckedPrompt<'a, S, M, P> {
    const SECRET: bool = P::SECRET;

    fn into_text(self) -> String {
        self.text
    }
}

/// Makes a prompt.
pub fn prompt<'a, S, M, P: PromptText<'a, S, M>>(state: &'a S, source: P) -> CheckedPrompt<'a, S, M, P> {
    CheckedPrompt { text: source.text(state), source: PhantomData }
}

/// Returns true if the prompts of a function show a secret channel.
pub const fn shows_secret<S: 'static, P: Prompt>(_: fn(&'static S) -> P) -> bool {
    P::SECRET
}
