//! The built-in reducers, by the names that stand in `#[reducer(…)]`.

use super::{Append, ExtendWith, Logical, MergeMessages, Number, ReduceError, Upsert};

/// Appends the written values to the list.
pub fn append<T: Append>(value: &mut T, new: T) {
    value.append_write(new);
}

/// Sets and maps are united; for an equal key the right one wins.
pub fn extend<T: ExtendWith>(value: &mut T, new: T) {
    value.extend_with(new);
}

/// Numbers are added. An integer overflow is an error.
pub fn sum<T: Number>(value: &mut T, new: T) -> Result<(), ReduceError> {
    *value = (*value).plus(new).ok_or_else(|| overflow("sum"))?;
    Ok(())
}

/// Numbers are multiplied. An integer overflow is an error. The channel starts at the field's default, so at 0
/// unless the state's `Default` says otherwise.
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

/// Becomes true as soon as one value is true.
pub fn any<T: Logical>(value: &mut T, mut new: T) {
    *value.truth() |= *new.truth();
}

/// Becomes false as soon as one value is false.
pub fn all<T: Logical>(value: &mut T, mut new: T) {
    *value.truth() &= *new.truth();
}

/// Replaces an item with a known id in place, and appends a new one.
pub fn by_id<T: Upsert>(value: &mut T, new: T) {
    value.upsert(new);
}

/// Messages are merged by id, or removed: see [`Messages`](crate::message::Messages).
pub fn messages<T: MergeMessages>(value: &mut T, new: T) -> Result<(), ReduceError> {
    value.merge_messages(new)
}

/// Keeps the last value in path order. Unlike a plain channel, it may have several writers in a step.
pub fn last<T>(value: &mut T, new: T) {
    *value = new;
}

fn overflow(reducer: &str) -> ReduceError {
    ReduceError::new(format!(
        "`{reducer}` overflowed: use a wider number type, or `with = path` to decide what happens"
    ))
}
