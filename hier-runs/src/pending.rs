//! Records that a run has committed and that its [log](super::log) holds back, and rules for which records it may hold
//! back.

use std::collections::HashSet;

use uuid::Uuid;

use hier_checkpoint::checkpoint::{SideEffects, Source, WriteRecord, codec, slot};

#[derive(Default)]
pub(super) struct PendingCommit {
    pub(super) records: Vec<WriteRecord>,
    /// Number of leading records that begin the run. They wait for the next commit, and at most until the next flush.
    pub(super) beginning: usize,
    /// True if the log has stored or tried to store something of the run.
    pub(super) has_begun: bool,
    /// Some of the checkpoints that this attempt of the run has made. The run's writes to other checkpoints must be
    /// undone separately.
    own: HashSet<Uuid>,
}

/// Maximum number of a run's own checkpoints to remember.
const OWN: usize = 1 << 16;

impl PendingCommit {
    pub(super) fn take(&mut self) -> Vec<WriteRecord> {
        self.beginning = 0;
        self.has_begun |= !self.records.is_empty();
        std::mem::take(&mut self.records)
    }

    /// Returns the side effects to store with these records of this run. If the records change checkpoints that are not
    /// the run's own, the changes can be undone until the run ends.
    pub(super) fn side_effects(
        &mut self,
        run: Option<Uuid>,
        records: &[WriteRecord],
        mut also: SideEffects,
    ) -> SideEffects {
        let mut changes_others = !also.taken.is_empty();
        for record in records {
            match record {
                WriteRecord::Checkpoint { checkpoint, .. } => {
                    if self.own.len() == OWN {
                        self.own.clear();
                    }
                    self.own.insert(checkpoint.id);
                }
                WriteRecord::Writes { writes, .. } => changes_others |= !self.own.contains(&writes.checkpoint),
            }
        }
        also.run = run.filter(|_| changes_others);
        also
    }

    /// Returns a copy of the records that begin the run.
    pub(super) fn beginning(&self) -> Vec<WriteRecord> {
        self.records[..self.beginning].to_vec()
    }

    pub(super) fn restore_beginning(&mut self, beginning: Vec<WriteRecord>) {
        self.beginning = beginning.len();
        self.records.splice(..0, beginning);
    }

    pub(super) fn take_beginning(&mut self) -> Vec<WriteRecord> {
        let rest = self.records.split_off(std::mem::take(&mut self.beginning));
        self.has_begun |= !self.records.is_empty();
        std::mem::replace(&mut self.records, rest)
    }
}

/// Returns true if a record may be the last of a run: its graph is finished, or a task asked a question or failed.
pub(super) fn may_be_last(record: &WriteRecord) -> bool {
    match record {
        WriteRecord::Checkpoint { namespace, checkpoint, .. } => namespace.is_empty() && checkpoint.agenda.is_empty(),
        WriteRecord::Writes { writes, .. } => writes.writes.iter().any(|write| match write.slot {
            slot::ERROR => !is_handled(&write.value),
            slot::INTERRUPT => true,
            _ => false,
        }),
    }
}

/// Returns true if a failed task has a handler, which starts once the failure is stored.
fn is_handled(failure: &[u8]) -> bool {
    codec::decode_json(failure).is_ok_and(|failure| failure.get("handled") == Some(&true.into()))
}

/// Returns true if a record contains an answer. A later record of the same commit notes that the question is answered.
pub(super) fn has_answer(record: &WriteRecord) -> bool {
    // The slots of steps are far below those of answers.
    let is_answer = |slot: i32| slot <= slot::answer(0) && slot > i32::MIN / 2;
    matches!(record, WriteRecord::Writes { writes, .. } if writes.writes.iter().any(|write| is_answer(write.slot)))
}

pub(super) fn is_input(record: &WriteRecord) -> bool {
    matches!(record, WriteRecord::Checkpoint { checkpoint, .. } if checkpoint.source == Source::Input)
}

/// Returns true if a commit is the beginning of the root graph of a run: an input, and at most the following
/// checkpoint. No node has run.
pub(super) fn is_beginning(records: &[WriteRecord]) -> bool {
    let is_own =
        |record: &WriteRecord| matches!(record, WriteRecord::Checkpoint { namespace, .. } if namespace.is_empty());
    matches!(records.len(), 1 | 2) && is_input(&records[0]) && records.iter().all(is_own)
}
