mod checkpoints;
mod tables;

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use async_trait::async_trait;
use uuid::Uuid;

use super::backend::{DocumentBackend, PrunedRuns, RunBackend, ThreadBackend};
use super::change::{Changed, ThreadChange};
use super::document::Document;
use super::error::RunsError;
use super::event::{EventPage, EventQuery};
use super::notifier::ChangeNotifier;
use super::query::{RunQuery, ThreadQuery};
use super::run::{Claimed, Run, RunClaim};
use super::thread::{NewThread, ThreadIs, ThreadRow};
use hier_checkpoint::checkpoint::{
    Checkpointer, Claim, InboxMessage, Lease, MemorySaver, PostOutcome, SaverError, WhenRunning,
};
use hier_checkpoint::sync::{Mutex, MutexGuard, lock};
use tables::{EndedRuns, Holder, MemoryTables};

/// A run store that keeps everything in memory. The data is lost when the process ends. Clones share the data.
///
/// As in a database, a lease expires if its holder does not renew it.
#[derive(Clone, Debug, Default)]
pub struct MemoryRuns {
    saver: MemorySaver,
    shared: Arc<RunsState>,
}

#[derive(Debug, Default)]
struct RunsState {
    tables: Mutex<MemoryTables>,
    bell: ChangeNotifier,
}

impl MemoryRuns {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn tables(&self) -> MutexGuard<'_, MemoryTables> {
        lock(&self.shared.tables)
    }

    /// Decides a change, and stores it. Returns `None` if there is nothing to change.
    fn apply(&self, tables: &mut MemoryTables, change: ThreadChange) -> Result<Option<Changed>, RunsError> {
        let (now, lease, releases) = (SystemTime::now(), change.lease().cloned(), change.releases());
        if let Some(lease) = &lease {
            self.saver.check_held(lease)?;
        }
        let thread = change.thread.clone();
        let snapshot = tables.snapshot(&change, now);
        let Some(mut decision) = change.decide(snapshot)? else { return Ok(None) };
        if let Some(document) = decision.document.take() {
            let (kind, id, revision) = (document.kind.clone(), document.id.clone(), document.revision);
            if !tables.put_document(document, Some(revision)) {
                return Err(RunsError::Stale { kind, id });
            }
        }
        let claim = decision.claim.clone();
        let claimed = claim.and_then(|claim| self.try_hold(tables, &thread, &claim).map(|lease| (lease, claim.lasts)));
        if claimed.is_some() {
            decision.start();
        } else if decision.is_only_claim() {
            return Ok(None);
        }
        if let Some(lease) = &lease {
            self.saver.commit_now(lease, decision.records, &decision.also)?;
        }
        let EndedRuns { undone, settled } = tables.store(decision.queue, now);
        for run in undone {
            self.saver.undo(&thread, run);
        }
        for run in settled {
            self.saver.settle(&thread, run);
        }
        if let Some((lease, lasts)) = &claimed {
            let (since, lasts) = (Instant::now(), *lasts);
            let until = since.checked_add(lasts).unwrap_or(since);
            tables.hold(&thread, Holder::Worker { token: lease.token, lasts, until });
        }
        if let Some(lease) = lease.filter(|_| releases) {
            tables.let_go(&lease);
        }
        let claimed = decision.started.zip(claimed).map(|(run, (lease, _))| Claimed::new(run, lease));
        Ok(Some(Changed::new(&tables.entry(&thread)?.row, decision.runs, claimed)))
    }

    /// Claims the thread for a worker. Returns `None` if it is held.
    fn try_hold(&self, tables: &MemoryTables, thread: &str, claim: &RunClaim) -> Option<Lease> {
        let when_running = match tables.threads.get(thread).map(|entry| entry.holder).unwrap_or_default() {
            Holder::Worker { .. } => return None,
            Holder::Lost { .. } => WhenRunning::TakeOver,
            Holder::None => WhenRunning::Reject,
        };
        let asked = Claim { holder: claim.holder.clone(), when_running, lasts: claim.lasts, ..Claim::default() };
        self.saver.claim_now(thread, &asked)
    }
}

#[async_trait]
impl RunBackend for MemoryRuns {
    async fn change(&self, change: ThreadChange) -> Result<Changed, RunsError> {
        let thread = change.thread.clone();
        let released = change.lease().cloned().filter(|_| change.releases());
        let changed = self.apply(&mut self.tables(), change)?;
        if let Some(lease) = released {
            self.saver.release(&lease).await?;
        }
        changed.ok_or(RunsError::NoThread { thread })
    }

    async fn claim(&self, claim: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        let (mut tables, now) = (self.tables(), SystemTime::now());
        tables.lose(Instant::now());
        let (mut claimed, mut after) = (Vec::new(), None);
        while claimed.len() < most
            && let Some(next) = tables.ready_after(after.as_ref(), claim.graphs.as_deref(), now)
        {
            if let Ok(Some(changed)) = self.apply(&mut tables, ThreadChange::start(&*next.1, claim.clone())) {
                claimed.extend(changed.claimed);
            }
            after = Some(next);
        }
        Ok(claimed)
    }

    async fn load_run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        Ok(self.tables().runs.get(&id).cloned())
    }

    async fn find_runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        let tables = self.tables();
        let mut found: Vec<_> = tables.runs_of(query.thread.as_deref()).filter(|run| query.wants(run)).collect();
        found.sort_by_key(|run| std::cmp::Reverse(run.number));
        Ok(found.into_iter().skip(query.offset).take(query.limit).cloned().collect())
    }

    async fn delete_run(&self, id: Uuid) -> Result<bool, RunsError> {
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

    async fn find_events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        let tables = self.tables();
        let entry = tables.entry(&query.thread)?;
        let first = entry.events.partition_point(|event| event.number <= query.after);
        let wanted = entry.events.range(first..);
        let wanted = wanted.filter(|row| query.run.is_none() || row.event.run == query.run).take(query.limit);
        Ok(EventPage::new(wanted.cloned().collect(), &entry.row))
    }

    async fn delete_older(&self, than: Duration) -> Result<PrunedRuns, RunsError> {
        let mut tables = self.tables();
        let cutoff = SystemTime::now().checked_sub(than).unwrap_or(SystemTime::UNIX_EPOCH);
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
        Ok(PrunedRuns { events, runs: old.len() as u64 })
    }

    fn notifier(&self) -> &ChangeNotifier {
        &self.shared.bell
    }
}

#[async_trait]
impl ThreadBackend for MemoryRuns {
    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        Ok(self.tables().threads.get(id).map(|entry| entry.row.clone()))
    }

    async fn find_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        let mut tables = self.tables();
        let wanted = tables.threads.values_mut().filter(|entry| query.wants(&entry.row));
        Ok(query.page(wanted.map(|entry| entry.copy(query.needs_values()))))
    }

    async fn insert_thread(&self, thread: NewThread) -> Result<Option<ThreadRow>, RunsError> {
        let mut tables = self.tables();
        if tables.threads.contains_key(&thread.id) {
            return Ok(None);
        }
        let row = ThreadRow::new(thread, SystemTime::now());
        tables.insert(row.clone());
        Ok(Some(row))
    }

    async fn insert_copy(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
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

    async fn delete_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        let mut tables = self.tables();
        if !tables.threads.get(id).map_or_else(|| is.is_any(), |entry| is.is(&entry.row)) {
            return Ok(false);
        }
        self.saver.delete_now(id);
        Ok(tables.remove(id))
    }

    async fn post_to(
        &self,
        thread: &str,
        is: ThreadIs,
        graph: &str,
        message: InboxMessage,
    ) -> Result<PostOutcome, RunsError> {
        let tables = self.tables();
        if !tables.threads.get(thread).is_some_and(|entry| is.is(&entry.row)) {
            return Err(SaverError::deleted(thread).into());
        }
        Ok(self.saver.post_now(thread, graph, message)?)
    }
}

#[async_trait]
impl DocumentBackend for MemoryRuns {
    async fn load_document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        Ok(self.tables().documents.get(&(kind.to_owned(), id.to_owned())).cloned())
    }

    async fn find_documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        Ok(self.tables().documents.values().filter(|document| document.kind == kind).cloned().collect())
    }

    async fn find_due_documents(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        Ok(self.tables().documents_due(kind, by))
    }

    async fn store_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        Ok(self.tables().put_document(document, replaces))
    }

    async fn delete_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        Ok(self.tables().remove_document(kind, id))
    }
}
