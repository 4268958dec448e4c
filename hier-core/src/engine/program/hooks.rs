//! Code that runs when a graph is entered and left, beside its nodes.

use super::Body;
use crate::state::Values;

/// What runs when a graph is entered and left.
pub(crate) struct Hooks<S: Values, C> {
    pub(crate) on_entry: Option<Body<S, C>>,
    pub(crate) on_exit: Option<Body<S, C>>,
}

impl<S: Values, C> Default for Hooks<S, C> {
    fn default() -> Self {
        Self { on_entry: None, on_exit: None }
    }
}

impl<S: Values, C> Clone for Hooks<S, C> {
    fn clone(&self) -> Self {
        Self { on_entry: self.on_entry.clone(), on_exit: self.on_exit.clone() }
    }
}
