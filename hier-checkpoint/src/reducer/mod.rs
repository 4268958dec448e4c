//! Reducers, which merge the writes of a superstep into the value of a channel.
//!
//! The types that a built-in reducer can merge implement the trait of this reducer. If a channel has another type, the
//! program does not compile. A custom reducer (`with = path`) is an `fn(&mut T, T)`, which may return a `Result`.
//!
//! `append` and `extend` are associative: the result does not change if writes are merged with each other first. `sum`,
//! `product`, `max`, `min`, `any` and `all` are associative and commutative, apart from the rounding of floats. `last`
//! keeps the last write, in the order in which the engine applies the writes of a superstep.

pub mod builtin;
pub mod json;
mod write;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::fmt::Display;
use std::hash::{BuildHasher, Hash};

pub use write::{IntoTexts, IntoValue, IntoWrite, Overwrite, Write};

/// Maximum length of a [`ReduceError`], in characters.
const LONGEST_MESSAGE: usize = 2_000;

/// The reason why a reducer could not merge a write. The engine adds the names of the channel and the node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReduceError(String);

impl ReduceError {
    /// Creates an error with this message. A message of more than 2,000 characters is cut off, because it may quote a
    /// value of any length.
    pub fn new(message: impl Into<String>) -> Self {
        let mut message = message.into();
        if let Some((end, _)) = message.char_indices().nth(LONGEST_MESSAGE) {
            message.replace_range(end.., "…");
        }
        Self(message)
    }
}

/// The return type of a custom reducer: `()`, or a `Result` whose error implements `Display`.
#[diagnostic::on_unimplemented(
    message = "a reducer cannot return `{Self}`",
    note = "write `fn(&mut T, T)`, or return `Result<(), E>` with an error that implements `Display`"
)]
pub trait ReducerOutput {
    /// Converts the return value of a custom reducer to a result.
    fn outcome(self) -> Result<(), ReduceError>;
}

impl ReducerOutput for () {
    fn outcome(self) -> Result<(), ReduceError> {
        Ok(())
    }
}

impl<E: Display> ReducerOutput for Result<(), E> {
    fn outcome(self) -> Result<(), ReduceError> {
        self.map_err(|error| ReduceError::new(error.to_string()))
    }
}

/// Applies one write to `value`: calls `reducer`, or replaces the value if the write is an overwrite.
/// `#[derive(State)]` calls this function.
#[doc(hidden)]
pub fn reduce<T, R: ReducerOutput>(
    value: &mut T,
    write: Write<T>,
    reducer: impl FnOnce(&mut T, T) -> R,
) -> Result<(), ReduceError> {
    match write {
        Write::Merge(new) => reducer(value, new).outcome(),
        Write::Overwrite(new) => {
            *value = new;
            Ok(())
        }
    }
}

/// A type of a channel with `#[reducer(append)]`, which appends each write to the end of the value.
#[diagnostic::on_unimplemented(
    message = "the reducer `append` cannot merge a `{Self}`",
    label = "not a list",
    note = "`append` takes `Vec`, `VecDeque` and `String`; for sets and maps use `extend`, else `with = path`"
)]
pub trait Append {
    /// Moves `new` to the end of `self`.
    fn append_write(&mut self, new: Self);
}

impl<T> Append for Vec<T> {
    fn append_write(&mut self, mut new: Self) {
        if self.is_empty() && self.capacity() < new.len() {
            *self = new;
        } else {
            self.append(&mut new);
        }
    }
}

impl<T> Append for VecDeque<T> {
    fn append_write(&mut self, mut new: Self) {
        self.append(&mut new);
    }
}

impl Append for String {
    fn append_write(&mut self, new: Self) {
        self.push_str(&new);
    }
}

/// A type of a channel with `#[reducer(extend)]`, which adds the written entries to a set or map. A new entry replaces
/// an old entry with the same key.
#[diagnostic::on_unimplemented(
    message = "the reducer `extend` cannot merge a `{Self}`",
    label = "neither a set nor a map",
    note = "`extend` takes the sets and maps of `std::collections`; for lists use `append`, else `with = path`"
)]
pub trait ExtendWith {
    /// Moves the entries of `new` into `self`.
    fn extend_with(&mut self, new: Self);
}

impl<K: Eq + Hash, V, H: BuildHasher> ExtendWith for HashMap<K, V, H> {
    fn extend_with(&mut self, new: Self) {
        self.extend(new);
    }
}

impl<K: Ord, V> ExtendWith for BTreeMap<K, V> {
    fn extend_with(&mut self, mut new: Self) {
        self.append(&mut new);
    }
}

impl<T: Eq + Hash, H: BuildHasher> ExtendWith for HashSet<T, H> {
    fn extend_with(&mut self, new: Self) {
        self.extend(new);
    }
}

impl<T: Ord> ExtendWith for BTreeSet<T> {
    fn extend_with(&mut self, mut new: Self) {
        self.append(&mut new);
    }
}

/// A type of a channel with `#[reducer(sum)]` or `#[reducer(product)]`: a number. An integer overflow is an error.
#[diagnostic::on_unimplemented(
    message = "the reducers `sum` and `product` cannot merge a `{Self}`",
    label = "not a number",
    note = "they take the integers and floats; for other types use `with = path`"
)]
pub trait Number: Copy {
    /// Returns the sum, or `None` on overflow.
    fn plus(self, other: Self) -> Option<Self>;
    /// Returns the product, or `None` on overflow.
    fn times(self, other: Self) -> Option<Self>;
}

macro_rules! numbers {
    (integers: $($int:ty)*; floats: $($float:ty)*) => {
        $(impl Number for $int {
            fn plus(self, other: Self) -> Option<Self> {
                self.checked_add(other)
            }
            fn times(self, other: Self) -> Option<Self> {
                self.checked_mul(other)
            }
        })*
        $(impl Number for $float {
            fn plus(self, other: Self) -> Option<Self> {
                Some(self + other)
            }
            fn times(self, other: Self) -> Option<Self> {
                Some(self * other)
            }
        })*
    };
}

numbers! { integers: i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize; floats: f32 f64 }

/// A type of a channel with `#[reducer(any)]` (logical OR) or `#[reducer(all)]` (logical AND).
#[diagnostic::on_unimplemented(
    message = "the reducers `any` and `all` cannot merge a `{Self}`",
    label = "not a `bool`",
    note = "they take `bool`; for other types use `with = path`"
)]
pub trait Logical {
    /// Returns a mutable reference to the Boolean value.
    fn truth(&mut self) -> &mut bool;
}

impl Logical for bool {
    fn truth(&mut self) -> &mut bool {
        self
    }
}

/// An item with an id, for a channel with `#[reducer(by_id)]`. The reducer has a second name, `upsert`.
#[diagnostic::on_unimplemented(
    message = "the reducer `by_id` needs items with an id, and `{Self}` has none",
    label = "implement `Identified`",
    note = "`impl Identified for Item {{ type Id = String; fn id(&self) -> &String {{ &self.id }} }}`"
)]
pub trait Identified {
    /// The type of the id.
    type Id: Eq + Hash;
    /// Returns the id of the item.
    fn id(&self) -> &Self::Id;
}

/// A type of a channel with `#[reducer(by_id)]`: a list of items with ids. An item with a known id replaces the old
/// item at the same position. The reducer appends an item with a new id.
#[diagnostic::on_unimplemented(
    message = "the reducer `by_id` cannot merge a `{Self}`",
    label = "not a `Vec` of items with an id",
    note = "it takes `Vec<T>` where `T: Identified`"
)]
pub trait Upsert {
    /// Merges the items of `new` into `self`.
    fn upsert(&mut self, new: Self);
}

impl<T: Identified> Upsert for Vec<T> {
    fn upsert(&mut self, new: Self) {
        let places = merged_places(self.iter().map(T::id), new.iter().map(T::id));
        put_at(self, new, places);
    }
}

/// Maximum number of written items that are compared with all items. An index would cost more than it saves.
const FEW_ITEMS: usize = 16;

/// Returns the position of each new item in the merged list: that of the first item with its id, or a position behind
/// the old items. The items can be a client's data, so the time must not grow with the product of both lengths.
fn merged_places<I: Copy + Eq + Hash>(
    old: impl Iterator<Item = I>,
    new: impl ExactSizeIterator<Item = I>,
) -> Vec<usize> {
    let mut all: Vec<I> = old.collect();
    if new.len() <= FEW_ITEMS {
        let mut place = |id| {
            all.iter().position(|known| *known == id).unwrap_or_else(|| {
                all.push(id);
                all.len() - 1
            })
        };
        return new.map(&mut place).collect();
    }
    let mut places = HashMap::with_capacity(all.len() + new.len());
    for (place, id) in all.iter().enumerate() {
        places.entry(*id).or_insert(place);
    }
    let mut len = all.len();
    let mut place = |id| {
        *places.entry(id).or_insert_with(|| {
            len += 1;
            len - 1
        })
    };
    new.map(&mut place).collect()
}

/// Puts the new items at their [places](merged_places).
fn put_at<T>(list: &mut Vec<T>, new: Vec<T>, places: Vec<usize>) {
    for (item, place) in new.into_iter().zip(places) {
        match list.get_mut(place) {
            Some(old) => *old = item,
            None => list.push(item),
        }
    }
}

/// A type of a channel with `#[reducer(messages)]`: a conversation. Messages are merged by their ids.
#[diagnostic::on_unimplemented(
    message = "the reducer `messages` cannot merge a `{Self}`",
    label = "not a conversation",
    note = "`messages` takes `Messages`; for lists of other items with an id use `by_id`"
)]
pub trait MergeMessages {
    /// Replaces messages with known ids, carries out removals, and appends the other messages.
    fn merge_messages(&mut self, new: Self) -> Result<(), ReduceError>;
}
