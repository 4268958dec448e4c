//! Custom reducers, with one message for every wrong signature.

use crate::reducer::{ReduceError, ReducerOutput, Write};

/// A function that merges a write into the value of a channel.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a reducer of a `{T}`",
    label = "not a reducer of a `{T}`",
    note = "write `fn(&mut T, T)`, or return `Result<(), E>` with an error that implements `Display`"
)]
pub trait CustomReducer<T> {
    fn merge(self, value: &mut T, new: T) -> Result<(), ReduceError>;
}

#[diagnostic::do_not_recommend]
impl<T, R: ReducerOutput, F: FnOnce(&mut T, T) -> R> CustomReducer<T> for F {
    fn merge(self, value: &mut T, new: T) -> Result<(), ReduceError> {
        self(value, new).outcome()
    }
}

/// Applies one write with a custom reducer.
pub fn reduce_with<T>(value: &mut T, write: Write<T>, reducer: impl CustomReducer<T>) -> Result<(), ReduceError> {
    match write {
        Write::Merge(new) => reducer.merge(value, new),
        Write::Overwrite(new) => {
            *value = new;
            Ok(())
        }
    }
}
