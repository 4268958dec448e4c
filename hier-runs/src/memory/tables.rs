use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant, SystemTime};

use uuid::Uuid;

use crate::change::{ThreadChange, ThreadSnapshot};
use crate::document::Document;
use crate::error::RunsError;
use crate::event::{EventRow, LOG_BYTES};
use crate::queue::{Change, Queue};
use crate::run::Run;
use crate::thread::ThreadRow;
use hier_checkpoint::checkpoint::{Lease, background};

/// Maximum number of due documents per lookup.
const DUE: usize = 256;

#[derive(Debug, Default)]
pub(super) struct MemoryTables {
    pub(super) threads: HashMap<String, ThreadEntry>,
    pub(super) runs: HashMap<Uuid, Run>,
    /// The names of the background threads.
    background: BTreeSet<String>,
    /// The threads with a run to claim that no worker holds, by the time from which the run can be claimed.
    ready: BTreeSet<Ready>,
    /// The threads that a worker holds, by the end of its lease.
    held: BTreeSet<(Instant, String)>,
    pub(super) documents: BTreeMap<(String, String), Document>,
    /// The documents with a due time, by kind and time. `due_of` has the due time of each document.
    due: BTreeSet<(String, SystemTime, String)>,
    due_of: HashMap<(String, String), SystemTime>,
    last_number: u64,
}

/// The runs that the saver must undo, and the runs whose data for undoing it must delete.
#[derive(Debug)]
pub(super) struct EndedRuns {
    pub(super) undone: Vec<Uuid>,
    pub(super) settled: Vec<Uuid>,
}

/// The time from which a worker may claim a run of a thread, and the name of the thread.
type Ready = (SystemTime, String);

#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Holder {
    #[default]
    None,
    /// A worker, with the token, the duration and the end of its lease.
    Worker {
        token: u64,
        lasts: Duration,
        until: Instant,
    },
    Lost {
        token: u64,
        lasts: Duration,
    },
}

impl Holder {
    fn lasts(self, of: u64) -> Option<Duration> {
        match self {
            Self::Worker { token, lasts, .. } | Self::Lost { token, lasts } if token == of => Some(lasts),
            _ => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct ThreadEntry {
    pub(super) row: ThreadRow,
    /// All runs of the thread. `live` has the runs that have not ended.
    runs: HashSet<Uuid>,
    live: Vec<Uuid>,
    pub(super) events: VecDeque<EventRow>,
    /// The time from which a worker may claim a run, and the graph that the worker must have.
    ready: Option<(SystemTime, String)>,
    pub(super) holder: Holder,
}

impl MemoryTables {
    pub(super) fn entry(&self, thread: &str) -> Result<&ThreadEntry, RunsError> {
        self.threads.get(thread).ok_or_else(|| no_thread(thread))
    }

    pub(super) fn insert(&mut self, row: ThreadRow) {
        let entry = ThreadEntry {
            runs: HashSet::new(),
            live: Vec::new(),
            events: VecDeque::new(),
            ready: None,
            holder: Holder::None,
            row,
        };
        if background::outer_of(&entry.row.id).is_some() {
            self.background.insert(entry.row.id.clone());
        }
        self.threads.insert(entry.row.id.clone(), entry);
    }

    /// Returns the thread without its values. For a change that adds a run, also checks if the id of the run is taken.
    pub(super) fn snapshot(&mut self, change: &ThreadChange, now: SystemTime) -> ThreadSnapshot {
        let queue = self.threads.get_mut(&change.thread).map(|entry| {
            let live = entry.live.iter().filter_map(|id| self.runs.get(id).cloned());
            let live = live.collect();
            Queue::new(entry.copy(false), live)
        });
        let new = change.new_run().and_then(|run| run.id);
        let is_taken = new.is_some_and(|id| self.runs.contains_key(&id));
        ThreadSnapshot { number: self.last_number + 1, is_taken, ..ThreadSnapshot::new(queue, now) }
    }

    /// Stores the changed rows, and returns the runs that the saver must undo or settle. A row without values keeps the
    /// stored values.
    pub(super) fn store(&mut self, queue: Queue, now: SystemTime) -> EndedRuns {
        let (mut row, change) = queue.changed();
        let Change { put, removed, events, undone, settled, documents, ready, is_crowded } = change;
        let ended = EndedRuns { undone, settled };
        for document in documents {
            self.put_document(document, None);
        }
        if !self.threads.contains_key(&row.id) {
            self.insert(row.clone());
        }
        let Some(entry) = self.threads.get_mut(&row.id) else { return ended };
        let first = row.last_event - events.len() as u64 + 1;
        entry.events.extend((first..).zip(events).map(|(number, event)| EventRow::new(number, now, event)));
        row.values = row.values.or_else(|| entry.row.values.take());
        entry.row = row;
        if is_crowded {
            entry.trim();
        }
        for run in put {
            entry.live.retain(|id| *id != run.id);
            if run.status.is_live() {
                entry.live.push(run.id);
            }
            entry.runs.insert(run.id);
            self.last_number = self.last_number.max(run.number);
            self.runs.insert(run.id, run);
        }
        for id in removed {
            entry.live.retain(|live| *live != id);
            entry.runs.remove(&id);
            self.runs.remove(&id);
        }
        let id = entry.row.id.clone();
        self.list(&id, |entry| entry.ready = ready);
        ended
    }

    /// Changes the ready time or the holder of a thread, and updates the lists `ready` and `held`.
    fn list(&mut self, thread: &str, change: impl FnOnce(&mut ThreadEntry)) {
        let Some(entry) = self.threads.get_mut(thread) else { return };
        match (entry.holder, &entry.ready) {
            (Holder::Worker { until, .. }, _) => drop(self.held.remove(&(until, thread.to_owned()))),
            (_, Some((since, _))) => drop(self.ready.remove(&(*since, thread.to_owned()))),
            _ => {}
        }
        change(entry);
        match (entry.holder, &entry.ready) {
            (Holder::Worker { until, .. }, _) => drop(self.held.insert((until, thread.to_owned()))),
            (_, Some((since, _))) => drop(self.ready.insert((*since, thread.to_owned()))),
            _ => {}
        }
    }

    pub(super) fn hold(&mut self, thread: &str, holder: Holder) {
        self.list(thread, |entry| entry.holder = holder);
    }

    pub(super) fn renew(&mut self, lease: &Lease, now: Instant) {
        let lasts = self.threads.get(&*lease.thread).and_then(|entry| entry.holder.lasts(lease.token));
        if let Some((lasts, until)) = lasts.and_then(|lasts| Some((lasts, now.checked_add(lasts)?))) {
            self.hold(&lease.thread, Holder::Worker { token: lease.token, lasts, until });
        }
    }

    pub(super) fn let_go(&mut self, lease: &Lease) {
        if self.threads.get(&*lease.thread).is_some_and(|entry| entry.holder.lasts(lease.token).is_some()) {
            self.hold(&lease.thread, Holder::None);
        }
    }

    pub(super) fn lose(&mut self, now: Instant) {
        while let Some((_, thread)) = self.held.first().filter(|(until, _)| *until <= now).cloned() {
            self.list(&thread, |entry| {
                if let Holder::Worker { token, lasts, .. } = entry.holder {
                    entry.holder = Holder::Lost { token, lasts };
                }
            });
        }
    }

    /// Returns the first thread after `last` with a run that a worker with these graphs may claim.
    pub(super) fn ready_after(
        &self,
        last: Option<&Ready>,
        graphs: Option<&[String]>,
        now: SystemTime,
    ) -> Option<Ready> {
        let after = last.map_or(Bound::Unbounded, Bound::Excluded);
        let mut ready = self.ready.range((after, Bound::Unbounded)).take_while(|(since, _)| *since <= now);
        let wanted = |thread: &str| {
            let graph = self.threads.get(thread).and_then(|entry| entry.ready.as_ref()).map(|(_, graph)| graph);
            graph.is_some_and(|graph| graphs.is_none_or(|graphs| graphs.contains(graph)))
        };
        ready.find(|(_, thread)| wanted(thread)).cloned()
    }

    pub(super) fn runs_of(&self, thread: Option<&str>) -> Box<dyn Iterator<Item = &Run> + '_> {
        match thread {
            None => Box::new(self.runs.values()),
            Some(thread) => {
                let runs = self.threads.get(thread).into_iter().flat_map(|entry| &entry.runs);
                Box::new(runs.filter_map(|id| self.runs.get(id)))
            }
        }
    }

    pub(super) fn remove_run(&mut self, id: Uuid) {
        if let Some(run) = self.runs.remove(&id)
            && let Some(entry) = self.threads.get_mut(&run.thread)
        {
            entry.runs.remove(&id);
        }
    }

    /// Replaces this revision of a document. Returns false if another revision is stored.
    pub(super) fn put_document(&mut self, mut document: Document, replaces: Option<u64>) -> bool {
        let key = (document.kind.clone(), document.id.clone());
        let stored = self.documents.get(&key).map(|stored| stored.revision);
        if stored == replaces {
            self.look_at(&key, document.due.take());
            self.documents.insert(key, document.revision(stored.unwrap_or_default() + 1));
        }
        stored == replaces
    }

    pub(super) fn remove_document(&mut self, kind: &str, id: &str) -> bool {
        let key = (kind.to_owned(), id.to_owned());
        self.look_at(&key, None);
        self.documents.remove(&key).is_some()
    }

    /// Sets the due time of a document.
    fn look_at(&mut self, key: &(String, String), due: Option<SystemTime>) {
        let (kind, id) = key;
        if let Some(before) = self.due_of.remove(key) {
            self.due.remove(&(kind.clone(), before, id.clone()));
        }
        if let Some(due) = due {
            self.due.insert((kind.clone(), due, id.clone()));
            self.due_of.insert(key.clone(), due);
        }
    }

    pub(super) fn documents_due(&self, kind: &str, by: SystemTime) -> Vec<Document> {
        let of_kind = self.due.range((kind.to_owned(), SystemTime::UNIX_EPOCH, String::new())..);
        let due = of_kind.take_while(|(of, at, _)| of == kind && *at <= by).take(DUE);
        due.filter_map(|(kind, _, id)| self.documents.get(&(kind.clone(), id.clone())).cloned()).collect()
    }

    /// Removes a thread and its background threads. Returns false if the thread does not exist.
    pub(super) fn remove(&mut self, thread: &str) -> bool {
        let within: Vec<String> = self.background.range(background::names_within(thread)).cloned().collect();
        for name in within {
            self.remove_only(&name);
        }
        self.remove_only(thread)
    }

    fn remove_only(&mut self, thread: &str) -> bool {
        self.list(thread, |entry| (entry.ready, entry.holder) = (None, Holder::None));
        self.background.remove(thread);
        let Some(entry) = self.threads.remove(thread) else { return false };
        for id in &entry.runs {
            self.runs.remove(id);
        }
        true
    }
}

fn no_thread(thread: &str) -> RunsError {
    RunsError::NoThread { thread: thread.to_owned() }
}

impl ThreadEntry {
    /// Returns a copy of the row. If `with_values` is false, the copy has no values, and they are not cloned.
    pub(super) fn copy(&mut self, with_values: bool) -> ThreadRow {
        let values = if with_values { None } else { self.row.values.take() };
        let row = self.row.clone();
        self.row.values = values.or_else(|| self.row.values.take());
        row
    }

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
