//! The parts of the state and the context that every agent has.

/// Implements `FromIterator` and `From` for a map from names to values.
macro_rules! from_pairs {
    ($map:ident, $value:ty) => {
        impl<K: Into<Arc<str>>> FromIterator<(K, $value)> for $map {
            fn from_iter<I: IntoIterator<Item = (K, $value)>>(pairs: I) -> Self {
                Self(pairs.into_iter().map(|(name, value)| (name.into(), value)).collect())
            }
        }

        impl<K: Into<Arc<str>>, const N: usize> From<[(K, $value); N]> for $map {
            fn from(pairs: [(K, $value); N]) -> Self {
                pairs.into_iter().collect()
            }
        }
    };
}

pub(crate) mod added;
pub(super) mod background;
pub(super) mod base;
pub(super) mod budget;
pub(super) mod chat;
pub(super) mod client_tools;
pub(super) mod context;
pub(super) mod counts;
pub(super) mod dynamic;
pub(crate) mod found;
pub(super) mod frame;
pub(crate) mod labels;
pub(super) mod outcome;
pub(super) mod progress;
pub(super) mod todo;
pub(super) mod turn;
