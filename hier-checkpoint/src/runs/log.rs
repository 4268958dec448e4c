//! The event log of one run: a saver that stores checkpoints together with their events.

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
    Also, Capabilities, CheckpointCache, Checkpointer, Claim, Commit, Conversations, Lease, LeaseState, ListQuery,
    Listed, Record, Saved, SaverError, SaverLayer,
};
use crate::sync::{Mutex, lock};

/// Maximum size of the events that wait to be stored, without the newest.
const ROOM: u64 = 64 << 20;

/// The time at which events are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keeps {
    /// Stores events at once, perhaps before the checkpoint of their step. For runs that store in the background.
    #[default]
    AsTheyCome,
    /// Stores the events of a step with its checkpoint, and events within a step at once. For runs that store each step
    /// before the next.
    WithCommits,
}

/// The saver of one claimed run. It stores the commits of the run's graph together with the events until then. A commit that may be the
/// last waits for [`settle`](Self::settle), which stores it with the end of the run. Reads see waiting records as if they were stored.
///
/// If the run stores in the background, its beginning waits as well: the input and the first step. It waits for the next commit,
/// [`settle`](Self::settle) or [`flush`](Self::flush). If the process dies before, no work of a node is lost: the row of the run has the
/// input, and the worker that claims the run next passes it to the thread.
///
/// Without a run, this is the log of an external change of the thread. Everything waits for [`settle`](Self::settle), so that the index is
/// stored with it.
///
/// Events wait in a buffer of at most 64 MiB. If it is full, because the database does not answer, the oldest are dropped. The event
/// `lagged` with `{"missed": n}` replaces them.
pub struct RunLog {
    store: Arc<dyn RunStore>,
    lease: Lease,
    run: Option<Uuid>,
    keeps: Keeps,
    buffer: Mutex<Buffer>,
    /// Orders commits and flushes.
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
    /// Creates the log for the holder of a lease, for a run or for an external change.
    pub fn new(store: Arc<dyn RunStore>, lease: Lease, run: Option<Uuid>, keeps: Keeps) -> Self {
        let (buffer, gate, told) = (Mutex::default(), tokio::sync::Mutex::default(), tokio::sync::Notify::new());
        Self { store, lease, run, keeps, buffer, gate, told }
    }

    /// Returns the lease.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Adds an event. Never waits.
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

    /// Waits for events that are not stored yet.
    pub async fn told(&self) {
        self.told.notified().await;
    }

    /// Stores the beginning of the run, and the events that need not wait for a commit. Events that could not be stored are reported later as
    /// missing. If the future is dropped, the events that it was storing are lost.
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
            // They may have been stored and only the answer was lost. A second attempt could store them twice.
            lock(&self.buffer).missed += count;
            // Records may be stored twice, and later records build on them.
            held.records.splice(..0, again);
        }
        stored.map(|_| ())
    }

    /// Stores everything that waits, the new entry of the index, and the end of the run. With an end, the lease is released.
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

    /// Takes the waiting events. With `only_loose`, takes only those before the first that belongs to a commit.
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

    /// Stores or holds back a commit without side effects.
    async fn commit_records(&self, mut records: Vec<Record>) -> Result<(), SaverError> {
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
        // Records that follow a refused commit are not stored with the run's end.
        held.records.clear();
        if !beginning.is_empty() && !matches!(error, SaverError::Database { .. } | SaverError::Superseded { .. }) {
            // The beginning is stored, so that the thread stands where the run began. A failure here does not change the error.
            drop(self.store.record(&self.lease, Settlement::records(beginning)).await);
        }
        Err(error)
    }

    fn as_saver(&self) -> Arc<dyn Checkpointer> {
        self.store.clone().as_checkpointer()
    }

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

#[async_trait]
impl SaverLayer for RunLog {
    type Inner = dyn RunStore;

    fn inner(&self) -> &dyn RunStore {
        &*self.store
    }

    async fn acquire(&self, thread: &str, _claim: Claim) -> Result<Lease, SaverError> {
        if *thread == *self.lease.thread {
            return Ok(self.lease.clone());
        }
        Err(SaverError::Invalid(format!("the claimed run is of thread `{}`, not of `{thread}`", self.lease.thread)))
    }

    async fn release(&self, _lease: &Lease) -> Result<(), SaverError> {
        Ok(())
    }

    /// A commit with side effects is not held back. It follows the records that are.
    async fn commit(&self, _lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        let Some(also) = commit.also else {
            return self.commit_records(commit.records).await.map(|()| LeaseState::Held);
        };
        let mut held = self.gate.lock().await;
        let mut now = held.take();
        held.has_begun = true;
        now.extend(commit.records);
        let also = held.beside(self.run, &now, *also);
        let settlement = Settlement { records: now, also, events: self.take(false), ..Settlement::default() };
        self.store.record(&self.lease, settlement).await?;
        Ok(LeaseState::Held)
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

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        let held = self.gate.lock().await;
        overlay::list(&*self.as_saver(), &held.records, &self.lease.thread, query).await
    }

    /// A run changes its own thread only.
    fn capabilities(&self) -> Capabilities<'_> {
        let mut capabilities = self.store.capabilities();
        capabilities.admin = None;
        if capabilities.cache.is_some() { capabilities.with_cache(self) } else { capabilities }
    }
}

#[async_trait]
impl CheckpointCache for RunLog {
    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError> {
        let held = self.gate.lock().await;
        if let Some(cache) = self.store.capabilities().cache.filter(|_| held.records.is_empty()) {
            return cache.get_changed(thread, namespace, id, known).await;
        }
        drop(held);
        Checkpointer::get(self, thread, namespace, id).await
    }

    fn conversations(&self) -> Option<&Conversations> {
        self.store.capabilities().cache?.conversations()
    }
}
