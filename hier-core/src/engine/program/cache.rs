//! Results of nodes with a `cache`, kept for equal inputs.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::{By, Destinations, Done, Sends, Task};
use crate::error::NodeError;
use crate::state::{Values, Writes};
use crate::sync::lock;

/// A node and the hash of all it could have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CacheKey {
    node: usize,
    input: u128,
}

impl CacheKey {
    pub(crate) fn of<S: Values, C>(task: &Task<S, C>) -> Result<Self, NodeError> {
        let input = match task.sent_json()? {
            Some(payload) => payload,
            None => state_json(task)?,
        };
        // Objects of `serde_json` are sorted by key, so equal inputs have equal texts.
        let text = serde_json::to_vec(&(task.was_sent(), input))?;
        Ok(Self { node: task.run.key.node, input: xxhash_rust::xxh3::xxh3_128(&text) })
    }
}

fn state_json<S: Values, C>(task: &Task<S, C>) -> Result<Value, NodeError> {
    let values = (0..task.graph.channels.len()).map(|channel| task.state().to_json(channel));
    // A list for each channel, so that a channel without a value differs from one that is null.
    let values = values.map(|value| Ok(Value::Array(value?.into_iter().collect())));
    Ok(Value::Array(values.collect::<Result<_, serde_json::Error>>()?))
}

/// What is kept of a result: everything but a command for the parent, which is never kept.
struct Kept<S: Values> {
    until: Instant,
    writes: Writes<S>,
    go: Vec<usize>,
    sends: Sends,
}

/// How many results a compiled graph keeps.
const CAPACITY: usize = 10_000;

/// The results that a compiled graph keeps.
pub(crate) struct NodeCache<S: Values>(Mutex<Results<S>>);

struct Results<S: Values> {
    kept: HashMap<CacheKey, Kept<S>>,
    /// The number of results at which those whose time has passed are dropped.
    crowd: usize,
}

impl<S: Values> Default for NodeCache<S> {
    fn default() -> Self {
        Self(Mutex::new(Results { kept: HashMap::new(), crowd: 0 }))
    }
}

impl<S: Values> Results<S> {
    /// Makes room: what is too old goes; if that is too little, the half that would go next. It is as much work as there are
    /// results, and comes again when there are twice as many.
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
    pub(crate) fn get(&self, key: CacheKey) -> Option<Done<S>> {
        let kept = &mut lock(&self.0).kept;
        let found = kept.get(&key)?;
        if found.until <= Instant::now() {
            kept.remove(&key);
            return None;
        }
        let destinations = Destinations { go: found.go.clone(), sends: found.sends.clone(), parent: None };
        Some(Done { writes: found.writes.clone(), destinations: Some(Box::new(destinations)), by: By::Cache })
    }

    pub(crate) fn put(&self, key: CacheKey, ttl: Duration, done: &Done<S>) {
        let now = Instant::now();
        let Some(until) = now.checked_add(ttl).filter(|_| !done.is_for_parent()) else { return };
        let mut results = lock(&self.0);
        results.make_room(now);
        let (go, sends) = done
            .destinations
            .as_ref()
            .map(|destinations| (destinations.go.clone(), destinations.sends.clone()))
            .unwrap_or_default();
        results.kept.insert(key, Kept { until, writes: done.writes.clone(), go, sends });
    }

    pub(crate) fn clear(&self) {
        lock(&self.0).kept.clear();
    }
}
