use crate::engine::program::{Command, Input};
use crate::message::{Message, Messages};
use crate::state::owned::writes_of;
use crate::state::{Conversation, DynState, DynUpdate, IntoUpdate, Update, Values};

/// The input type of a graph that does not declare a view as `input:`. The input of such a graph is a state or an
/// update.
#[derive(Clone, Copy, Debug)]
pub struct FullState;

/// A value that `invoke` and `stream` accept as input.
///
/// | input | effect |
/// |---|---|
/// | an update of the state | Starts a run that applies the update. |
/// | a state | Starts a run on a new thread. If the thread has a checkpoint, the run fails, because the state would overwrite all channels. |
/// | the view that the graph declares as `input:` | Starts a run that applies the view. A graph with such a view accepts neither a state nor an update. |
/// | a [`Message`] | Starts a run that adds the message to the conversation in the state. |
/// | a [`Command`] | Starts a run that answers questions, updates the state, or continues with other nodes. |
/// | `()` | Starts a run that continues the thread where it stopped. |
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the input of this graph over `{S}`",
    label = "not an input of this graph",
    note = "give a `{S}`, an update of it (`{S}::update()…`) or `()`, with a conversation also a `Message::user(…)`; a graph with `input: View` \
            takes that view, which must own its fields"
)]
pub trait GraphInput<S: Values, I> {
    /// Converts the value to the input of a run.
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

/// A type that a graph can declare as `input:`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the `input` of a graph over `{S}`",
    label = "no input of this graph",
    note = "an input is a `#[derive(View)] #[view(of = {S})]` struct that owns its fields"
)]
pub trait DeclaredInput<S>: 'static {}
impl<S> DeclaredInput<S> for FullState {}
#[diagnostic::do_not_recommend]
impl<S: Values, V: OwnedView + IntoUpdate<S> + 'static> DeclaredInput<S> for V {}

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
