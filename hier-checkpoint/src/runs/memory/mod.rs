//! Runs in memory.

mod checkpoints;
mod tables;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use uuid::Uuid;

use super::RunStore;
use super::bell::Bell;
use super::document::Document;
use super::error::RunsError;
use super::event::{EventPage, EventQuery};
use super::query::{RunQuery, ThreadQuery};
use super::queue::Queue;
use super::run::{Cancel, Claimed, NewRun, Run, RunClaim, Settlement};
use super::thread::{IfExists, NewThread, ThreadIs, ThreadPatch, ThreadRow, ThreadStatus};
use crate::checkpoint::{Checkpointer, Claim, Lease, Letter, MemorySaver, SaverError, WhenRunning, check_thread};
use crate::sync::{Mutex, MutexGuard, lock};
use tables::{Ended, Holder, Tables};

/// Keeps runs, events and the index of threads in memory, and the checkpoints in a [`MemorySaver`]. A clone shares what is
/// kept; it lasts as long as the process.
///
/// The lease of a claimed run runs out unless it is renewed, as in a database: also a worker in this process can be lost.
#[derive(Clone, Debug, Default)]
pub struct MemoryRuns {
    saver: MemorySaver,
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    tables: Mutex<Tables>,
    bell: Bell,
}

impl MemoryRuns {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        lock(&self.shared.tables)
    }

    /// Lets something happen to a thread, and stores what has changed.
    fn change<T>(
        &self,
        thread: &str,
        work: impl FnOnce(&mut Queue, SystemTime) -> Result<T, RunsError>,
    ) -> Result<T, RunsError> {
        let result = {
            let (mut tables, now) = (self.tables(), SystemTime::now());
            let mut queue = tables.queue(thread)?;
            let result = work(&mut queue, now)?;
            self.end(thread, &tables.store(queue, now));
            result
        };
        self.shared.bell.ring_thread(thread);
        self.shared.bell.ring_runs();
        Ok(result)
    }

    /// Does to the checkpoints of a thread what the end of its runs asks for.
    fn end(&self, thread: &str, ended: &Ended) {
        ended.undone.iter().for_each(|run| self.saver.undo(thread, *run));
        ended.settled.iter().for_each(|run| self.saver.settle(thread, *run));
    }

    /// Claims the thread for a worker, unless somebody holds it.
    fn try_hold(&self, tables: &mut Tables, thread: &str, claim: &RunClaim, now: Instant) -> Option<Lease> {
        let when_running = match tables.threads.get(thread)?.holder {
            Holder::Worker { .. } => return None,
            Holder::Lost { .. } => WhenRunning::TakeOver,
            Holder::Nobody => WhenRunning::Reject,
        };
        let asked = Claim { holder: claim.holder.clone(), when_running, lasts: claim.lasts, time_to_live: None };
        let lease = self.saver.claim_now(thread, &asked)?;
        let until = now.checked_add(claim.lasts).unwrap_or(now);
        tables.hold(thread, Holder::Worker { token: lease.token, lasts: claim.lasts, until });
        Some(lease)
    }

    /// Adds a run, and claims it if that is asked for and can be done now.
    fn add(&self, run: NewRun, claim: Option<&RunClaim>) -> Result<(Run, Option<Claimed>), RunsError> {
        let (thread, strategy) = (run.thread.clone(), run.multitask_strategy);
        let (run, claimed) = {
            let (mut tables, now) = (self.tables(), SystemTime::now());
            if let Some(id) = run.id.filter(|id| tables.runs.contains_key(id)) {
                return Err(RunsError::Exists { kind: "run", id: id.to_string() });
            }
            let document = run.document.clone();
            let made = !tables.threads.contains_key(&thread);
            let mut queue = match tables.queue(&thread) {
                Ok(queue) => queue,
                Err(_) => Queue::new(Queue::thread_for(&run, now)?, Vec::new()),
            };
            let run = queue.add(run, tables.last_number + 1, now)?;
            if let Some(document) = document {
                let (kind, id, revision) = (document.kind.clone(), document.id.clone(), document.revision);
                if !tables.put_document(document, Some(revision)) {
                    return Err(RunsError::Stale { kind, id });
                }
            }
            if made {
                tables.insert(queue.thread().clone());
            }
            tables.last_number = run.number;
            let claimed = claim.and_then(|claim| self.hold_added(&mut tables, (&mut queue, run.id), claim, now));
            self.end(&thread, &tables.store(queue, now));
            (run, claimed)
        };
        self.shared.bell.ring_added(&thread, strategy);
        if claimed.is_none() {
            self.shared.bell.ring_runs();
        }
        Ok((run, claimed))
    }

    /// Claims the run that was just added, if that can be done now.
    fn hold_added(
        &self,
        tables: &mut Tables,
        (queue, id): (&mut Queue, Uuid),
        claim: &RunClaim,
        now: SystemTime,
    ) -> Option<Claimed> {
        let graphs = claim.graphs.as_deref();
        queue.head(graphs, now).filter(|head| head.id == id)?;
        let lease = self.try_hold(tables, &queue.thread().id, claim, Instant::now())?;
        Some(Claimed::new(queue.start_added(id, graphs, now)?, lease))
    }

    fn claim_now(&self, claim: &RunClaim, most: usize) -> Vec<Claimed> {
        let (mut tables, now, instant) = (self.tables(), SystemTime::now(), Instant::now());
        let graphs = claim.graphs.as_deref();
        tables.lose(instant);
        let (mut claimed, mut after) = (Vec::new(), None);
        while claimed.len() < most
            && let Some(next) = tables.ready_after(after.as_ref(), graphs, now)
        {
            let thread = &*next.1;
            if let Ok(mut queue) = tables.queue(thread)
                && queue.head(graphs, now).is_some()
                && let Some(lease) = self.try_hold(&mut tables, thread, claim, instant)
                && let Some(run) = queue.start(graphs, now)
            {
                tables.store(queue, now);
                claimed.push(Claimed::new(run, lease));
            }
            after = Some(next);
        }
        claimed
    }
}

#[async_trait]
impl RunStore for MemoryRuns {
    async fn create_thread(&self, thread: NewThread) -> Result<ThreadRow, RunsError> {
        check_thread(&thread.id)?;
        let mut tables = self.tables();
        match tables.threads.get(&thread.id) {
            Some(entry) if thread.if_exists == IfExists::DoNothing => return Ok(entry.row.clone()),
            Some(_) => return Err(RunsError::Exists { kind: "thread", id: thread.id }),
            None => {}
        }
        let row = ThreadRow::new(thread, SystemTime::now());
        tables.insert(row.clone());
        Ok(row)
    }

    async fn thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        Ok(self.tables().threads.get(id).map(|entry| entry.row.clone()))
    }

    async fn update_thread(&self, id: &str, patch: ThreadPatch) -> Result<ThreadRow, RunsError> {
        self.change(id, |queue, now| queue.patch(patch, now))?;
        Ok(self.tables().entry(id)?.row.clone())
    }

    async fn search_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        let tables = self.tables();
        Ok(query.page(tables.threads.values().filter(|entry| query.wants(&entry.row)).map(|entry| entry.row.clone())))
    }

    async fn count_threads(&self, query: ThreadQuery) -> Result<u64, RunsError> {
        Ok(self.tables().threads.values().filter(|entry| query.wants(&entry.row)).count() as u64)
    }

    async fn remove_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        let removed = {
            let mut tables = self.tables();
            if !tables.threads.get(id).map_or_else(|| is.is_any(), |entry| is.is(&entry.row)) {
                return Ok(false);
            }
            self.saver.delete_now(id);
            tables.remove(id)
        };
        self.shared.bell.ring_thread(id);
        Ok(removed)
    }

    async fn clone_thread(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
        check_thread(&to.id)?;
        let mut tables = self.tables();
        if tables.threads.contains_key(&to.id) {
            return Err(RunsError::Exists { kind: "thread", id: to.id });
        }
        let row = tables.entry(from)?.row.copy_to(to, SystemTime::now());
        // Under the lock, so that no reader finds the row without the history.
        self.saver.copy_now(from, &row.id)?;
        tables.insert(row.clone());
        Ok(row)
    }

    async fn create_run(&self, run: NewRun) -> Result<Run, RunsError> {
        Ok(self.add(run, None)?.0)
    }

    async fn create_claimed(&self, run: NewRun, claim: RunClaim) -> Result<(Run, Option<Claimed>), RunsError> {
        self.add(run, Some(&claim))
    }

    async fn run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        Ok(self.tables().runs.get(&id).cloned())
    }

    async fn runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        let tables = self.tables();
        let mut found: Vec<_> = tables.runs_of(query.thread.as_deref()).filter(|run| query.wants(run)).collect();
        found.sort_by_key(|run| std::cmp::Reverse(run.number));
        Ok(found.into_iter().skip(query.offset).take(query.limit).cloned().collect())
    }

    async fn remove_run(&self, id: Uuid) -> Result<bool, RunsError> {
        let mut tables = self.tables();
        match tables.runs.get(&id) {
            Some(run) if run.status.is_live() => Err(RunsError::Live { run: id }),
            found => {
                let found = found.is_some();
                tables.remove_run(id);
                Ok(found)
            }
        }
    }

    async fn cancel_runs_if(
        &self,
        thread: &str,
        is: ThreadIs,
        runs: &[Uuid],
        action: Cancel,
    ) -> Result<Vec<Run>, RunsError> {
        self.change(thread, |queue, now| queue.cancel_if(&is, runs, action, now))
    }

    async fn post_if(&self, thread: &str, is: ThreadIs, graph: &str, letter: Letter) -> Result<bool, RunsError> {
        let tables = self.tables();
        if !tables.threads.get(thread).is_some_and(|entry| is.is(&entry.row)) {
            return Err(SaverError::deleted(thread).into());
        }
        Ok(self.saver.post_now(thread, graph, letter)?)
    }

    async fn claim_run(&self, claim: RunClaim) -> Result<Option<Claimed>, RunsError> {
        Ok(self.claim_runs(claim, 1).await?.pop())
    }

    async fn claim_runs(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        let claimed = self.claim_now(&claim, most);
        for claimed in &claimed {
            self.shared.bell.ring_events(&claimed.run.thread);
        }
        Ok(claimed)
    }

    async fn record(&self, lease: &Lease, mut settlement: Settlement) -> Result<u64, RunsError> {
        let ends = settlement.end.is_some();
        let (last, more) = {
            let (mut tables, now) = (self.tables(), SystemTime::now());
            let mut queue = tables.queue(&lease.thread)?;
            queue.settle(&mut settlement, now)?;
            self.saver.check_held(lease)?;
            self.saver.commit_also_now(lease, settlement.records, &settlement.also)?;
            self.end(&lease.thread, &tables.store(queue, now));
            if ends {
                tables.let_go(lease);
            }
            let row = &tables.entry(&lease.thread)?.row;
            (row.last_event, row.status == ThreadStatus::Busy)
        };
        if ends {
            self.saver.release(lease).await?;
            self.shared.bell.ring_thread(&lease.thread);
            if more {
                self.shared.bell.ring_runs();
            }
        } else {
            self.shared.bell.ring_events(&lease.thread);
        }
        Ok(last)
    }

    async fn hand_back(&self, lease: &Lease, run: Uuid) -> Result<(), RunsError> {
        {
            let (mut tables, now) = (self.tables(), SystemTime::now());
            let mut queue = tables.queue(&lease.thread)?;
            queue.hand_back(run, now);
            self.saver.check_held(lease)?;
            tables.store(queue, now);
            tables.let_go(lease);
        }
        self.saver.release(lease).await?;
        self.shared.bell.ring_thread(&lease.thread);
        self.shared.bell.ring_runs();
        Ok(())
    }

    async fn events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        let tables = self.tables();
        let entry = tables.entry(&query.thread)?;
        let first = entry.events.partition_point(|event| event.number <= query.after);
        let wanted = entry.events.range(first..);
        let wanted = wanted.filter(|row| query.run.is_none() || row.event.run == query.run).take(query.limit);
        Ok(EventPage::new(wanted.cloned().collect(), &entry.row))
    }

    async fn prune_runs(&self, older_than: Duration) -> Result<(u64, u64), RunsError> {
        let mut tables = self.tables();
        let cutoff = SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
        let old = |run: &&Run| run.ended.is_some_and(|ended| ended < cutoff);
        let old: Vec<Uuid> = tables.runs.values().filter(old).map(|run| run.id).collect();
        for id in &old {
            tables.remove_run(*id);
        }
        let mut events = 0;
        for entry in tables.threads.values_mut() {
            while let Some(old) = entry.events.front().filter(|event| event.at < cutoff) {
                entry.row.event_bytes = entry.row.event_bytes.saturating_sub(old.event.bytes());
                entry.row.gone_events = old.number;
                entry.events.pop_front();
                events += 1;
            }
        }
        Ok((events, old.len() as u64))
    }

    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        Ok(self.tables().documents.get(&(kind.to_owned(), id.to_owned())).cloned())
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        Ok(self.tables().documents.values().filter(|document| document.kind == kind).cloned().collect())
    }

    async fn documents_due(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        Ok(self.tables().documents_due(kind, by))
    }

    async fn put_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        Ok(self.tables().put_document(document, replaces))
    }

    async fn remove_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        Ok(self.tables().remove_document(kind, id))
    }

    fn bell(&self) -> &Bell {
        &self.shared.bell
    }

    fn as_checkpointer(self: Arc<Self>) -> Arc<dyn Checkpointer> {
        self
    }
}
