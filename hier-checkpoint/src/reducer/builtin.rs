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

/// The greater one stays; of equal ones, or where they cannot be compared, the old one.
pub fn max<T: PartialOrd>(value: &mut T, new: T) {
    if new > *value {
        *value = new;
    }
}

/// The lesser one stays; of equal ones, or where they cannot be compared, the old one.
pub fn min<T: PartialOrd>(value: &mut T, new: T) {
    if new < *value {
        *value = new;
    }
}

/// True as soon as one is true.
pub fn any<T: Logical>(value: &mut T, mut new: T) {
    *value.truth() |= *new.truth();
}

/// False as soon as one is false.
pub fn all<T: Logical>(value: &mut T, mut new: T) {
    *value.truth() &= *new.truth();
}

/// An item with a known id replaces the old one in place, a new one goes to the end.
pub fn by_id<T: Upsert>(value: &mut T, new: T) {
    value.upsert(new);
}

/// Messages are merged by id, or removed: see [`Messages`](crate::message::Messages).
pub fn messages<T: MergeMessages>(value: &mut T, new: T) -> Result<(), ReduceError> {
    value.merge_messages(new)
}

/// The last one in path order wins; unlike a plain channel it may have several writers in a step.
pub fn last<T>(value: &mut T, new: T) {
    *value = new;
}

fn overflow(reducer: &str) -> ReduceError {
    ReduceError::new(format!(
        "`{reducer}` overflowed: use a wider number type, or `with = path` to decide what happens"
    ))
}
