//! What a run starts with, and what it returns.

use crate::state::{DynState, DynUpdate, Update, Values, Writes};

/// Marks a graph without an `input:` view: it takes a whole state or an update of it.
#[derive(Clone, Copy, Debug)]
pub struct Whole;

/// What can be given to `invoke` and `stream`: the graph's `input:` view; without one, a state (every channel is
/// written) or an update of it; or `()`, to go on with what is there.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no input of this graph over `{S}`",
    label = "no input of this graph",
    note = "give a `{S}`, an update of it (`{S}::update()…`) or `()`; a graph with `input: View` takes that view, which \
            must own its fields"
)]
pub trait GraphInput<S: Values, Input> {
    /// What is written before the run starts; none to go on.
    fn into_input(self) -> Option<Writes<S>>;
}

impl<S: Values, Input> GraphInput<S, Input> for () {
    fn into_input(self) -> Option<Writes<S>> {
        None
    }
}

impl GraphInput<DynState, Whole> for DynUpdate {
    fn into_input(self) -> Option<Writes<DynState>> {
        Some(self.into_writes())
    }
}

/// What a run returns: the graph's state, or its `output:` view.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the output of a graph over `{S}`",
    label = "no output of this graph",
    note = "an output is a `#[derive(View)] #[view(of = {S})]` struct that owns its fields"
)]
pub trait GraphOutput<S: Values>: Send + Sync + 'static {
    /// The output of a run that ended in this state.
    fn from_state(state: &S) -> Self;

    /// The same from a state that nobody else holds.
    fn from_owned(state: S) -> Self
    where
        Self: Sized,
    {
        Self::from_state(&state)
    }
}

impl<S: Values> GraphOutput<S> for S {
    fn from_state(state: &S) -> Self {
        state.clone()
    }

    fn from_owned(state: S) -> Self {
        state
    }
}
