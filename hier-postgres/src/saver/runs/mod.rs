//! Runs in Postgres, beside the checkpoints.

mod change;
mod claims;
pub(super) mod item;
pub(super) mod known;
pub(super) mod listen;
#[cfg(feature = "encryption")]
pub(super) mod reencrypt;
pub(super) mod see;
pub(super) mod shared_reads;
mod store;
pub(super) mod tables;
pub(super) mod tell;
mod together;
mod upkeep;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::{Checkpointer, Lease, Letter, SaverError, check, check_thread};
use hier_checkpoint::runs::{
    Bell, Cancel, Claimed, Document, EventPage, EventQuery, IfExists, NewRun, NewThread, Queue, Run, RunClaim,
    RunQuery, RunStore, RunsError, Settlement, ThreadIs, ThreadPatch, ThreadQuery, ThreadRow, ThreadStatus,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::delete::Change;
use super::fault::Fault;
use super::session::{Session, Transaction, retrying};
use change::{Answer, Beside, Seen};
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::backend::run_rows::{micros, no_thread, superseded};
use listen::Ear;
use store::{Asked, Changed};
use tables::Tables;
use upkeep::EXPIRED;

/// What comes of something that may be refused. A refusal is no fault: nothing was changed before it.
type Decided<T> = Result<Result<T, RunsError>, Fault>;

/// The channel on which processes tell each other of changes.
pub(super) fn channel(session: &Session) -> String {
    format!("hier_runs_{}", session.statements.schema.trim_matches('"'))
}

/// Does something with the tables of the runs in a transaction, and again if the server cannot be reached.
macro_rules! in_transaction {
    ($this:expr, $tables:ident => $work:expr) => {{
        let (session, vault, unreadable) = (&$this.0.session, &$this.0.vault, &$this.0.unreadable);
        $this.ready().await?;
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let $tables = Tables { session, client: transaction.client(), vault, unreadable };
            let changed: Result<_, Fault> = async { $work }.await;
            transaction.end(changed).await
        })
    }};
}

/// Reads, and again if the server cannot be reached.
macro_rules! look {
    ($this:expr, $tables:ident => $work:expr) => {{
        let (session, vault, unreadable) = (&$this.0.session, &$this.0.vault, &$this.0.unreadable);
        $this.ready().await?;
        retrying!(session, client => {
            let $tables = Tables { session, client: &client, vault, unreadable };
            $work
        })
    }};
}
use look;

impl Postgres {
    /// Lets something happen to a thread, and stores what has changed. None for what it came to if only the answer of an
    /// earlier attempt was lost.
    async fn change_thread<T: Send>(
        &self,
        thread: &str,
        work: impl Fn(&mut Queue, SystemTime) -> Result<T, RunsError> + Send + Sync,
    ) -> Result<(Option<T>, ThreadRow), RunsError> {
        let decide = |seen: &Seen| {
            let mut queue = seen.queue().ok_or_else(|| no_thread(thread))?;
            let result = work(&mut queue, seen.now)?;
            Ok(Some((queue, result)))
        };
        let changed = self.change(Asked::of(thread), decide).await?;
        self.ring(thread, true);
        match changed {
            Changed::Stored { result, thread, .. } => Ok((Some(result), *thread)),
            Changed::Before(seen) => seen.thread.map(|(found, _)| (None, found)).ok_or_else(|| no_thread(thread)),
            Changed::Nothing | Changed::Refused(_) => Err(no_thread(thread)),
        }
    }

    /// Tells who waits that a thread has changed, and whether there may be a run to claim.
    fn ring(&self, thread: &str, runs: bool) {
        if runs {
            self.0.bell.ring_thread(thread);
            self.0.bell.ring_runs();
        } else {
            self.0.bell.ring_events(thread);
        }
        self.tell(thread, runs);
    }

    /// Deletes the threads whose time has passed.
    pub(super) async fn sweep_runs(&self) -> Result<u64, SaverError> {
        let mut count = 0;
        loop {
            let expired = look!(self, tables => tables.expired().await)?;
            in_transaction!(self, tables => tables.remove(&expired).await)?;
            count += expired.len();
            if expired.len() < EXPIRED {
                return Ok(count as u64);
            }
        }
    }
}

fn refused(answer: &Answer, thread: &str, document: Option<&Document>) -> RunsError {
    match (answer, document) {
        (Answer::Stale, Some(document)) => RunsError::Stale { kind: document.kind.clone(), id: document.id.clone() },
        (Answer::Lacks(channel, version), _) => {
            SaverError::Gone { thread: thread.to_owned(), channel: channel.clone(), version: *version }.into()
        }
        _ => superseded(thread),
    }
}

async fn clone_thread(tables: &Tables<'_>, from: &str, to: &NewThread) -> Decided<ThreadRow> {
    let Some(source) = tables.thread(from, true).await? else { return Ok(Err(no_thread(from))) };
    let row = source.copy_to(to.clone(), tables.now().await?);
    if !tables.make_thread(&row).await? {
        return Ok(Err(RunsError::Exists { kind: "thread", id: row.id }));
    }
    let change = Change { session: tables.session, client: tables.client, vault: tables.vault };
    change.copy_thread(from, &row.id).await?;
    Ok(Ok(row))
}

#[async_trait]
impl RunStore for Postgres {
    async fn create_thread(&self, thread: NewThread) -> Result<ThreadRow, RunsError> {
        check_thread(&thread.id)?;
        let id = thread.id.clone();
        let made = in_transaction!(self, tables => {
            let row = ThreadRow::new(thread.clone(), tables.now().await?);
            Ok(tables.make_thread(&row).await?.then_some(row))
        })?;
        match made {
            Some(row) => Ok(row),
            None if thread.if_exists == IfExists::Raise => Err(RunsError::Exists { kind: "thread", id }),
            None => self.thread(&id).await?.ok_or_else(|| no_thread(&id)),
        }
    }

    async fn thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        Ok(look!(self, tables => tables.thread(id, true).await)?)
    }

    async fn update_thread(&self, id: &str, patch: ThreadPatch) -> Result<ThreadRow, RunsError> {
        let (_, row) = self.change_thread(id, |queue, now| queue.patch(patch.clone(), now)).await?;
        Ok(self.thread(id).await?.unwrap_or(row))
    }

    async fn search_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        Ok(look!(self, tables => tables.search(&query).await)?)
    }

    async fn count_threads(&self, mut query: ThreadQuery) -> Result<u64, RunsError> {
        (query.limit, query.offset, query.with_values) = (usize::MAX, 0, false);
        Ok(self.search_threads(query).await?.len() as u64)
    }

    async fn remove_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        let thread = [id.to_owned()];
        let removed = in_transaction!(self, tables => {
            // Without a condition, a thread that cannot be read is deleted, too.
            if !is.is_any() && !tables.hold_if(id, &is).await? {
                return Ok(None);
            }
            tables.remove(&thread).await.map(Some)
        })?;
        let Some(removed) = removed else { return Ok(false) };
        self.0.conversations.forget(id);
        self.0.released.notify_waiters();
        self.ring(id, true);
        Ok(removed > 0)
    }

    async fn clone_thread(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
        check_thread(&to.id)?;
        in_transaction!(self, tables => clone_thread(&tables, from, &to).await)?
    }

    async fn create_run(&self, run: NewRun) -> Result<Run, RunsError> {
        let made = self.add(&run, None).await?;
        Ok(made.ok_or_else(|| no_thread(&run.thread))?.0)
    }

    async fn create_claimed(&self, mut run: NewRun, asked: RunClaim) -> Result<(Run, Option<Claimed>), RunsError> {
        run.id.get_or_insert_with(Uuid::new_v4);
        match self.add(&run, Some(&asked)).await? {
            Some(made) => Ok(made),
            // Somebody has claimed the thread meanwhile: the run waits for its turn.
            None => Ok((self.create_run(run).await?, None)),
        }
    }

    async fn run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        Ok(look!(self, tables => tables.run(id).await)?)
    }

    async fn runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        Ok(look!(self, tables => tables.runs(&query).await)?)
    }

    async fn remove_run(&self, id: Uuid) -> Result<bool, RunsError> {
        in_transaction!(self, tables => {
            // Whoever ends it holds its row.
            let found = tables.query("select ended from {s}.runs where id = $1 for update", &[(&id, Type::UUID)]).await?;
            match found.first().map(|row| row.try_get::<_, Option<i64>>(0)).transpose()? {
                None => Ok(Ok(false)),
                Some(None) => Ok(Err(RunsError::Live { run: id })),
                Some(Some(_)) => {
                    tables.query("delete from {s}.runs where id = $1", &[(&id, Type::UUID)]).await?;
                    Ok(Ok(true))
                }
            }
        })?
    }

    async fn cancel_runs_if(
        &self,
        thread: &str,
        is: ThreadIs,
        runs: &[Uuid],
        action: Cancel,
    ) -> Result<Vec<Run>, RunsError> {
        let (cancelled, _) = self.change_thread(thread, |queue, now| queue.cancel_if(&is, runs, action, now)).await?;
        if let Some(cancelled) = cancelled {
            return Ok(cancelled);
        }
        // As they are now: what they were is not known any more.
        let mut query = RunQuery::thread(thread);
        query.limit = usize::MAX;
        Ok(self.runs(query).await?.into_iter().filter(|run| runs.contains(&run.id)).collect())
    }

    async fn post_if(&self, thread: &str, is: ThreadIs, graph: &str, letter: Letter) -> Result<bool, RunsError> {
        check_thread(thread)?;
        Ok(self.post_letter(thread, Some(&is), graph, &letter).await?)
    }

    async fn claim_run(&self, asked: RunClaim) -> Result<Option<Claimed>, RunsError> {
        Ok(self.claim_runs(asked, 1).await?.pop())
    }

    async fn claim_runs(&self, asked: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        if most == 0 {
            return Ok(Vec::new());
        }
        loop {
            let waiting = look!(self, tables => tables.waiting(asked.graphs.as_deref(), most).await)?;
            let (claimed, passes) = self.claim_of_those(waiting, &asked, most).await?;
            for claimed in &claimed {
                self.ring(&claimed.run.thread, false);
            }
            // In the place of those that are passed over are now those that come after them.
            if !claimed.is_empty() || !passes {
                return Ok(claimed);
            }
        }
    }

    async fn record(&self, lease: &Lease, mut settlement: Settlement) -> Result<u64, RunsError> {
        settlement.records.iter().try_for_each(check)?;
        self.ready().await?;
        let (thread, ended) = (&*lease.thread, settlement.end.as_ref().map(|end| end.run));
        let ends = ended.is_some();
        let mut batch = Batch::of(&self.0.vault, &self.0.latest, &lease.thread, settlement.records.clone())?;
        batch.settle();
        let batch = Arc::new(batch);
        // That there are some is all that is asked of them further on.
        settlement.records.truncate(1);
        let decide = |seen: &Seen| {
            let mut queue = seen.queue().ok_or_else(|| no_thread(thread))?;
            queue.settle(&mut settlement.clone(), seen.now)?;
            let row = ended.and_then(|run| queue.ended(run)).cloned();
            Ok(Some((queue, row)))
        };
        let also = Some(settlement.also.clone()).filter(|also| !also.is_empty());
        let beside =
            Beside { lease: Some(lease), ends, records: Some(&batch), also: also.as_ref(), ..Beside::default() };
        let known = self.0.known.take(thread);
        let (last, more, row) = match self.change(Asked { beside, known, ..Asked::of(thread) }, decide).await? {
            Changed::Stored { thread, result, .. } => (thread.last_event, thread.status == ThreadStatus::Busy, result),
            Changed::Before(seen) => (seen.thread.map_or(0, |(thread, _)| thread.last_event), true, None),
            Changed::Refused(answer) => return Err(refused(&answer, thread, None)),
            Changed::Nothing => return Err(superseded(thread)),
        };
        if ends {
            self.0.known.take(thread);
            self.0.released.notify_waiters();
            match row {
                Some(row) => self.0.bell.ring_ended(row),
                None => self.0.bell.ring_thread(thread),
            }
            if more {
                self.0.bell.ring_runs();
            }
            self.tell(thread, true);
        } else {
            self.ring(thread, false);
        }
        Ok(last)
    }

    async fn hand_back(&self, lease: &Lease, run: Uuid) -> Result<(), RunsError> {
        let thread = &*lease.thread;
        let decide = |seen: &Seen| {
            let mut queue = seen.queue().ok_or_else(|| no_thread(thread))?;
            queue.hand_back(run, seen.now);
            Ok(Some((queue, ())))
        };
        let beside = Beside { lease: Some(lease), ends: true, ..Beside::default() };
        if let Changed::Refused(answer) = self.change(Asked { beside, ..Asked::of(thread) }, decide).await? {
            return Err(refused(&answer, thread, None));
        }
        self.0.known.take(thread);
        self.0.released.notify_waiters();
        self.ring(thread, true);
        Ok(())
    }

    async fn events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        look!(self, tables => tables.events(&query).await)?.ok_or_else(|| no_thread(&query.thread))
    }

    async fn prune_runs(&self, older_than: Duration) -> Result<(u64, u64), RunsError> {
        let now = look!(self, tables => tables.now().await)?;
        let cutoff = now.checked_sub(older_than).map_or(0, micros);
        let mut events = 0;
        for thread in look!(self, tables => tables.with_old_events(cutoff).await)? {
            match in_transaction!(self, tables => tables.prune_events(&thread, cutoff).await) {
                Ok(count) => events += count,
                // What its row says of its events cannot be set right: they stay.
                Err(error @ SaverError::Damaged { .. }) => self.0.unreadable.tell(&error),
                Err(error) => return Err(error.into()),
            }
        }
        Ok((events, in_transaction!(self, tables => tables.prune_runs(cutoff).await)?))
    }

    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        self.ready().await?;
        Ok(self.shared_document(kind, id).await?)
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        Ok(look!(self, tables => tables.documents(kind).await)?)
    }

    async fn documents_due(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        Ok(look!(self, tables => tables.documents_due(kind, micros(by)).await)?)
    }

    async fn put_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        Ok(look!(self, tables => tables.put_document(&document, replaces).await)?)
    }

    async fn remove_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        Ok(look!(self, tables => tables.remove_document(kind, id).await)?)
    }

    /// Also rung by what other processes do, from the first call in a tokio runtime on: that opens one more connection. Through
    /// a pooler that gives each transaction another connection nothing is heard of them.
    fn bell(&self) -> &Bell {
        let inner = &self.0;
        if inner.ear.get().is_none()
            && let Some(ear) = Ear::open(inner.session.line.clone(), &inner.session, inner.bell.clone())
        {
            // Of two that come at once, one is dropped.
            let _ = inner.ear.set(ear);
        }
        &inner.bell
    }

    fn as_checkpointer(self: Arc<Self>) -> Arc<dyn Checkpointer> {
        self
    }
}
