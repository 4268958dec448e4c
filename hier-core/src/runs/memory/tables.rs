//! What is kept in memory.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

use crate::runs::document::Document;
use crate::runs::error::RunsError;
use crate::runs::event::{EventRow, LOG_BYTES};
use crate::runs::queue::{Change, Queue};
use crate::runs::run::Run;
use crate::runs::thread::ThreadRow;

#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) threads: HashMap<String, Entry>,
    pub(super) runs: HashMap<Uuid, Run>,
    /// The threads that have something to do, by since when.
    pub(super) ready: BTreeSet<(SystemTime, String)>,
    pub(super) documents: BTreeMap<(String, String), Document>,
    pub(super) last_number: u64,
}

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) row: ThreadRow,
    pub(super) live: Vec<Uuid>,
    pub(super) events: VecDeque<EventRow>,
    pub(super) ready: Option<SystemTime>,
    /// The claim of the worker that runs it: its token, how long it lasts, and until when.
    pub(super) held: Option<(u64, Duration, Instant)>,
}

impl Tables {
    pub(super) fn entry(&self, thread: &str) -> Result<&Entry, RunsError> {
        self.threads.get(thread).ok_or_else(|| RunsError::NoThread { thread: thread.to_owned() })
    }

    pub(super) fn insert(&mut self, row: ThreadRow) {
        let entry = Entry { live: Vec::new(), events: VecDeque::new(), ready: None, held: None, row };
        self.threads.insert(entry.row.id.clone(), entry);
    }

    pub(super) fn queue(&self, thread: &str) -> Result<Queue, RunsError> {
        let entry = self.entry(thread)?;
        Ok(Queue::new(entry.row.clone(), entry.live.iter().filter_map(|id| self.runs.get(id).cloned()).collect()))
    }

    /// Stores what has changed, and returns the runs whose checkpoints are to be deleted.
    pub(super) fn store(&mut self, queue: Queue, now: SystemTime) -> Vec<String> {
        let (row, change) = queue.changed();
        let Change { put, removed, events, undone, documents, ready, is_crowded } = change;
        for document in documents {
            self.put_document(document, None);
        }
        let Some(entry) = self.threads.get_mut(&row.id) else { return undone };
        let first = row.last_event - events.len() as u64 + 1;
        entry.events.extend((first..).zip(events).map(|(number, event)| EventRow::new(number, now, event)));
        entry.row = row;
        if is_crowded {
            entry.trim();
        }
        for run in put {
            entry.live.retain(|id| *id != run.id);
            if run.status.is_live() {
                entry.live.push(run.id);
            }
            self.runs.insert(run.id, run);
        }
        for id in removed {
            entry.live.retain(|live| *live != id);
            self.runs.remove(&id);
        }
        if let Some(time) = entry.ready.take() {
            self.ready.remove(&(time, entry.row.id.clone()));
        }
        if let Some((time, _)) = ready {
            entry.ready = Some(time);
            self.ready.insert((time, entry.row.id.clone()));
        }
        undone
    }

    /// Stores a document in the place of this revision. False if another one is there.
    pub(super) fn put_document(&mut self, document: Document, replaces: Option<u64>) -> bool {
        let key = (document.kind.clone(), document.id.clone());
        let stored = self.documents.get(&key).map(|stored| stored.revision);
        if stored == replaces {
            self.documents.insert(key, document.revision(stored.unwrap_or_default() + 1));
        }
        stored == replaces
    }

    pub(super) fn remove(&mut self, thread: &str) -> bool {
        let Some(entry) = self.threads.remove(thread) else { return false };
        self.runs.retain(|_, run| run.thread != thread);
        if let Some(time) = entry.ready {
            self.ready.remove(&(time, thread.to_owned()));
        }
        true
    }
}

impl Entry {
    /// Drops the oldest events, until the log is half full.
    pub(super) fn trim(&mut self) {
        while self.row.event_bytes > LOG_BYTES / 2 && self.events.len() > 1 {
            if let Some(dropped) = self.events.pop_front() {
                self.row.event_bytes = self.row.event_bytes.saturating_sub(dropped.event.bytes());
                self.row.gone_events = dropped.number;
            }
        }
    }
}
