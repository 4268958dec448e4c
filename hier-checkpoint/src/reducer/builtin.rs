//! The built-in reducers, with the names that `#[reducer(…)]` uses.

use super::{Append, ExtendWith, Logical, MergeMessages, Number, ReduceError, Upsert};

/// Appends the written values to a list, or the written text to a string.
pub fn append<T: Append>(value: &mut T, new: T) {
    value.append_write(new);
}

/// Adds the written entries to a set or map. A new entry replaces an old entry with the same key.
pub fn extend<T: ExtendWith>(value: &mut T, new: T) {
    value.extend_with(new);
}

/// Adds the written number. An integer overflow is an error.
pub fn sum<T: Number>(value: &mut T, new: T) -> Result<(), ReduceError> {
    *value = (*value).plus(new).ok_or_else(|| overflow("sum"))?;
    Ok(())
}

/// Multiplies by the written number. An integer overflow is an error. The channel starts with its value in the state's
/// `Default`. If this value is 0, as with a derived `Default`, the product stays 0.
pub fn product<T: Number>(value: &mut T, new: T) -> Result<(), ReduceError> {
    *value = (*value).times(new).ok_or_else(|| overflow("product"))?;
    Ok(())
}

/// Keeps the greater value. If the values are equal or cannot be compared, keeps the old value.
pub fn max<T: PartialOrd>(value: &mut T, new: T) {
    if new > *value {
        *value = new;
    }
}

/// Keeps the lesser value. If the values are equal or cannot be compared, keeps the old value.
pub fn min<T: PartialOrd>(value: &mut T, new: T) {
    if new < *value {
        *value = new;
    }
}

/// Computes the logical OR: the channel becomes true when a node writes true, and then stays true.
pub fn any<T: Logical>(value: &mut T, mut new: T) {
    *value.truth() |= *new.truth();
}

/// Computes the logical AND: the channel becomes false when a node writes false, and then stays false.
pub fn all<T: Logical>(value: &mut T, mut new: T) {
    *value.truth() &= *new.truth();
}

/// Merges items by id. A written item replaces the item with the same id, and takes its position. Written items with
/// other ids are appended.
pub fn by_id<T: Upsert>(value: &mut T, new: T) {
    value.upsert(new);
}

/// Merges messages by id, and carries out requests to remove messages. See [`Messages`](crate::message::Messages).
pub fn messages<T: MergeMessages>(value: &mut T, new: T) -> Result<(), ReduceError> {
    value.merge_messages(new)
}

/// Keeps the last value in the order in which the engine applies the writes of a superstep. Unlike a channel without a
/// reducer, a channel with this reducer accepts several writers per superstep.
pub fn last<T>(value: &mut T, new: T) {
    *value = new;
}

fn overflow(reducer: &str) -> ReduceError {
    ReduceError::new(format!(
        "`{reducer}` overflowed: use a wider number type, or `with = path` to decide what happens"
    ))
}
