use std::collections::HashMap;
use std::sync::Mutex;

use hier_checkpoint::sync::lock;

/// Counters of inherited layers, shared by the agents of this process.
#[derive(Debug, Default)]
pub(super) struct CallCounters(Mutex<HashMap<String, u64>>);

impl CallCounters {
    /// Returns the stored count, or the count of this process if it is higher.
    pub(super) fn get(&self, key: &str, stored: u64) -> u64 {
        lock(&self.0).get(key).copied().unwrap_or_default().max(stored)
    }

    pub(super) fn add(&self, key: &str, stored: u64, more: u64) {
        let mut counts = lock(&self.0);
        let count = counts.entry(key.to_owned()).or_default();
        *count = (*count).max(stored).saturating_add(more);
    }

    pub(super) fn increment_below(&self, key: &str, stored: u64, limit: u64) -> bool {
        let mut counts = lock(&self.0);
        let count = counts.entry(key.to_owned()).or_default();
        *count = (*count).max(stored);
        let is_left = *count < limit;
        *count = count.saturating_add(u64::from(is_left));
        is_left
    }

    /// Replaces one unit of [`increment_below`](Self::increment_below) by the number of units that were used.
    pub(super) fn settle(&self, key: &str, used: u64) {
        if let Some(count) = lock(&self.0).get_mut(key) {
            *count = count.saturating_sub(1).saturating_add(used);
        }
    }
}
