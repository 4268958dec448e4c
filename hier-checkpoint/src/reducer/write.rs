//! One write of a channel, before it is merged.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// A write that replaces the value of a channel instead of being merged into it.
///
/// If a superstep has one overwrite of a channel, the engine ignores all other writes of this channel in the superstep.
/// Two overwrites of a channel in one superstep are a conflict, and the run fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Overwrite<T>(pub T);

/// A write to a channel with a reducer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write<T> {
    /// A value that the reducer merges into the channel.
    Merge(T),
    /// A value that replaces the value of the channel.
    Overwrite(T),
}

impl<T> Write<T> {
    /// Returns true if the write replaces the channel's value.
    pub const fn is_overwrite(&self) -> bool {
        matches!(self, Self::Overwrite(_))
    }

    /// Returns the written value, for both variants.
    pub fn into_value(self) -> T {
        match self {
            Self::Merge(value) | Self::Overwrite(value) => value,
        }
    }

    /// Returns a reference to the written value, for both variants.
    pub const fn value(&self) -> &T {
        match self {
            Self::Merge(value) | Self::Overwrite(value) => value,
        }
    }
}

impl<T> From<T> for Write<T> {
    fn from(value: T) -> Self {
        Self::Merge(value)
    }
}

impl<T> From<Overwrite<T>> for Write<T> {
    fn from(Overwrite(value): Overwrite<T>) -> Self {
        Self::Overwrite(value)
    }
}

impl<T> From<T> for Write<Option<T>> {
    fn from(value: T) -> Self {
        Self::Merge(Some(value))
    }
}

impl From<&str> for Write<Option<String>> {
    fn from(text: &str) -> Self {
        Self::Merge(Some(text.to_owned()))
    }
}

impl From<&str> for Write<String> {
    fn from(text: &str) -> Self {
        Self::Merge(text.to_owned())
    }
}

/// Writes one item.
impl<T> From<T> for Write<Vec<T>> {
    fn from(item: T) -> Self {
        Self::Merge(vec![item])
    }
}

/// Writes one item.
impl From<&str> for Write<Vec<String>> {
    fn from(item: &str) -> Self {
        Self::Merge(vec![item.to_owned()])
    }
}

/// An array with 1 to 32 elements. The conversions from arrays of `&str` require this trait, so that the compiler does not
/// infer `&str` as the element type of an empty array `[]`.
pub trait Filled {}

macro_rules! filled {
    ($($length:literal)*) => {$(impl<T> Filled for [T; $length] {})*};
}

filled! { 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 }

/// Writes up to 32 strings.
impl<'a, const N: usize> From<[&'a str; N]> for Write<Vec<String>>
where
    [&'a str; N]: Filled,
{
    fn from(items: [&'a str; N]) -> Self {
        Self::Merge(items.map(str::to_owned).into())
    }
}

impl<T, const N: usize> From<[T; N]> for Write<Vec<T>> {
    fn from(items: [T; N]) -> Self {
        Self::Merge(Vec::from(items))
    }
}

impl<T, const N: usize> From<[T; N]> for Write<VecDeque<T>> {
    fn from(items: [T; N]) -> Self {
        Self::Merge(VecDeque::from(items))
    }
}

impl<T: Ord, const N: usize> From<[T; N]> for Write<BTreeSet<T>> {
    fn from(items: [T; N]) -> Self {
        Self::Merge(BTreeSet::from(items))
    }
}

impl<T: Eq + Hash, H: BuildHasher + Default, const N: usize> From<[T; N]> for Write<HashSet<T, H>> {
    fn from(items: [T; N]) -> Self {
        Self::Merge(items.into_iter().collect())
    }
}

impl<K: Ord, V, const N: usize> From<[(K, V); N]> for Write<BTreeMap<K, V>> {
    fn from(items: [(K, V); N]) -> Self {
        Self::Merge(BTreeMap::from(items))
    }
}

impl<K: Eq + Hash, V, H: BuildHasher + Default, const N: usize> From<[(K, V); N]> for Write<HashMap<K, V, H>> {
    fn from(items: [(K, V); N]) -> Self {
        Self::Merge(items.into_iter().collect())
    }
}

/// An argument for the setter of a channel with a reducer. Every type that implements `Into<Write<T>>` implements this
/// trait.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be written to a channel of `{T}`",
    label = "cannot be written to a channel of `{T}`",
    note = "write a `{T}`, or `Overwrite(value)` to replace what is there; a `Vec` also takes one item or an array of items, a set or \
            a map an array of its entries"
)]
pub trait IntoWrite<T> {
    /// Converts the argument to a write.
    fn into_write(self) -> Write<T>;
}

#[diagnostic::do_not_recommend]
impl<T, V: Into<Write<T>>> IntoWrite<T> for V {
    #[inline]
    fn into_write(self) -> Write<T> {
        self.into()
    }
}

/// An argument for the setter of a channel without a reducer. Every type that implements `Into<T>` implements this
/// trait.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be written to a channel of `{T}`",
    label = "cannot be written to a channel of `{T}`",
    note = "write a `{T}`, or what converts into it with `into()`"
)]
pub trait IntoValue<T> {
    /// Converts the argument to the value.
    fn into_value(self) -> T;
}

#[diagnostic::do_not_recommend]
impl<T, V: Into<T>> IntoValue<T> for V {
    #[inline]
    fn into_value(self) -> T {
        self.into()
    }
}

/// An argument for the setter of a channel of the type `Option<String>` or `Vec<String>` without a reducer. An
/// `Option<String>` also accepts a `&str`, and a `Vec<String>` also accepts an array of `&str`.
#[diagnostic::on_unimplemented(
    message = "a `{Self}` cannot be written to a channel of `{T}`",
    label = "cannot be written to a channel of `{T}`",
    note = "write a `{T}`; an `Option<String>` also takes a `&str`, a `Vec<String>` an array of `&str`"
)]
pub trait IntoTexts<T> {
    /// Converts the argument to the value.
    fn into_texts(self) -> T;
}

impl<T> IntoTexts<Self> for Option<T> {
    fn into_texts(self) -> Self {
        self
    }
}

impl<T> IntoTexts<Option<T>> for T {
    fn into_texts(self) -> Option<T> {
        Some(self)
    }
}

impl IntoTexts<Option<String>> for &str {
    fn into_texts(self) -> Option<String> {
        Some(self.to_owned())
    }
}

impl<T> IntoTexts<Self> for Vec<T> {
    fn into_texts(self) -> Self {
        self
    }
}

macro_rules! lists {
    ($([$($generics:tt)*] $ty:ty),+) => {$(
        impl<$($generics)*> IntoTexts<Vec<T>> for $ty {
            fn into_texts(self) -> Vec<T> {
                self.into()
            }
        }
    )+};
}

lists!([T, const N: usize] [T; N], [T: Clone] &[T], [T] Box<[T]>, [T] VecDeque<T>);

impl<'a, const N: usize> IntoTexts<Vec<String>> for [&'a str; N]
where
    [&'a str; N]: Filled,
{
    fn into_texts(self) -> Vec<String> {
        self.map(str::to_owned).into()
    }
}
