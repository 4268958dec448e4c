use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::plan::{Finder, Plan, Put, Read, Write, list_namespaces};
use super::{Item, Op, OpResult, Store, StoreError, StoreOptions};
use crate::sync::{Mutex, MutexGuard, lock};

/// A store that keeps items in memory. They are lost when the process ends. Clones share the items.
///
/// A batch takes effect as a whole, or not at all.
#[derive(Clone, Default)]
pub struct MemoryStore(Arc<Inner>);

#[derive(Default)]
struct Inner {
    options: StoreOptions,
    spaces: Mutex<Spaces>,
}

#[derive(Default)]
struct Spaces {
    by_labels: BTreeMap<Vec<String>, Space>,
    /// The number of the last namespace or item that was made.
    last: u64,
}

#[derive(Default)]
struct Space {
    place: u64,
    /// The place of each item, by key.
    places: HashMap<String, u64>,
    items: BTreeMap<u64, Kept>,
}

struct Kept {
    key: String,
    value: Map<String, Value>,
    vectors: Vec<Vec<f32>>,
    created_at: SystemTime,
    updated_at: SystemTime,
    time_to_live: Option<Duration>,
    expires: Option<SystemTime>,
}

impl MemoryStore {
    /// Creates an empty store with these options.
    pub fn new(options: StoreOptions) -> Self {
        Self(Arc::new(Inner { options, spaces: Mutex::default() }))
    }

    fn spaces(&self) -> MutexGuard<'_, Spaces> {
        lock(&self.0.spaces)
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemoryStore").field(&self.0.options).finish()
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn batch(&self, ops: Vec<Op>) -> Result<Vec<OpResult>, StoreError> {
        let plan = Plan::of(&self.0.options, ops).await?;
        Ok(self.spaces().apply(plan, SystemTime::now()))
    }

    async fn sweep(&self) -> Result<u64, StoreError> {
        let swept = self.spaces().sweep(SystemTime::now());
        Ok(swept)
    }

    fn searches_by_meaning(&self) -> bool {
        self.0.options.has_index()
    }
}

impl Spaces {
    fn apply(&mut self, plan: Plan, now: SystemTime) -> Vec<OpResult> {
        let mut results = plan.results();
        for (number, read) in &plan.reads {
            results[*number] = match read {
                Read::Item { namespace, key, refresh } => OpResult::Item(self.item(namespace, key, *refresh, now)),
                Read::Items(finder) => OpResult::Items(self.find(finder, now)),
                Read::Namespaces(query) => OpResult::Namespaces(list_namespaces(query, self.alive(now))),
            };
        }
        let deleted = plan.writes.iter().filter(|write| write.put.is_none());
        let deleted: Vec<_> = deleted.map(|write| write.namespace.clone()).collect();
        plan.writes.into_iter().for_each(|write| self.write(write, now));
        // At the end of the batch, so that a namespace that is filled again keeps its place.
        for namespace in deleted {
            if self.by_labels.get(&namespace).is_some_and(|space| space.items.is_empty()) {
                self.by_labels.remove(&namespace);
            }
        }
        results
    }

    fn item(&mut self, namespace: &[String], key: &str, refresh: bool, now: SystemTime) -> Option<Item> {
        let space = self.by_labels.get_mut(namespace)?;
        let kept = space.items.get_mut(space.places.get(key)?)?;
        kept.read(namespace, None, refresh, now)
    }

    fn find(&mut self, finder: &Finder, now: SystemTime) -> Vec<Item> {
        let below = self.by_labels.range(finder.prefix.clone()..);
        let mut below: Vec<_> = below
            .take_while(|(labels, _)| labels.starts_with(&finder.prefix))
            .filter(|(labels, _)| finder.includes(labels))
            .collect();
        below.sort_by_key(|(_, space)| space.place);
        let mut picking = finder.picking();
        for (labels, space) in below {
            for (place, kept) in space.items.iter().filter(|(_, kept)| kept.is_alive(now)) {
                if let Some(rank) = picking.rank(&kept.value, &kept.vectors) {
                    picking.pick(rank, (labels.clone(), *place));
                }
            }
            if picking.is_full() {
                break;
            }
        }
        let picked = picking.finish().into_iter();
        let items = picked.filter_map(|((labels, place), score)| {
            let kept = self.by_labels.get_mut(&labels)?.items.get_mut(&place)?;
            kept.read(&labels, score, finder.refresh, now)
        });
        items.collect()
    }

    fn alive(&self, now: SystemTime) -> impl Iterator<Item = Vec<String>> {
        let alive = self.by_labels.iter().filter(move |(_, space)| space.items.values().any(|kept| kept.is_alive(now)));
        alive.map(|(labels, _)| labels.clone())
    }

    fn write(&mut self, write: Write, now: SystemTime) {
        let Write { namespace, key, put } = write;
        match put {
            Some(put) => self.put(namespace, key, put, now),
            None => drop(self.by_labels.get_mut(&namespace).map(|space| space.remove(&key))),
        }
    }

    /// Stores an item. An item that exists and has not expired keeps its place and its time of creation.
    fn put(&mut self, namespace: Vec<String>, key: String, put: Put, now: SystemTime) {
        self.last += 2;
        let last = self.last;
        let space = self.by_labels.entry(namespace).or_insert_with(|| Space { place: last - 1, ..Space::default() });
        let old = space.places.get(&key).copied();
        let old = old.filter(|place| space.items.get(place).is_some_and(|kept| kept.is_alive(now)));
        if old.is_none() {
            space.remove(&key);
        }
        let place = old.unwrap_or(last);
        let created_at = space.items.get(&place).map_or(now, |kept| kept.created_at);
        let Put { value, vectors, time_to_live } = put;
        let expires = time_to_live.and_then(|lives| now.checked_add(lives));
        space.places.insert(key.clone(), place);
        space.items.insert(place, Kept { key, value, vectors, created_at, updated_at: now, time_to_live, expires });
    }

    fn sweep(&mut self, now: SystemTime) -> u64 {
        let mut swept = 0;
        self.by_labels.retain(|_, space| {
            let before = space.items.len();
            space.items.retain(|_, kept| kept.is_alive(now));
            space.places.retain(|_, place| space.items.contains_key(place));
            swept += (before - space.items.len()) as u64;
            !space.items.is_empty()
        });
        swept
    }
}

impl Space {
    fn remove(&mut self, key: &str) {
        if let Some(place) = self.places.remove(key) {
            self.items.remove(&place);
        }
    }
}

impl Kept {
    fn is_alive(&self, now: SystemTime) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }

    /// Returns the item, or `None` if it has expired.
    fn read(&mut self, namespace: &[String], score: Option<f64>, refresh: bool, now: SystemTime) -> Option<Item> {
        if !self.is_alive(now) {
            return None;
        }
        if let Some(lives) = self.time_to_live.filter(|_| refresh) {
            self.expires = now.checked_add(lives);
        }
        Some(Item {
            namespace: namespace.to_vec(),
            key: self.key.clone(),
            value: self.value.clone(),
            created_at: self.created_at,
            updated_at: self.updated_at,
            score,
        })
    }
}
