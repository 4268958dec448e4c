use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::checkpoint::{
    Delivered, DueChange, DueQuery, DueThread, INBOX_BYTES, InboxMessage, SaverError, SideEffects,
};

#[derive(Debug, Default)]
pub(super) struct MemoryInboxes {
    boxes: HashMap<Arc<str>, StoredInbox>,
    due: HashMap<Arc<str>, BTreeSet<(SystemTime, Arc<str>)>>,
    last: u64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StoredInbox {
    waiting: Vec<Delivered>,
    /// Messages taken by runs that may still be rolled back.
    taken: Vec<(Uuid, Delivered)>,
    known: HashSet<Uuid>,
    due: Option<DueEntry>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct DueEntry {
    at: SystemTime,
    graph: Arc<str>,
    driven: bool,
}

impl MemoryInboxes {
    pub(super) fn post(
        &mut self,
        thread: &str,
        graph: &str,
        message: InboxMessage,
        now: SystemTime,
    ) -> Result<bool, SaverError> {
        let (name, inbox) = self.open(thread);
        if inbox.known.contains(&message.id) {
            return Ok(false);
        }
        let kept = inbox.waiting.iter().chain(inbox.taken.iter().map(|(_, posted)| posted));
        let kept: usize = kept.map(|posted| posted.message.size()).sum();
        if kept + message.size() > INBOX_BYTES {
            return Err(SaverError::InboxFull { thread: thread.to_owned() });
        }
        let wakes = message.signal.is_some();
        inbox.known.insert(message.id);
        self.last += 1;
        let posted = Delivered::new(self.last, message);
        self.open(&name).1.waiting.push(posted);
        if wakes {
            let graph = self.due_of(&name).map_or_else(|| graph.into(), |due| due.graph.clone());
            self.no_later_than(&name, now, graph);
        }
        Ok(true)
    }

    pub(super) fn of(&self, thread: &str) -> Vec<Delivered> {
        self.boxes.get(thread).map(|inbox| inbox.waiting.clone()).unwrap_or_default()
    }

    pub(super) fn commit(&mut self, thread: &Arc<str>, also: &SideEffects, now: SystemTime) -> Result<(), SaverError> {
        let waiting = self.boxes.get(thread).map(|inbox| inbox.waiting.as_slice()).unwrap_or_default();
        let mut taken = HashSet::with_capacity(also.taken.len());
        for id in &also.taken {
            if !taken.insert(*id) || !waiting.iter().any(|posted| posted.message.id == *id) {
                return Err(SaverError::no_message(thread, *id));
            }
        }
        if let Some(inbox) = self.boxes.get_mut(thread) {
            let gone = inbox.waiting.extract_if(.., |posted| taken.contains(&posted.message.id));
            match also.run {
                Some(run) => inbox.taken.extend(gone.map(|posted| (run, posted))),
                None => drop(gone.collect::<Vec<_>>()),
            }
        }
        match &also.due {
            None => {}
            Some(DueChange::NoLaterThan { at, graph }) => self.no_later_than(thread, *at, graph.clone()),
            Some(DueChange::Exactly { at, graph, seen }) => {
                let waiting = self.boxes.get(thread).map(|inbox| inbox.waiting.as_slice()).unwrap_or_default();
                let wakes = |posted: &&Delivered| posted.number > *seen && posted.message.signal.is_some();
                let woken = waiting.iter().find(wakes).map(|_| now);
                let at = at.iter().copied().chain(woken).min();
                self.set_due(thread, at.map(|at| DueEntry { at, graph: graph.clone(), driven: false }));
            }
            Some(DueChange::Driven { until, graph }) => {
                let at = self.due_of(thread).map_or(*until, |known| known.at.min(*until));
                self.set_due(thread, Some(DueEntry { at, graph: graph.clone(), driven: true }));
            }
            Some(DueChange::Postponed { until }) => {
                let due = self.due_of(thread).map(|due| DueEntry { at: *until, ..due.clone() });
                self.set_due(thread, due);
            }
        }
        Ok(())
    }

    pub(super) fn undo(&mut self, thread: &str, run: Uuid) {
        let Some(inbox) = self.boxes.get_mut(thread) else { return };
        let back = inbox.taken.extract_if(.., |(by, _)| *by == run).map(|(_, posted)| posted);
        inbox.waiting.extend(back);
        inbox.waiting.sort_by_key(|posted| posted.number);
    }

    pub(super) fn settle(&mut self, thread: &str, run: Uuid) {
        if let Some(inbox) = self.boxes.get_mut(thread) {
            inbox.taken.retain(|(by, _)| *by != run);
        }
    }

    pub(super) fn due(&self, query: &DueQuery) -> Vec<DueThread> {
        let after = query.after.clone().map(|last| (last.at, last.thread));
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let of_graph = |graph: &String| {
            let all = self.due.get(graph.as_str()).map(|all| all.range((from.clone(), Bound::Unbounded)));
            all.into_iter().flatten().take(query.limit)
        };
        let due = query.graphs.iter().flat_map(of_graph).filter(|(at, _)| *at <= query.by);
        let driven = |thread| self.due_of(thread).is_some_and(|due| due.driven);
        let mut found: Vec<_> =
            due.map(|(at, thread)| DueThread::new(thread.clone(), *at).driven(driven(thread))).collect();
        found.sort_by(|a, b| (a.at, &a.thread).cmp(&(b.at, &b.thread)));
        found.truncate(query.limit);
        found
    }

    pub(super) fn delete(&mut self, thread: &str) {
        if let Some((name, _)) = self.boxes.get_key_value(thread) {
            let name = name.clone();
            self.set_due(&name, None);
            self.boxes.remove(&name);
        }
    }

    /// Copies the due time of a thread. The copy is not driven.
    pub(super) fn copy(&mut self, from: &str, to: &Arc<str>) {
        let due = self.due_of(from).map(|due| DueEntry { driven: false, ..due.clone() });
        self.set_due(to, due);
    }

    pub(super) fn is_driven(&self, thread: &str) -> bool {
        self.due_of(thread).is_some_and(|due| due.driven)
    }

    pub(super) fn inbox(&self, thread: &str) -> StoredInbox {
        self.boxes.get(thread).cloned().unwrap_or_default()
    }

    pub(super) fn put(&mut self, thread: &str, mut inbox: StoredInbox) {
        self.last = inbox.waiting.iter().map(|posted| posted.number).chain([self.last]).max().unwrap_or_default();
        let due = inbox.due.take();
        let name = self.open(thread).0;
        self.boxes.insert(name.clone(), inbox);
        self.set_due(&name, due);
    }

    fn open(&mut self, thread: &str) -> (Arc<str>, &mut StoredInbox) {
        let name = self.boxes.get_key_value(thread).map_or_else(|| Arc::from(thread), |(name, _)| name.clone());
        (name.clone(), self.boxes.entry(name).or_default())
    }

    fn due_of(&self, thread: &str) -> Option<&DueEntry> {
        self.boxes.get(thread)?.due.as_ref()
    }

    fn no_later_than(&mut self, thread: &Arc<str>, at: SystemTime, graph: Arc<str>) {
        let known = self.due_of(thread);
        let (at, driven) = known.map_or((at, false), |known| (known.at.min(at), known.driven));
        self.set_due(thread, Some(DueEntry { at, graph, driven }));
    }

    fn set_due(&mut self, thread: &Arc<str>, due: Option<DueEntry>) {
        if due.is_none() && !self.boxes.contains_key(thread) {
            return;
        }
        let before = std::mem::replace(&mut self.open(thread).1.due, due.clone());
        if let Some(DueEntry { at, graph, .. }) = before
            && let Some(threads) = self.due.get_mut(&graph)
        {
            threads.remove(&(at, thread.clone()));
        }
        if let Some(DueEntry { at, graph, .. }) = due {
            self.due.entry(graph).or_default().insert((at, thread.clone()));
        }
    }
}
