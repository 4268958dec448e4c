//! One write of a channel, before it is merged.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};

/// Replaces a channel's value instead of merging into it.
///
/// Two overwrites of one channel in one step are a conflict; with one, every other write of that channel in the step is
/// lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Overwrite<T>(pub T);

/// One write of a channel with a reducer: a value to merge, or a value to replace the old one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Write<T> {
    /// Merged by the channel's reducer.
    Merge(T),
    /// Replaces the channel's value.
    Overwrite(T),
}

impl<T> Write<T> {
    /// Whether it replaces the channel's value.
    pub const fn is_overwrite(&self) -> bool {
        matches!(self, Self::Overwrite(_))
    }

    /// The value, merged or not.
    pub fn into_value(self) -> T {
        match self {
            Self::Merge(value) | Self::Overwrite(value) => value,
        }
    }

    /// The value, merged or not.
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

impl From<&str> for Write<String> {
    fn from(text: &str) -> Self {
        Self::Merge(text.to_owned())
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
