//! What a run has committed and its [log](super::log) holds back, and which records that may be.

use std::collections::HashSet;

use uuid::Uuid;

use crate::checkpoint::{Also, Record, Source, codec, slot};

/// What was committed and waits to be stored.
#[derive(Default)]
pub(super) struct Held {
    pub(super) records: Vec<Record>,
    /// How many of them, the first, are what the run begins with: they wait for what comes next, and no longer than events do.
    pub(super) beginning: usize,
    /// Whether something of the run was stored, or tried to be.
    pub(super) has_begun: bool,
    /// Checkpoints that this attempt of the run has made; of many, some. What it writes beside others has to be undone by hand.
    own: HashSet<Uuid>,
}

/// How many checkpoints of a run are known as its own.
const OWN: usize = 1 << 16;

impl Held {
    /// Everything, to be stored now.
    pub(super) fn take(&mut self) -> Vec<Record> {
        self.beginning = 0;
        self.has_begun |= !self.records.is_empty();
        std::mem::take(&mut self.records)
    }

    /// What is stored beside these records of this run. If they change more than its own checkpoints, that can be undone until it ends.
    pub(super) fn beside(&mut self, run: Option<Uuid>, records: &[Record], mut also: Also) -> Also {
        let mut changes_others = !also.taken.is_empty();
        for record in records {
            match record {
                Record::Checkpoint { checkpoint, .. } => {
                    if self.own.len() == OWN {
                        self.own.clear();
                    }
                    self.own.insert(checkpoint.id);
                }
                Record::Writes { writes, .. } => changes_others |= !self.own.contains(&writes.checkpoint),
            }
        }
        also.run = run.filter(|_| changes_others);
        also
    }

    /// What the run begins with, to be stored now.
    pub(super) fn take_beginning(&mut self) -> Vec<Record> {
        let rest = self.records.split_off(std::mem::take(&mut self.beginning));
        self.has_begun |= !self.records.is_empty();
        std::mem::replace(&mut self.records, rest)
    }
}

/// Whether a record may be the last of a run: its graph has nothing left to do, or a task asked something or failed.
pub(super) fn may_be_last(record: &Record) -> bool {
    match record {
        Record::Checkpoint { namespace, checkpoint, .. } => {
            let agenda = &checkpoint.agenda;
            namespace.is_empty()
                && !agenda.start
                && agenda.ready.is_empty()
                && agenda.sends.is_empty()
                && agenda.waiting.is_empty()
                && agenda.released.is_empty()
        }
        Record::Writes { writes, .. } => writes.writes.iter().any(|write| match write.slot {
            slot::ERROR => !is_handled(&write.value),
            slot::INTERRUPT => true,
            _ => false,
        }),
    }
}

/// Whether a task that failed has a handler, which begins once that is stored.
fn is_handled(failure: &[u8]) -> bool {
    codec::decode_json(failure).is_ok_and(|failure| failure.get("handled") == Some(&true.into()))
}

/// Whether a record has an answer. That its question has it stands in a later record of the same commit.
pub(super) fn has_answer(record: &Record) -> bool {
    // The results of steps are far below.
    let is_answer = |slot: i32| slot <= slot::answer(0) && slot > i32::MIN / 2;
    matches!(record, Record::Writes { writes, .. } if writes.writes.iter().any(|write| is_answer(write.slot)))
}

pub(super) fn is_input(record: &Record) -> bool {
    matches!(record, Record::Checkpoint { checkpoint, .. } if checkpoint.source == Source::Input)
}

/// Whether a commit is what the root graph of a run begins with: an input, and at most the step that follows from it. No node has run.
pub(super) fn is_beginning(records: &[Record]) -> bool {
    let is_own = |record: &Record| matches!(record, Record::Checkpoint { namespace, .. } if namespace.is_empty());
    matches!(records.len(), 1 | 2) && is_input(&records[0]) && records.iter().all(is_own)
}
