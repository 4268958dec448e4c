//! A run's way to its store: a saver that stores checkpoints together with the events that tell of them.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::error::RunsError;
use super::event::NewEvent;
use super::held::{Held, has_answer, is_beginning, is_input, may_be_last};
use super::log_event::LogEvent;
use super::run::{RunEnd, Settlement};
use super::thread::ThreadIndex;
use super::{RunStore, overlay};
use crate::checkpoint::{
    Also, Checkpointer, Claim, Conversations, DueQuery, DueThread, Lease, Letter, ListQuery, Listed, Posted, Prune,
    Record, Saved, SaverError, ThreadInfo,
};
use crate::sync::{Mutex, lock};

/// How many bytes of events wait to be stored at most, the newest not counted.
const ROOM: u64 = 64 << 20;

/// When events are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeps {
    /// As they come: those of a step perhaps before its checkpoint. For runs that store in the background: what such a run begins with
    /// is stored with what comes next, or soon ([`RunLog::flush`]).
    #[default]
    AsTheyCome,
    /// Those of a step with its checkpoint; what is told in the midst of a step as it comes. For runs that store each step
    /// before the next.
    WithCommits,
}

/// The saver of one claimed run. What the run's graph commits is stored with the events that were told so far; what may be
/// its last commit waits for [`settle`](Self::settle), so that how the run ended is stored with it. What is read meanwhile is as if it
/// were stored.
///
/// What a run that stores in the background begins with, its input and the step that follows from that alone, waits too: for the next
/// commit, [`settle`](Self::settle) or [`flush`](Self::flush). If it is lost with the process, no node's work is: the run's row has the
/// input, and who claims the run next gives it to the thread.
///
/// Without a run, it is that of a change of the thread from outside: everything waits for [`settle`](Self::settle), so that what the
/// index says is stored with it.
///
/// Events wait in a buffer of at most 64 MiB; when it is full, because the database does not answer, the oldest are dropped, and
/// an event `lagged` with `{"missed": n}` stands for them.
pub struct RunLog {
    store: Arc<dyn RunStore>,
    lease: Lease,
    run: Option<Uuid>,
    keeps: Keeps,
    buffer: Mutex<Buffer>,
    /// Commits and flushes go one after the other, in the order in which they were asked for.
    gate: tokio::sync::Mutex<Held>,
    told: tokio::sync::Notify,
}

#[derive(Default)]
struct Buffer {
    events: VecDeque<NewEvent>,
    bytes: u64,
    missed: u64,
}

impl RunLog {
    /// The way to the store for whoever holds this lease, for a run or for a change from outside.
    pub fn new(store: Arc<dyn RunStore>, lease: Lease, run: Option<Uuid>, keeps: Keeps) -> Self {
        let (buffer, gate, told) = (Mutex::default(), tokio::sync::Mutex::default(), tokio::sync::Notify::new());
        Self { store, lease, run, keeps, buffer, gate, told }
    }

    /// The lease.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Takes an event. It never waits.
    pub fn push(&self, event: NewEvent) {
        let mut buffer = lock(&self.buffer);
        buffer.bytes += event.bytes();
        buffer.events.push_back(event);
        while buffer.bytes > ROOM && buffer.events.len() > 1 {
            let dropped = buffer.events.pop_front();
            buffer.bytes -= dropped.map_or(0, |event| event.bytes());
            buffer.missed += 1;
        }
        drop(buffer);
        self.told.notify_one();
    }

    /// Resolves once there are events that were not stored yet.
    pub async fn told(&self) {
        self.told.notified().await;
    }

    /// Stores the events that need not wait for a commit, and what the run begins with. Of events that could not be stored it is told
    /// later that they are missing; if this is dropped, of those that it was storing nothing is.
    pub async fn flush(&self) -> Result<(), RunsError> {
        let mut held = self.gate.lock().await;
        let records = held.take_beginning();
        let events = self.take(self.keeps == Keeps::WithCommits);
        if events.is_empty() && records.is_empty() {
            return Ok(());
        }
        let count = events.len() as u64;
        let again = records.clone();
        let also = held.beside(self.run, &records, Also::default());
        let stored =
            self.store.record(&self.lease, Settlement { records, also, events, ..Settlement::default() }).await;
        if stored.is_err() {
            // Perhaps they were, and only the answer was lost: told again they might be there twice.
            lock(&self.buffer).missed += count;
            // These may be stored twice, and what follows builds on them.
            held.records.splice(..0, again);
        }
        stored.map(|_| ())
    }

    /// Stores everything that waits, what the index says, and how the run ended: then the lease is released with it.
    pub async fn settle(&self, index: Option<ThreadIndex>, end: Option<RunEnd>) -> Result<(), RunsError> {
        let mut held = self.gate.lock().await;
        let events = self.take(false);
        let records = held.take();
        let also = held.beside(self.run.filter(|_| end.is_none()), &records, Also::default());
        let settlement = Settlement { records, also, events, index, end, undo: None };
        self.store.record(&self.lease, settlement).await.map(|_| ())
    }

    /// Undoes everything that the run has stored and taken, in this attempt and before. Pending records are dropped. The run has not
    /// ended: the worker that claims it next may undo it again.
    pub async fn undo(&self) -> Result<(), RunsError> {
        let mut held = self.gate.lock().await;
        *held = Held::default();
        let settlement = Settlement { undo: self.run, ..Settlement::default() };
        self.store.record(&self.lease, settlement).await.map(|_| ())
    }

    /// The events that wait; only those before the first that belongs to a commit, if it says so.
    fn take(&self, only_loose: bool) -> Vec<NewEvent> {
        let mut buffer = lock(&self.buffer);
        let bound = |event: &NewEvent| !matches!(event.body, LogEvent::Message(_) | LogEvent::Custom { .. });
        let count = match buffer.events.iter().position(bound) {
            Some(first) if only_loose => first,
            _ => buffer.events.len(),
        };
        let mut events = Vec::with_capacity(count + 1);
        if buffer.missed > 0 && (count > 0 || !only_loose) {
            let missed = std::mem::take(&mut buffer.missed);
            events.push(NewEvent::new(self.run, LogEvent::Lagged { missed }));
        }
        events.extend(buffer.events.drain(..count));
        buffer.bytes = buffer.events.iter().map(NewEvent::bytes).sum();
        events
    }

    fn as_saver(&self) -> Arc<dyn Checkpointer> {
        self.store.clone().as_checkpointer()
    }

    /// Stores what was held back, before somebody reads.
    async fn store_held(&self) -> Result<(), SaverError> {
        let mut held = self.gate.lock().await;
        if held.records.is_empty() {
            return Ok(());
        }
        let records = held.take();
        let also = held.beside(self.run, &records, Also::default());
        let settlement = Settlement { records, also, ..Settlement::default() };
        self.store.record(&self.lease, settlement).await.map(|_| ()).map_err(SaverError::from)
    }
}

impl From<RunsError> for SaverError {
    fn from(error: RunsError) -> Self {
        match error {
            RunsError::Saver(error) => error,
            error => Self::Invalid(error.to_string()),
        }
    }
}

impl fmt::Debug for RunLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunLog").field("lease", &self.lease).field("run", &self.run).finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods, reason = "each call is passed on, kept or refused")]
#[async_trait]
impl Checkpointer for RunLog {
    /// The thread was claimed with the run.
    async fn acquire(&self, thread: &str, _claim: Claim) -> Result<Lease, SaverError> {
        if *thread == *self.lease.thread {
            return Ok(self.lease.clone());
        }
        Err(SaverError::Invalid(format!("the claimed run is of thread `{}`, not of `{thread}`", self.lease.thread)))
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        self.store.renew(lease).await
    }

    /// It is released with the run's end.
    async fn release(&self, _lease: &Lease) -> Result<(), SaverError> {
        Ok(())
    }

    async fn commit(&self, _lease: &Lease, mut records: Vec<Record>) -> Result<(), SaverError> {
        let mut held = self.gate.lock().await;
        let mut last = records.iter().rposition(|record| !may_be_last(record)).map_or(0, |place| place + 1);
        // An input may refer to what the checkpoint after it brings.
        if last > 0 && last < records.len() && is_input(&records[last - 1]) {
            last -= 1;
        }
        if records[..last].iter().any(has_answer) {
            last = records.len();
        }
        if self.run.is_none() {
            last = 0;
        }
        if self.keeps == Keeps::AsTheyCome && !held.has_begun && held.records.is_empty() && is_beginning(&records) {
            held.beginning = last;
            held.records = records;
            drop(held);
            self.told.notify_one();
            return Ok(());
        }
        let waiting = records.split_off(last);
        if records.is_empty() {
            held.records.extend(waiting);
            return Ok(());
        }
        let beginning = held.records[..held.beginning].to_vec();
        let mut now = held.take();
        held.has_begun = true;
        held.records = waiting;
        now.append(&mut records);
        let also = held.beside(self.run, &now, Also::default());
        let settlement = Settlement { records: now, also, events: self.take(false), ..Settlement::default() };
        let stored = self.store.record(&self.lease, settlement).await.map(|_| ()).map_err(SaverError::from);
        let Err(error) = stored else { return Ok(()) };
        // What follows a part that was refused is not stored with the run's end either.
        held.records.clear();
        if !beginning.is_empty() && !matches!(error, SaverError::Database { .. } | SaverError::Superseded { .. }) {
            // What came before it is: the thread stands where the run began. Whether that can be stored changes nothing of the error.
            drop(self.store.record(&self.lease, Settlement::records(beginning)).await);
        }
        Err(error)
    }

    /// What is changed beside the records is not held back, and neither are these: they follow what is.
    async fn commit_also(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<(), SaverError> {
        if also.is_empty() {
            return self.commit(lease, records).await;
        }
        let mut held = self.gate.lock().await;
        let mut now = held.take();
        held.has_begun = true;
        now.extend(records);
        let also = held.beside(self.run, &now, also);
        let settlement = Settlement { records: now, also, events: self.take(false), ..Settlement::default() };
        self.store.record(&self.lease, settlement).await.map(|_| ()).map_err(SaverError::from)
    }

    /// The lease is released with the run's end.
    async fn commit_last(&self, lease: &Lease, records: Vec<Record>, also: Also) -> Result<bool, SaverError> {
        self.commit_also(lease, records, also).await.map(|()| false)
    }

    async fn post(&self, thread: &str, graph: &str, letter: Letter) -> Result<bool, SaverError> {
        self.store.post(thread, graph, letter).await
    }

    async fn mail(&self, thread: &str) -> Result<Vec<Posted>, SaverError> {
        self.store.mail(thread).await
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        self.store.due(query).await
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        let held = self.gate.lock().await;
        if let Some(found) = overlay::get(&*self.as_saver(), &held.records, thread, namespace, id).await? {
            return Ok(found);
        }
        drop(held);
        self.store_held().await?;
        self.store.get(thread, namespace, id).await
    }

    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError> {
        let held = self.gate.lock().await;
        if held.records.is_empty() {
            return self.store.get_changed(thread, namespace, id, known).await;
        }
        drop(held);
        self.get(thread, namespace, id).await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        let held = self.gate.lock().await;
        overlay::list(&*self.as_saver(), &held.records, &self.lease.thread, query).await
    }

    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        self.store.threads(limit).await
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError> {
        self.store.delete_thread(thread).await
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError> {
        self.store_held().await?;
        self.store.copy_thread(from, to).await
    }

    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        self.store.delete_for_runs(runs).await
    }

    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        self.store.prune(prune).await
    }

    async fn sweep(&self) -> Result<u64, SaverError> {
        self.store.sweep().await
    }

    fn leases_expire(&self) -> bool {
        self.store.leases_expire()
    }

    fn conversations(&self) -> Option<&Conversations> {
        self.store.conversations()
    }
}
