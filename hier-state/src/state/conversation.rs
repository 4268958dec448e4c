use super::Values;
use crate::message::Messages;

/// A state with a conversation: a channel with `#[reducer(messages)]`. The channel belongs to the state itself or to a
/// flattened state. If a state has several such channels, the conversation is the one with the name `messages`.
///
/// `#[derive(State)]` implements this trait. Ignore the type parameter `Via`, which only the generated code uses.
#[diagnostic::on_unimplemented(
    message = "the state `{Self}` has no conversation",
    label = "no conversation",
    note = "give it a channel `#[reducer(messages)] messages: Messages`; of several channels with that reducer it is the one called \
            `messages`"
)]
pub trait Conversation<Via = ()>: Values {
    /// The name of the channel.
    #[doc(hidden)]
    const CHANNEL: &'static str;

    /// Returns the conversation.
    fn conversation(&self) -> &Messages;

    /// Creates a write that merges these messages into the conversation.
    #[doc(hidden)]
    fn said(messages: Messages) -> Self::Write;
}

/// Returns true if the last message of a model in the conversation has tool calls that lack a result.
///
/// Use this function as a route: `think >> if wants_tools { act } else { END }`.
///
/// ```
/// use hier_core::prelude::*;
/// use hier_core::state::wants_tools;
///
/// #[derive(State, Clone, Debug, Default, Serialize, Deserialize)]
/// struct Chat {
///     #[reducer(messages)]
///     messages: Messages,
/// }
///
/// let mut chat = Chat::default();
/// assert!(!wants_tools(&chat));
/// chat.messages = [Message::call("lookup", serde_json::json!({}))].into();
/// assert!(wants_tools(&chat));
/// ```
pub fn wants_tools<S: Conversation>(state: &S) -> bool {
    !state.conversation().open_in_last_answer().is_empty()
}
