//! Inputs of runs.

use crate::engine::program::{Command, Input};
use crate::message::{Message, Messages};
use crate::state::owned::writes_of;
use crate::state::{Conversation, DynState, DynUpdate, IntoUpdate, Update, Values};

/// The input type of a graph without an `input:` view: it takes a state or an update of it.
#[derive(Clone, Copy, Debug)]
pub struct FullState;

/// A value that `invoke` and `stream` accept as input.
///
/// | input | effect |
/// |---|---|
/// | an update of the state | starts a run that applies it |
/// | a state | starts a new thread. A thread with a checkpoint refuses it, because it would overwrite all channels |
/// | the `input:` view of the graph | starts a run that applies it. Such a graph accepts neither states nor updates |
/// | a [`Message`] | starts a run that adds it to the conversation of the state |
/// | a [`Command`] | answers questions, updates the state, or jumps to nodes |
/// | `()` | resumes the thread |
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of this graph over `{S}`",
    label = "not an input of this graph",
    note = "give a `{S}`, an update of it (`{S}::update()…`) or `()`, with a conversation also a `Message::user(…)`; a graph with `input: View` \
            takes that view, which must own its fields"
)]
pub trait GraphInput<S: Values, I> {
    /// Converts the input.
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

/// A `#[derive(View)]` type that owns its fields. It can be the input of a graph.
pub trait OwnedView {}

#[diagnostic::do_not_recommend]
impl<S: Values, V: OwnedView + IntoUpdate<S>> GraphInput<S, V> for V {
    fn into_input(self) -> Input<S> {
        Input::New(writes_of(self))
    }
}

impl<S: Conversation> GraphInput<S, FullState> for Message {
    fn into_input(self) -> Input<S> {
        Input::New([S::said(Messages::from([self]))].into_iter().collect())
    }
}

impl GraphInput<DynState, FullState> for DynUpdate {
    fn into_input(self) -> Input<DynState> {
        Input::New(self.into_writes())
    }
}
