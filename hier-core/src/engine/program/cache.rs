use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;

use super::{By, Destinations, Sends, TaskOutcome};
use crate::state::{Values, Writes};
use crate::sync::lock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    pub(super) node: usize,
    pub(super) input: u128,
}

/// The cached result of a node. Commands for the parent are never cached.
struct CachedResult<S: Values> {
    until: Instant,
    writes: Writes<S>,
    go: Vec<usize>,
    sends: Sends,
}

/// Maximum number of results per compiled graph.
const CAPACITY: usize = 10_000;

pub(crate) struct NodeCache<S: Values>(Mutex<CacheEntries<S>>);

struct CacheEntries<S: Values> {
    kept: HashMap<CacheKey, CachedResult<S>>,
    /// The number of results at which expired results are dropped.
    crowd: usize,
}

/// The copy of a graph has other code or other names, so its cache starts empty.
impl<S: Values> Clone for NodeCache<S> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<S: Values> Default for NodeCache<S> {
    fn default() -> Self {
        Self(Mutex::new(CacheEntries { kept: HashMap::new(), crowd: 0 }))
    }
}

impl<S: Values> CacheEntries<S> {
    /// Drops expired results if there are too many. If that is not enough, drops the half of the results that expires
    /// next. The next cleanup comes when the number has doubled, so the work is amortized.
    fn make_room(&mut self, now: Instant) {
        if self.kept.len() < self.crowd {
            return;
        }
        self.kept.retain(|_, kept| kept.until > now);
        if self.kept.len() >= CAPACITY {
            let mut ends: Vec<Instant> = self.kept.values().map(|kept| kept.until).collect();
            let (_, &mut middle, _) = ends.select_nth_unstable(CAPACITY / 2);
            let mut spared = CAPACITY / 2;
            self.kept.retain(|_, kept| {
                let stays = kept.until >= middle && spared > 0;
                spared -= usize::from(stays);
                stays
            });
        }
        self.crowd = (2 * self.kept.len()).clamp(64, CAPACITY);
    }
}

impl<S: Values> NodeCache<S> {
    pub(crate) fn get(&self, key: CacheKey) -> Option<TaskOutcome<S>> {
        let kept = &mut lock(&self.0).kept;
        let found = kept.get(&key)?;
        if found.until <= Instant::now() {
            kept.remove(&key);
            return None;
        }
        let destinations = Destinations { go: found.go.clone(), sends: found.sends.clone(), parent: None };
        Some(TaskOutcome { writes: found.writes.clone(), destinations: Some(Box::new(destinations)), by: By::Cache })
    }

    pub(crate) fn put(&self, key: CacheKey, ttl: Duration, done: &TaskOutcome<S>) {
        let now = Instant::now();
        let Some(until) = now.checked_add(ttl).filter(|_| !done.is_for_parent()) else { return };
        let mut results = lock(&self.0);
        results.make_room(now);
        let chosen = done.destinations.as_ref();
        let (go, sends) = chosen.map(|chosen| (chosen.go.clone(), chosen.sends.clone())).unwrap_or_default();
        results.kept.insert(key, CachedResult { until, writes: done.writes.clone(), go, sends });
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).kept.clear();
    }
}
