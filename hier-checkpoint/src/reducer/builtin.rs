//! The built-in reducers, with the names that `#[reducer(…)]` uses.

use super::{Append, ExtendWith, Logical, MergeMessages, Number, ReduceError, Upsert};

/// Appends the written values to the list.
pub fn append<T: Append>(value: &mut T, new: T) {
    value.append_write(new);
}

/// Adds the entries of a set or map. A new entry replaces an old one with the same key.
pub fn extend<T: ExtendWith>(value: &mut T, new: T) {
    value.extend_with(new);
}

/// Adds numbers. An integer overflow is an error.
pub fn sum<T: Number>(value: &mut T, new: T) -> Result<(), ReduceError> {
    *value = (*value).plus(new).ok_or_else(|| overflow("sum"))?;
    Ok(())
}

/// Multiplies numbers. An integer overflow is an error. The initial value is that of the state's `Default`, which is 0
/// if derived.
pub fn product<T: Number>(value: &mut T, new: T) -> Result<(), ReduceError> {
    *value = (*value).times(new).ok_or_else(|| overflow("product"))?;
    Ok(())
}

/// Keeps the greater value. Keeps the old one if both are equal or cannot be compared.
pub fn max<T: PartialOrd>(value: &mut T, new: T) {
    if new > *value {
        *value = new;
    }
}

/// Keeps the lesser value. Keeps the old one if both are equal or cannot be compared.
pub fn min<T: PartialOrd>(value: &mut T, new: T) {
    if new < *value {
        *value = new;
    }
}

/// Becomes true when a true value is written.
pub fn any<T: Logical>(value: &mut T, mut new: T) {
    *value.truth() |= *new.truth();
}

/// Becomes false when a false value is written.
pub fn all<T: Logical>(value: &mut T, mut new: T) {
    *value.truth() &= *new.truth();
}

/// Replaces an item with a known id in place, and appends a new one.
pub fn by_id<T: Upsert>(value: &mut T, new: T) {
    value.upsert(new);
}

/// Merges messages by id, or removes them. See [`Messages`](crate::message::Messages).
pub fn messages<T: MergeMessages>(value: &mut T, new: T) -> Result<(), ReduceError> {
    value.merge_messages(new)
}

/// Keeps the last value in path order. Unlike a channel without a reducer, it accepts several writers per step.
pub fn last<T>(value: &mut T, new: T) {
    *value = new;
}

fn overflow(reducer: &str) -> ReduceError {
    ReduceError::new(format!(
        "`{reducer}` overflowed: use a wider number type, or `with = path` to decide what happens"
    ))
}
