//! What layers count over a run.

use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// What the layers of a hierarchy have counted since its run began, stored with what was counted: calls that were made, tokens that
/// were used. Each has a key of its own.
///
/// As a channel: what is written is added. A new input begins anew; a subagent hands back what it counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerCounts(OrdMap<Arc<str>, u64>);

impl LayerCounts {
    /// Nothing was counted.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was counted under this key.
    pub fn get(&self, key: &str) -> u64 {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// All that was counted, in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(key, count)| (&**key, *count))
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The reducer of `layer_counts`.
pub(crate) fn merge(counts: &mut LayerCounts, new: LayerCounts) {
    for (key, new) in new.0 {
        let count = counts.0.entry(key).or_default();
        *count = count.saturating_add(new);
    }
}

impl<K: Into<Arc<str>>> FromIterator<(K, u64)> for LayerCounts {
    fn from_iter<I: IntoIterator<Item = (K, u64)>>(counts: I) -> Self {
        Self(counts.into_iter().map(|(key, count)| (key.into(), count)).collect())
    }
}

impl<K: Into<Arc<str>>, const N: usize> From<[(K, u64); N]> for LayerCounts {
    fn from(counts: [(K, u64); N]) -> Self {
        counts.into_iter().collect()
    }
}
