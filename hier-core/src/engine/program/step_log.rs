//! The known durable steps of a task, with their keys and results.
//!
//! The key of a step consists of its name, a hash of its arguments and a number. Calls with the same name and arguments
//! are numbered in the order in which they begin. Each attempt starts the numbering again. A result belongs only to the
//! call with its key. A failed call uses up its number without a result.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::TaskKey;
use crate::checkpoint::codec::short_name;
use crate::checkpoint::{CodecError, PendingWrite, codec, slot};
use crate::sync::lock;

/// The channel under which steps are stored among a task's writes.
pub(crate) const STEP: &str = "__step__";

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct StepKey {
    /// Distinguishes the tasks of a graph without checkpoints, the error handler, and the code of a step. Empty for the
    /// task itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) scope: String,
    pub(super) name: String,
    /// The hash of the arguments. None for a step without arguments. Calls of the engine have a text here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) arguments: Option<String>,
    /// Number of calls with this scope, name and arguments that began before this call.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) number: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // as serde wants it
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl StepKey {
    /// The arguments of a recorded signal, in place of a hash.
    pub(super) const SIGNAL: &str = "signal";

    /// Returns the key under which questions with this identity are numbered. It differs from the keys of all steps,
    /// because only the engine uses an empty name with a text as its arguments.
    pub(super) fn question(identity: &str) -> Self {
        let arguments = Some("question".to_owned());
        Self { scope: identity.to_owned(), name: String::new(), arguments, number: 0 }
    }

    /// Returns the identity of the questions with this key. Returns `None` for the key of a step.
    pub(super) fn question_identity(&self) -> Option<&str> {
        let is_question = self.name.is_empty() && self.arguments.as_deref() == Some("question");
        is_question.then_some(&*self.scope)
    }

    /// Returns a text of fixed length that identifies the key.
    pub(super) fn digest(&self) -> String {
        // A key can always be serialized.
        hash(self).unwrap_or_default()
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct StepRecord {
    pub(super) key: StepKey,
    /// The name of the result's type, without its modules.
    pub(super) of: String,
    #[serde(with = "serde_bytes")]
    pub(super) value: Vec<u8>,
    /// The identities of the questions that the code of the step has asked. Their answers stay assigned to them, even
    /// if the step does not run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) questions: Vec<String>,
}

impl StepRecord {
    pub(super) fn new<T>(key: StepKey, value: Vec<u8>, questions: Vec<String>) -> Self {
        Self { key, of: short_name::<T>(), value, questions }
    }

    /// Returns true if another type was recorded and the value is empty. Many types can read an empty value.
    pub(super) fn is_empty_of_another<T>(&self) -> bool {
        codec::is_empty(&self.value) && self.of != short_name::<T>()
    }
}

#[derive(Debug, Default)]
pub(crate) struct StepLog(Mutex<StepTable>);

#[derive(Debug, Default)]
struct StepTable {
    results: Vec<StoredStep>,
    by_key: HashMap<StepKey, usize>,
    next: i32,
    has_signals: bool,
    /// The calls that have begun, by the scope of their task or graph.
    begun: HashMap<String, StartedCalls>,
}

/// The calls that have begun in one attempt.
#[derive(Debug, Default)]
struct StartedCalls {
    attempts: Vec<u32>,
    /// Number of calls for each key. The number in the key is 0.
    calls: HashMap<StepKey, u32>,
}

#[derive(Debug)]
struct StoredStep {
    record: Arc<StepRecord>,
    slot: i32,
    /// False if the result may not be stored, because the task was dropped while the result was being stored.
    is_stored: bool,
    /// The id of the inbox message with the signal, if this run has received a signal here. None for other results.
    message: Option<Uuid>,
}

pub(crate) struct FoundStep {
    pub(super) record: Arc<StepRecord>,
    pub(super) index: usize,
    pub(super) slot: i32,
    pub(super) is_stored: bool,
    pub(super) message: Option<Uuid>,
}

impl StepLog {
    pub(crate) fn read(writes: &[PendingWrite]) -> Result<Self, CodecError> {
        let mut known = StepTable::default();
        let mut stored: Vec<&PendingWrite> = writes.iter().filter(|write| &*write.channel == STEP).collect();
        stored.sort_by_key(|write| write.slot);
        for write in stored {
            let record = Arc::new(codec::decode(&write.value)?);
            known.add(StoredStep { record, slot: write.slot, is_stored: true, message: None });
            known.next = write.slot.wrapping_sub(slot::step(0)).saturating_add(1);
        }
        Ok(Self(Mutex::new(known)))
    }

    pub(super) fn has_signals(&self) -> bool {
        lock(&self.0).has_signals
    }

    /// Returns the number of a call that begins in this attempt. The number in `key` is 0.
    pub(super) fn begin(&self, scope: &str, attempts: &[u32], key: &StepKey) -> u32 {
        let mut known = lock(&self.0);
        let begun = known.begun.entry(scope.to_owned()).or_default();
        if begun.attempts != attempts {
            *begun = StartedCalls { attempts: attempts.to_vec(), calls: HashMap::new() };
        }
        let calls = begun.calls.entry(key.clone()).or_default();
        *calls += 1;
        *calls - 1
    }

    /// Returns the number that the next call with this key will have.
    pub(super) fn peek(&self, scope: &str, attempts: &[u32], key: &StepKey) -> u32 {
        let known = lock(&self.0);
        let begun = known.begun.get(scope).filter(|begun| begun.attempts == attempts);
        begun.and_then(|begun| begun.calls.get(key).copied()).unwrap_or(0)
    }

    pub(super) fn find(&self, key: &StepKey) -> Option<FoundStep> {
        let known = lock(&self.0);
        known.by_key.get(key).map(|index| known.found(*index))
    }

    /// Adds a result. If the call already has a result, returns the existing result.
    pub(super) fn put(&self, record: StepRecord, message: Option<Uuid>) -> FoundStep {
        let mut known = lock(&self.0);
        if let Some(index) = known.by_key.get(&record.key) {
            return known.found(*index);
        }
        let slot = slot::step(known.next);
        known.next = known.next.saturating_add(1);
        let index = known.add(StoredStep { record: Arc::new(record), slot, is_stored: false, message });
        known.found(index)
    }

    pub(super) fn mark_stored(&self, index: usize) {
        lock(&self.0).results[index].is_stored = true;
    }
}

impl StepTable {
    fn add(&mut self, done: StoredStep) -> usize {
        let index = self.results.len();
        self.has_signals |= done.record.key.arguments.as_deref() == Some(StepKey::SIGNAL);
        self.by_key.insert(done.record.key.clone(), index);
        self.results.push(done);
        index
    }

    fn found(&self, index: usize) -> FoundStep {
        let StoredStep { record, slot, is_stored, message } = &self.results[index];
        FoundStep { record: record.clone(), index, slot: *slot, is_stored: *is_stored, message: *message }
    }
}

#[derive(Debug, Default)]
pub(crate) struct StepLogs(Mutex<LogsOfStep>);

#[derive(Debug, Default)]
struct LogsOfStep {
    step: i64,
    of: HashMap<TaskKey, Arc<StepLog>>,
}

impl StepLogs {
    pub(super) fn log_of(&self, key: TaskKey, known: Option<&Arc<StepLog>>) -> Arc<StepLog> {
        let mut logs = lock(&self.0);
        if logs.step != key.step {
            *logs = LogsOfStep { step: key.step, of: HashMap::new() };
        }
        logs.of.entry(key).or_insert_with(|| known.cloned().unwrap_or_default()).clone()
    }
}

/// Returns the hash of a value, as 32 hexadecimal digits. The order of an object's fields does not change the hash.
pub fn hash<A: Serialize + ?Sized>(value: &A) -> Result<String, CodecError> {
    codec::hash(value).map(|hash| format!("{hash:032x}"))
}
