//! Records that subgraphs hold until the end of a run with durability `exit`, because they take messages. The commit
//! that stores the effect of a message must also take the message. This commit is that of the root graph.

use std::sync::atomic::{AtomicU64, Ordering};

use uuid::Uuid;

use crate::checkpoint::WriteRecord;
use crate::sync::{Mutex, lock};

pub(crate) type LogId = u64;

/// Records and messages that wait for the end of the run, by the log that they belong to. Dropping a log drops its
/// entries, unless the log has passed them to the outer log.
#[derive(Default)]
pub(crate) struct Deferred {
    last: AtomicU64,
    held: Mutex<DeferredRecords>,
}

#[derive(Default)]
struct DeferredRecords {
    records: Vec<(LogId, WriteRecord)>,
    messages: Vec<(LogId, Uuid)>,
}

impl Deferred {
    pub(crate) fn new_log(&self) -> LogId {
        self.last.fetch_add(1, Ordering::Relaxed)
    }

    /// Records that a task of this log takes a message.
    pub(crate) fn reserve(&self, log: LogId, message: Uuid) {
        lock(&self.held).messages.push((log, message));
    }

    pub(crate) fn is_reserved(&self, message: Uuid) -> bool {
        lock(&self.held).messages.iter().any(|(_, reserved)| *reserved == message)
    }

    /// Returns true if the records of this log must wait for the end of the run: because it takes a message, or because
    /// any record already waits.
    pub(crate) fn waits(&self, log: LogId) -> bool {
        let held = lock(&self.held);
        !held.records.is_empty() || held.messages.iter().any(|(of, _)| *of == log)
    }

    /// Moves all entries of this log, and these records, to the outer log.
    pub(crate) fn hand_up(&self, log: LogId, outer: LogId, records: Vec<WriteRecord>) {
        let mut held = lock(&self.held);
        let DeferredRecords { records: all, messages } = &mut *held;
        let own = all.iter_mut().map(|(of, _)| of).chain(messages.iter_mut().map(|(of, _)| of));
        own.filter(|of| **of == log).for_each(|of| *of = outer);
        all.extend(records.into_iter().map(|record| (outer, record)));
    }

    /// Drops all entries of this log. The messages stay in the inbox.
    pub(crate) fn forget(&self, log: LogId) {
        let mut held = lock(&self.held);
        held.records.retain(|(of, _)| *of != log);
        held.messages.retain(|(of, _)| *of != log);
    }

    /// Drops the records of calls in the graph of this log, because the superstep of these calls has been applied.
    /// `namespace` is the namespace of the graph. Keeps messages and the checkpoints of subgraphs with checkpoints per
    /// thread. As a result, at most the calls of one superstep wait.
    pub(crate) fn drop_applied(&self, log: LogId, namespace: &str) {
        let mut held = lock(&self.held);
        if held.records.is_empty() {
            return;
        }
        // The namespace of a call contains the id of its task.
        let is_of_call = |record: &WriteRecord| {
            namespace_of(record).strip_prefix(namespace).is_some_and(|inside| inside.contains(':'))
        };
        held.records.retain(|(of, record)| *of != log || !is_of_call(record));
    }

    pub(crate) fn take_of(&self, log: LogId) -> (Vec<WriteRecord>, Vec<Uuid>) {
        let mut held = lock(&self.held);
        let records = held.records.extract_if(.., |(of, _)| *of == log).map(|(_, record)| record).collect();
        (records, held.messages.extract_if(.., |(of, _)| *of == log).map(|(_, message)| message).collect())
    }

    /// Returns the waiting records of a namespace. Defaults to all namespaces.
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
