use std::sync::Arc;

use imbl::OrdMap;
use serde::{Deserialize, Serialize};

/// The counts of layers, such as calls and tokens. Each layer has a key for each resource that it counts. A count is
/// stored together with the result of the call that the layer has counted.
///
/// The channel `layer_counts` has this type, and adds up its writes. The counts start at 0 with each new input. When a
/// subagent ends, its supervisor receives the subagent's counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LayerCounts(OrdMap<Arc<str>, u64>);

impl LayerCounts {
    /// Creates an empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the count of a key, or 0 if the map does not contain the key.
    pub fn get(&self, key: &str) -> u64 {
        self.0.get(key).copied().unwrap_or_default()
    }

    /// Iterates over all counts in the order of the keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(key, count)| (&**key, *count))
    }

    /// Returns true if there are no counts.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl LayerCounts {
    /// Returns the increase of each count since these earlier counts.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let counts = self.iter().map(|(key, count)| (key, count.saturating_sub(earlier.get(key))));
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

pub(crate) fn merge(counts: &mut LayerCounts, new: LayerCounts) {
    for (key, new) in new.0 {
        let count = counts.0.entry(key).or_default();
        *count = count.saturating_add(new);
    }
}

from_pairs!(LayerCounts, u64);
