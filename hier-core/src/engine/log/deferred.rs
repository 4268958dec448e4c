//! With durability `exit`: what graphs inside have taken out of the mailbox, with their records, until the run ends. A letter is taken in
//! the commit that stores its effect, and that is the one of the graph around all.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::checkpoint::WriteRecord;
use crate::sync::{Mutex, lock};

/// Which log something is stored with.
pub(crate) type LogId = u64;

/// What waits for the end of the run. What is some log's is dropped with the log, unless it was handed to the one around it.
#[derive(Default)]
pub(crate) struct Deferred {
    last: AtomicU64,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    records: Vec<(LogId, WriteRecord)>,
    letters: Vec<(LogId, Uuid)>,
}

impl Deferred {
    /// The id of a new log.
    pub(crate) fn new_log(&self) -> LogId {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    /// What this log stores takes a letter.
    pub(crate) fn reserve(&self, log: LogId, letter: Uuid) {
        lock(&self.held).letters.push((log, letter));
    }

    /// Whether a letter is taken at the end of the run.
    pub(crate) fn is_reserved(&self, letter: Uuid) -> bool {
        lock(&self.held).letters.iter().any(|(_, reserved)| *reserved == letter)
    }

    /// Whether what this log stores waits for the end of the run: it takes letters, or follows what does.
    pub(crate) fn waits(&self, log: LogId) -> bool {
        let held = lock(&self.held);
        !held.records.is_empty() || held.letters.iter().any(|(of, _)| *of == log)
    }

    /// Hands what is this log's to the one around it, with these records.
    pub(crate) fn hand_up(&self, log: LogId, outer: LogId, records: Vec<WriteRecord>) {
        let mut held = lock(&self.held);
        let Held { records: all, letters } = &mut *held;
        let own = all.iter_mut().map(|(of, _)| of).chain(letters.iter_mut().map(|(of, _)| of));
        own.filter(|of| **of == log).for_each(|of| *of = outer);
        all.extend(records.into_iter().map(|record| (outer, record)));
    }

    /// Forgets what is this log's: its letters stay where they are.
    pub(crate) fn forget(&self, log: LogId) {
        let mut held = lock(&self.held);
        held.records.retain(|(of, _)| *of != log);
        held.letters.retain(|(of, _)| *of != log);
    }

    /// A step has been applied in the graph of this log, which has this namespace: what the calls of the step have left to it is needed
    /// no more, but for their letters, and for what graphs keep that go on with their state. So no more waits than one step has left.
    pub(crate) fn settle(&self, log: LogId, namespace: &str) {
        let mut held = lock(&self.held);
        if held.records.is_empty() {
            return;
        }
        // In the namespace of a call of its own stands the id of its task.
        let is_of_call = |record: &WriteRecord| {
            namespace_of(record).strip_prefix(namespace).is_some_and(|inside| inside.contains(':'))
        };
        held.records.retain(|(of, record)| *of != log || !is_of_call(record));
    }

    /// Takes what is this log's.
    pub(crate) fn take(&self, log: LogId) -> (Vec<WriteRecord>, Vec<Uuid>) {
        let mut held = lock(&self.held);
        let records = held.records.extract_if(.., |(of, _)| *of == log).map(|(_, record)| record).collect();
        (records, held.letters.extract_if(.., |(of, _)| *of == log).map(|(_, letter)| letter).collect())
    }

    /// The records that wait, of this namespace or of all.
    pub(crate) fn records(&self, namespace: Option<&str>) -> Vec<WriteRecord> {
        let is_wanted = |record: &&WriteRecord| namespace.is_none_or(|namespace| namespace == namespace_of(record));
        lock(&self.held).records.iter().map(|(_, record)| record).filter(is_wanted).cloned().collect()
    }
}

fn namespace_of(record: &WriteRecord) -> &str {
    match record {
        WriteRecord::Checkpoint { namespace, .. } | WriteRecord::Writes { namespace, .. } => namespace,
    }
}
