use std::fmt;

use super::Command;
use crate::state::{Values, Writes};

/// The input of a run.
pub enum Input<S: Values> {
    /// A new input, as the writes that it makes to the state.
    New(Writes<S>),
    /// A whole state, as writes to all channels. The run fails if the thread has a checkpoint.
    Whole(Writes<S>),
    /// No input. The thread continues where it stopped.
    Continue,
    /// No input, for a background run. A stored thread continues where it stopped. A new thread begins with the initial
    /// state that the caller has set.
    Enter,
    /// A command with answers, an update or targets for the thread.
    Command(Box<Command<S>>),
}

impl<S: Values> fmt::Debug for Input<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::New(writes) => f.debug_tuple("New").field(writes).finish(),
            Self::Whole(writes) => f.debug_tuple("Whole").field(writes).finish(),
            Self::Continue => f.write_str("Continue"),
            Self::Enter => f.write_str("Enter"),
            Self::Command(command) => f.debug_tuple("Command").field(command).finish(),
        }
    }
}

/// The output of a run: the state, or the view that the graph declares as `output:`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the output of a graph over `{S}`",
    label = "no output of this graph",
    note = "an output is a `#[derive(View)] #[view(of = {S})]` struct that owns its fields"
)]
pub trait GraphOutput<S: Values>: Send + Sync + 'static {
    /// Makes the output of the run from a reference to the final state.
    fn from_state(state: &S) -> Self;

    /// Makes the output of the run from the final state, without a copy if possible.
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
