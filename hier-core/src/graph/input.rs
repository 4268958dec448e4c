//! Inputs of runs.

use crate::engine::program::{Command, Input};
use crate::message::{Message, Messages};
use crate::state::{Conversation, DynState, DynUpdate, Update, Values};

/// Marks a graph without an `input:` view: it takes a whole state or an update of it.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

/// What can be given to `invoke` and `stream`: the graph's `input:` view; without one, a state (every channel is
/// written) or an update of it; `()`, to go on with what is there; or a [`Command`], to answer, change or redirect what is
/// there.
///
/// A whole state starts a thread. A thread that has a checkpoint rejects it, since it would reset the channels that the caller left at
/// their defaults. Use an update with the changes instead.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no input of this graph over `{S}`",
    label = "no input of this graph",
    note = "give a `{S}`, an update of it (`{S}::update()…`) or `()`, with a conversation also a `Message::user(…)`; a graph with `input: View` \
            takes that view, which must own its fields"
)]
pub trait GraphInput<S: Values, I> {
    /// The preparation before the run starts.
    fn into_input(self) -> Input<S>;
}

impl<S: Values, I> GraphInput<S, I> for () {
    fn into_input(self) -> Input<S> {
        Input::Continue
    }
}

impl<S: Values, I> GraphInput<S, I> for Command<S> {
    fn into_input(self) -> Input<S> {
        Input::Command(Box::new(self))
    }
}

/// A message as the input of a graph with a conversation: it is added to the conversation.
impl<S: Conversation> GraphInput<S, Whole> for Message {
    fn into_input(self) -> Input<S> {
        Input::New([S::said(Messages::from([self]))].into_iter().collect())
    }
}

impl GraphInput<DynState, Whole> for DynUpdate {
    fn into_input(self) -> Input<DynState> {
        Input::New(self.into_writes())
    }
}
