//! The event log of one run: a saver that stores checkpoints together with their events.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use uuid::Uuid;

use super::error::RunsError;
use super::event::NewEvent;
use super::log_event::LogEvent;
use super::pending::{PendingCommit, has_answer, is_beginning, is_input, may_be_last};
use super::run::{RunCommit, RunEnd};
use super::thread::ThreadIndex;
use super::{RunStore, overlay};
use hier_checkpoint::checkpoint::{
    Capabilities, CheckpointCache, Checkpointer, Claim, Commit, Conversations, Lease, LeaseState, ListQuery, Listed,
    Saved, SaverError, SaverLayer, SideEffects, WriteRecord, background,
};
use hier_checkpoint::sync::{Mutex, lock};

/// Maximum size in bytes of the events that wait to be stored. The newest event stays even if it is larger.
const ROOM: u64 = 64 << 20;

/// The time at which the events of a run are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventBuffering {
    /// Events are stored at once, and possibly before the checkpoint of their superstep. Use this for runs that store
    /// checkpoints in the background.
    #[default]
    AsTheyCome,
    /// Events are stored with the checkpoint of their superstep. Messages and custom events are stored earlier if no
    /// event of another kind is before them in the buffer. Use this for runs that store each superstep before the next
    /// one.
    WithCommits,
}

/// A saver for one claimed run, which stores the commits of the run together with its events. It can also store a
/// change of the thread from outside its runs, such as a state update.
///
/// * A read also returns records that are not stored yet.
/// * A commit that may be the last one of the run waits for [`finish`](Self::finish), which stores it with the end of
///   the run.
/// * With [`EventBuffering::AsTheyCome`], the input and the first superstep of the run wait for the next commit,
///   [`flush`](Self::flush) or [`finish`](Self::finish). If the process is killed before that, another worker begins
///   the run again with the input, which the row of the run contains.
/// * A change from outside the runs of the thread waits for [`finish`](Self::finish), which also stores the changes of
///   the thread's row in the index.
/// * Events wait in a buffer of at most 64 MiB. If the buffer is full because the database does not respond, the oldest
///   events are dropped. An event `lagged` with `{"missed": n}` replaces them.
pub struct RunLog {
    store: Arc<dyn RunStore>,
    lease: Lease,
    run: Option<Uuid>,
    keeps: EventBuffering,
    buffer: Mutex<Buffer>,
    /// Orders commits and flushes.
    gate: tokio::sync::Mutex<PendingCommit>,
    arrived: tokio::sync::Notify,
}

#[derive(Default)]
struct Buffer {
    events: VecDeque<NewEvent>,
    bytes: u64,
    missed: u64,
}

impl RunLog {
    /// Creates a log for the holder of a lease. `run` is the id of the claimed run, or `None` for a change from outside
    /// the runs of the thread. `keeps` selects the time at which the log stores events.
    pub fn new(store: Arc<dyn RunStore>, lease: Lease, run: Option<Uuid>, keeps: EventBuffering) -> Self {
        let (buffer, gate, arrived) = (Mutex::default(), tokio::sync::Mutex::default(), tokio::sync::Notify::new());
        Self { store, lease, run, keeps, buffer, gate, arrived }
    }

    /// Returns the lease of the thread.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Adds an event to the buffer. Does not wait for the database.
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
        self.arrived.notify_one();
    }

    /// Waits until the log receives an event, or receives the input and the first superstep of the run. Returns at once
    /// if this has happened since the last call. Call [`flush`](Self::flush) afterwards.
    pub async fn events_arrived(&self) {
        self.arrived.notified().await;
    }

    /// Stores the input and the first superstep of the run if they still wait in the log. Also stores the events that
    /// need not wait for a commit. If the call cannot store the events, it drops them, and a later event `lagged`
    /// reports their number.
    ///
    /// If the future is dropped, the events that were being stored are lost.
    pub async fn flush(&self) -> Result<(), RunsError> {
        let mut pending = self.gate.lock().await;
        let records = pending.take_beginning();
        let events = self.take(self.keeps == EventBuffering::WithCommits);
        if events.is_empty() && records.is_empty() {
            return Ok(());
        }
        let count = events.len() as u64;
        let beginning = records.clone();
        let also = pending.side_effects(self.run, &records, SideEffects::default());
        let stored =
            self.store.commit_run(&self.lease, RunCommit { records, also, events, ..RunCommit::default() }).await;
        if stored.is_err() {
            // The events may have been stored although the call failed. A second attempt could store them twice, so
            // they count as missed.
            lock(&self.buffer).missed += count;
            // The records may be stored twice, and later records build on them.
            pending.restore_beginning(beginning);
            self.arrived.notify_one();
        }
        stored.map(|_| ())
    }

    /// Stores all waiting records and events, the changes of the thread's row in the index (`index`), and the end of
    /// the run (`end`). If `end` is not `None`, also releases the lease.
    pub async fn finish(&self, index: Option<ThreadIndex>, end: Option<RunEnd>) -> Result<(), RunsError> {
        let mut pending = self.gate.lock().await;
        let events = self.take(false);
        let beginning = pending.beginning();
        let records = pending.take();
        let also = pending.side_effects(self.run.filter(|_| end.is_none()), &records, SideEffects::default());
        self.store_or_begin(beginning, RunCommit { records, also, events, index, end, undo: None }).await
    }

    /// Undoes everything that the run has stored and removed, in this and earlier attempts, and drops the records that
    /// this log has not stored yet. Does not end the run. If the worker is killed after this call, the next worker that
    /// claims the run can call this method again.
    pub async fn undo(&self) -> Result<(), RunsError> {
        let mut pending = self.gate.lock().await;
        *pending = PendingCommit::default();
        let settlement = RunCommit { undo: self.run, ..RunCommit::default() };
        self.store.commit_run(&self.lease, settlement).await.map(|_| ())
    }

    /// Takes the waiting events. With `only_loose`, takes only the events before the first event that belongs to a
    /// commit.
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

    /// Stores a commit. If the store refuses it, stores the beginning of the run alone, so that the thread contains the
    /// run's input. A failure of this second call does not change the error.
    async fn store_or_begin(&self, beginning: Vec<WriteRecord>, commit: RunCommit) -> Result<(), RunsError> {
        let count = commit.events.len() as u64;
        let Err(error) = self.store.commit_run(&self.lease, commit).await else { return Ok(()) };
        lock(&self.buffer).missed += count;
        let is_lost = matches!(
            error,
            RunsError::Cancelled { .. } | RunsError::Saver(SaverError::Database { .. } | SaverError::Superseded { .. })
        );
        if !beginning.is_empty() && !is_lost {
            drop(self.store.commit_run(&self.lease, RunCommit::records(beginning)).await);
        }
        Err(error)
    }

    /// Stores or holds back a commit without side effects.
    async fn commit_records(&self, mut records: Vec<WriteRecord>) -> Result<(), SaverError> {
        let mut pending = self.gate.lock().await;
        let mut last = records.iter().rposition(|record| !may_be_last(record)).map_or(0, |place| place + 1);
        // An input may refer to values that the next checkpoint brings.
        if last > 0 && last < records.len() && is_input(&records[last - 1]) {
            last -= 1;
        }
        if records[..last].iter().any(has_answer) {
            last = records.len();
        }
        if self.run.is_none() {
            last = 0;
        }
        if self.keeps == EventBuffering::AsTheyCome
            && !pending.has_begun
            && pending.records.is_empty()
            && is_beginning(&records)
        {
            pending.beginning = last;
            pending.records = records;
            drop(pending);
            self.arrived.notify_one();
            return Ok(());
        }
        let waiting = records.split_off(last);
        if records.is_empty() {
            pending.records.extend(waiting);
            return Ok(());
        }
        self.store_records(&mut pending, records, SideEffects::default(), waiting).await
    }

    /// Stores records after those that wait. The records in `waiting` wait from then on.
    async fn store_records(
        &self,
        pending: &mut PendingCommit,
        records: Vec<WriteRecord>,
        also: SideEffects,
        waiting: Vec<WriteRecord>,
    ) -> Result<(), SaverError> {
        let beginning = pending.beginning();
        let mut now = pending.take();
        pending.has_begun = true;
        pending.records = waiting;
        now.extend(records);
        let also = pending.side_effects(self.run, &now, also);
        let settlement = RunCommit { records: now, also, events: self.take(false), ..RunCommit::default() };
        let stored = self.store_or_begin(beginning, settlement).await;
        if stored.is_err() {
            // Records that follow a refused commit are not stored with the run's end.
            pending.records.clear();
        }
        stored.map_err(SaverError::from)
    }

    /// Returns true for the thread of the run. The run may also write the threads of its background runs, under their own
    /// leases.
    fn is_own(&self, thread: &str) -> bool {
        *thread == *self.lease.thread
    }

    fn as_saver(&self) -> Arc<dyn Checkpointer> {
        self.store.clone().as_checkpointer()
    }

    async fn store_pending(&self) -> Result<(), SaverError> {
        let mut pending = self.gate.lock().await;
        if pending.records.is_empty() {
            return Ok(());
        }
        let beginning = pending.beginning();
        let records = pending.take();
        let again = records.clone();
        let also = pending.side_effects(self.run, &records, SideEffects::default());
        let settlement = RunCommit { records, also, ..RunCommit::default() };
        let number = beginning.len();
        let stored = self.store_or_begin(beginning, settlement).await.map_err(SaverError::from);
        if matches!(&stored, Err(error) if !matches!(error, SaverError::Superseded { .. })) {
            // The end of the run stores them, or reports that they cannot be stored.
            (pending.records, pending.beginning) = (again, number);
        }
        stored
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

    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        if self.is_own(thread) {
            return Ok(self.lease.clone());
        }
        if background::is_within(thread, &self.lease.thread) {
            return self.store.acquire(thread, claim).await;
        }
        Err(SaverError::Invalid(format!("the claimed run is of thread `{}`, not of `{thread}`", self.lease.thread)))
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        if self.is_own(&lease.thread) { Ok(()) } else { self.store.release(lease).await }
    }

    /// Stores a commit. A commit with side effects does not wait: it is stored at once, after the records that wait.
    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        if !self.is_own(&lease.thread) {
            return self.store.commit(lease, commit).await;
        }
        let Some(also) = commit.also else {
            return self.commit_records(commit.records).await.map(|()| LeaseState::Held);
        };
        let mut pending = self.gate.lock().await;
        self.store_records(&mut pending, commit.records, *also, Vec::new()).await?;
        Ok(LeaseState::Held)
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        if !self.is_own(thread) {
            return self.store.get(thread, namespace, id).await;
        }
        let pending = self.gate.lock().await;
        if let Some(found) = overlay::get(&*self.as_saver(), &pending.records, thread, namespace, id).await? {
            return Ok(found);
        }
        drop(pending);
        self.store_pending().await?;
        self.store.get(thread, namespace, id).await
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        if query.thread.as_deref().is_some_and(|thread| !self.is_own(thread)) {
            return self.store.list(query).await;
        }
        let pending = self.gate.lock().await;
        overlay::list(&*self.as_saver(), &pending.records, &self.lease.thread, query).await
    }

    /// Returns the capabilities of the store, without the administration of threads.
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
        if !self.is_own(thread)
            && let Some(cache) = self.store.capabilities().cache
        {
            return cache.get_changed(thread, namespace, id, known).await;
        }
        let pending = self.gate.lock().await;
        if let Some(cache) = self.store.capabilities().cache.filter(|_| pending.records.is_empty()) {
            return cache.get_changed(thread, namespace, id, known).await;
        }
        drop(pending);
        Checkpointer::get(self, thread, namespace, id).await
    }

    fn conversations(&self) -> Option<&Conversations> {
        self.store.capabilities().cache?.conversations()
    }
}
