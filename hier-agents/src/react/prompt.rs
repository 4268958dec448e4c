//! Prompts as `graph!` checks and makes them: a text, or a function of the state or of a view of it.

use std::marker::PhantomData;
use std::sync::Arc;

use hier_core::plumbing::{BorrowedFrom, ShownChannels};

/// A prompt of an agent with the state `S`: a constant, or a function of the state or of a view of the state.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a string for an agent over `{S}`",
    label = "neither a string nor a function that returns one",
    note = "pass a string, or a function of `&{S}` or of a view of it that returns one"
)]
pub trait PromptText<'a, S, M> {
    /// Two facts about the channels that the prompt can contain: if one is secret, and if one is the conversation.
    const SHOWS: ShownChannels;

    /// Returns the text of the prompt for this state.
    fn text(self, state: &'a S) -> String;
}

/// The parameter `M` of [`PromptText`] for a constant.
pub struct ConstantText;
/// The parameter `M` of [`PromptText`] for a function with the argument `A` that returns a `T`.
pub struct MadeText<A, T>(PhantomData<fn(A) -> T>);

impl<'a, S, T: Into<Arc<str>>> PromptText<'a, S, ConstantText> for T {
    const SHOWS: ShownChannels = ShownChannels::NONE;

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
    const SHOWS: ShownChannels = A::SHOWS;

    fn text(self, state: &'a S) -> String {
        self(A::borrowed_from(state)).into()
    }
}

/// A prompt whose type has been checked.
pub trait Prompt {
    /// Two facts about the channels that the prompt can contain: if one is secret, and if one is the conversation.
    const SHOWS: ShownChannels;

    /// Returns the text of the prompt.
    fn into_text(self) -> String;
}

/// The text of a prompt. The type `P` of its source says which channels the prompt can contain.
pub struct CheckedPrompt<'a, S, M, P> {
    text: String,
    source: PhantomData<fn(&'a S, M) -> P>,
}

impl<'a, S, M, P: PromptText<'a, S, M>> Prompt for CheckedPrompt<'a, S, M, P> {
    const SHOWS: ShownChannels = P::SHOWS;

    fn into_text(self) -> String {
        self.text
    }
}

/// Creates the text of a prompt for this state.
pub fn prompt<'a, S, M, P: PromptText<'a, S, M>>(state: &'a S, source: P) -> CheckedPrompt<'a, S, M, P> {
    CheckedPrompt { text: source.text(state), source: PhantomData }
}

/// Returns true if a prompt that the function creates can contain a secret channel.
pub const fn shows_secret<S: 'static, P: Prompt>(_: fn(&'static S) -> P) -> bool {
    P::SHOWS.has_secret
}

/// Returns true if the function creates its prompts from a view that contains the conversation. Returns false for a
/// function of the whole state.
pub const fn reads_messages<S: 'static, P: Prompt>(_: fn(&'static S) -> P) -> bool {
    P::SHOWS.has_conversation
}

/// Returns true if the policy clears the conversation (`clears`) but the function reads it (see [`reads_messages`]).
pub const fn reads_cleared<S: 'static, P: Prompt>(make: fn(&'static S) -> P, clears: bool) -> bool {
    clears && reads_messages(make)
}

#[cfg(test)]
mod tests {
    use hier_core::state::State;

    use hier_spec::trust::CONVERSATION;

    use crate::state::base::BaseState;

    #[test]
    fn conversation_is_the_channel_of_messages() {
        assert_eq!(BaseState::channels().messages.name(), CONVERSATION);
    }
}
