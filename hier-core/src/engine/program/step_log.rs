//! What is known of the durable steps of a task: by what each is known, and what it has given.
//!
//! A step is known by its name and a hash of its arguments. The n-th call with the same key takes the n-th result that was recorded
//! under it: calls with one key cannot be told apart, so that any of their results will do for any of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::TaskKey;
use crate::checkpoint::codec::short_name;
use crate::checkpoint::{CodecError, PendingWrite, codec, slot};
use crate::sync::lock;

/// The name of the entries of steps among what a task has stored.
pub(crate) const STEP: &str = "__step__";

/// What tells a step from the others of its task.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StepKey {
    /// The task inside a graph without checkpoints that does it, or the handler; empty for the task itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) scope: String,
    pub(super) name: String,
    /// The hash of the arguments; none without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<String>,
}

/// The result of a step, as it is stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StepRecord {
    pub(super) key: StepKey,
    /// The type that the result had, without its modules.
    pub(super) of: String,
    #[serde(with = "serde_bytes")]
    pub(super) value: Vec<u8>,
}

impl StepRecord {
    /// A result of this type, encoded.
    pub(super) fn new<T>(key: StepKey, value: Vec<u8>) -> Self {
        Self { key, of: short_name::<T>(), value }
    }

    /// Whether it is nothing, which can be read as many things, and was recorded as something else than this type.
    pub(super) fn is_empty_of_another<T>(&self) -> bool {
        codec::is_empty(&self.value) && self.of != short_name::<T>()
    }
}

/// What is known of the steps of one task.
#[derive(Debug, Default)]
pub(crate) struct StepLog(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    results: Vec<Done>,
    by_key: HashMap<StepKey, Vec<usize>>,
    /// The number of the next slot.
    next: i32,
    /// How often a result was taken.
    taken: u64,
    /// For each scope the attempts in which it was last seen.
    attempts: HashMap<String, Vec<u32>>,
}

#[derive(Debug)]
struct Done {
    record: Arc<StepRecord>,
    slot: i32,
    /// Whether it is known to be stored: a task may have been dropped while it was being stored.
    is_stored: bool,
    /// The letter that it was in the thread's mailbox.
    letter: Option<Uuid>,
    /// When this attempt took it, counted in [`Known::taken`].
    taken: Option<u64>,
}

/// A result, and where it is stored.
pub(crate) struct Found {
    pub(super) record: Arc<StepRecord>,
    pub(super) number: usize,
    pub(super) slot: i32,
    pub(super) is_stored: bool,
    pub(super) letter: Option<Uuid>,
}

impl StepLog {
    /// The steps among what a task has stored.
    pub(crate) fn read(writes: &[PendingWrite]) -> Result<Self, CodecError> {
        let mut known = Known::default();
        let mut stored: Vec<&PendingWrite> = writes.iter().filter(|write| &*write.channel == STEP).collect();
        stored.sort_by_key(|write| write.slot);
        for write in stored {
            known.add(Arc::new(codec::decode(&write.value)?), write.slot, true, None);
            known.next = write.slot.wrapping_sub(slot::step(0)).saturating_add(1);
        }
        known.results.iter_mut().for_each(|done| done.taken = None);
        Ok(Self(Mutex::new(known)))
    }

    /// A result for this key that this attempt has not taken yet.
    pub(super) fn take(&self, key: &StepKey, attempts: &[u32]) -> Option<Found> {
        let mut known = lock(&self.0);
        if known.attempts.get(&key.scope).is_none_or(|seen| seen != attempts) {
            known.attempts.insert(key.scope.clone(), attempts.to_vec());
            known
                .results
                .iter_mut()
                .filter(|done| done.record.key.scope == key.scope)
                .for_each(|done| done.taken = None);
        }
        let number = known.by_key.get(key)?.iter().copied().find(|number| known.results[*number].taken.is_none())?;
        known.taken += 1;
        let now = known.taken;
        let done = &mut known.results[number];
        done.taken = Some(now);
        let Done { slot, is_stored, letter, .. } = *done;
        Some(Found { record: done.record.clone(), number, slot, is_stored, letter })
    }

    /// Takes in a result that has just come.
    pub(super) fn put(&self, record: StepRecord, letter: Option<Uuid>) -> Found {
        let mut known = lock(&self.0);
        let (record, slot) = (Arc::new(record), slot::step(known.next));
        known.next = known.next.saturating_add(1);
        let number = known.add(record.clone(), slot, false, letter);
        Found { record, number, slot, is_stored: false, letter }
    }

    pub(super) fn stored(&self, number: usize) {
        lock(&self.0).results[number].is_stored = true;
    }

    /// How many results of the engine's own of this kind this attempt has taken.
    pub(super) fn calls(&self, scope: &str, what: &str) -> usize {
        let known = lock(&self.0);
        let is_one = |done: &&Done| {
            let key = &done.record.key;
            done.taken.is_some() && key.scope == scope && key.arguments.as_deref() == Some(what)
        };
        known.results.iter().filter(is_one).count()
    }

    pub(super) fn mark(&self) -> u64 {
        lock(&self.0).taken
    }

    /// Forgets what was taken since.
    pub(super) fn rewind(&self, mark: u64) {
        let mut known = lock(&self.0);
        let since = known.results.iter_mut().filter(|done| done.taken.is_some_and(|taken| taken > mark));
        since.for_each(|done| done.taken = None);
    }
}

impl Known {
    fn add(&mut self, record: Arc<StepRecord>, slot: i32, is_stored: bool, letter: Option<Uuid>) -> usize {
        self.taken += 1;
        let number = self.results.len();
        self.by_key.entry(record.key.clone()).or_default().push(number);
        self.results.push(Done { record, slot, is_stored, letter, taken: Some(self.taken) });
        number
    }
}

/// The step logs of the tasks of the step that is running.
#[derive(Debug, Default)]
pub(crate) struct StepLogs(Mutex<Vec<(TaskKey, Arc<StepLog>)>>);

impl StepLogs {
    pub(super) fn of(&self, key: TaskKey, known: Option<&Arc<StepLog>>) -> Arc<StepLog> {
        let mut logs = lock(&self.0);
        logs.retain(|(of, _)| of.step == key.step);
        if let Some((_, log)) = logs.iter().find(|(of, _)| *of == key) {
            return log.clone();
        }
        let log = known.cloned().unwrap_or_default();
        logs.push((key, log.clone()));
        log
    }
}

/// A hash of a value, which does not depend on the order of an object's fields.
pub(crate) fn hash<A: Serialize + ?Sized>(value: &A) -> Result<String, CodecError> {
    codec::hash(value).map(|hash| format!("{hash:032x}"))
}
