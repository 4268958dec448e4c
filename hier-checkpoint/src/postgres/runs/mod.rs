//! Runs in Postgres, beside the checkpoints.

pub(super) mod listen;
pub(super) mod tables;
mod upkeep;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::async_trait;
use hier_core::checkpoint::{Checkpointer, Lease, check};
use hier_core::runs::{
    Bell, Cancel, Claimed, Document, EventPage, EventQuery, IfExists, NewRun, NewThread, Queue, Run, RunClaim,
    RunQuery, RunStore, RunsError, Settlement, ThreadPatch, ThreadQuery, ThreadRow,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::delete::Change;
use super::fault::Fault;
use super::lease::millis;
use super::mail::Mailbox;
use super::session::{Session, Transaction, first, retrying};
use super::store::{Owner, Stored, store};
use super::text::{claimed_by, escape};
use crate::rows::Batch;
use crate::run_rows::{micros, no_thread, superseded};
use listen::Ear;
use tables::{Loaded, Tables};

/// What comes of something that may be refused. A refusal is no fault: nothing was changed before it.
type Decided<T> = Result<Result<T, RunsError>, Fault>;

/// The channel on which processes tell each other of changes.
pub(super) fn channel(session: &Session) -> String {
    format!("hier_runs_{}", session.statements.schema.trim_matches('"'))
}

/// Does something with the tables of the runs in a transaction, and again if the server cannot be reached.
macro_rules! in_transaction {
    ($this:expr, $tables:ident => $work:expr) => {{
        let (session, vault) = (&$this.0.session, &$this.0.vault);
        $this.ready().await?;
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let $tables = Tables { session, client: transaction.client(), vault };
            let changed: Result<_, Fault> = async { $work }.await;
            transaction.end(changed).await
        })
    }};
}

/// Reads, and again if the server cannot be reached.
macro_rules! look {
    ($this:expr, $tables:ident => $work:expr) => {{
        let (session, vault) = (&$this.0.session, &$this.0.vault);
        $this.ready().await?;
        retrying!(session, client => {
            let $tables = Tables { session, client: &client, vault };
            $work
        })
    }};
}

impl Postgres {
    /// Lets something happen to a thread, and stores what has changed. None for what it came to if only the answer of an
    /// earlier attempt was lost.
    async fn change_thread<T: Send>(
        &self,
        thread: &str,
        work: impl Fn(&mut Queue, SystemTime) -> Result<T, RunsError> + Send + Sync,
    ) -> Result<(Option<T>, ThreadRow), RunsError> {
        let op = Uuid::new_v4();
        let changed: Result<(Option<T>, ThreadRow), RunsError> = in_transaction!(self, tables => {
            let Some(Loaded { mut queue, now, is_done }) = tables.load(thread, op).await? else {
                return Ok(Err(no_thread(thread)));
            };
            if is_done {
                return Ok(Ok((None, queue.thread().clone())));
            }
            match work(&mut queue, now) {
                Ok(result) => Ok(Ok((Some(result), tables.store(queue, op, now).await?))),
                Err(error) => Ok(Err(error)),
            }
        })?;
        self.ring(thread);
        changed
    }

    fn ring(&self, thread: &str) {
        self.0.bell.ring_thread(thread);
        self.0.bell.ring_runs();
    }

    /// Deletes the threads whose time has passed.
    pub(super) async fn sweep_runs(&self) -> Result<u64, hier_core::checkpoint::SaverError> {
        let expired = look!(self, tables => tables.expired().await)?;
        for thread in &expired {
            in_transaction!(self, tables => tables.remove(thread).await)?;
        }
        Ok(expired.len() as u64)
    }
}

/// Whether the lease is still held: neither taken over nor released. Until the end of the transaction it stays so.
async fn is_held(tables: &Tables<'_>, lease: &Lease) -> Result<bool, Fault> {
    let (name, token) = (escape(&lease.thread), i64::try_from(lease.token).unwrap_or(-1));
    let sql = "select 1 from {s}.threads where name = $1 and token = $2 and holder is not null for no key update";
    Ok(!tables.query(sql, &[(&name, Type::TEXT), (&token, Type::INT8)]).await?.is_empty())
}

async fn release(tables: &Tables<'_>, lease: &Lease) -> Result<(), Fault> {
    let (name, token) = (escape(&lease.thread), i64::try_from(lease.token).unwrap_or(-1));
    let release = &tables.session.statements.release;
    tables.session.query(tables.client, release, &[(&name, Type::TEXT), (&token, Type::INT8)]).await.map(|_| ())
}

async fn create_run(tables: &Tables<'_>, run: &NewRun, id: Uuid, op: Uuid) -> Decided<Run> {
    let mut loaded = tables.load(&run.thread, op).await?;
    if let Some(found) = tables.run(id).await? {
        let is_mine = loaded.is_some_and(|loaded| loaded.is_done);
        return Ok(if is_mine { Ok(found) } else { Err(RunsError::Exists { kind: "run", id: id.to_string() }) });
    }
    if let Some(document) = &run.document
        && !tables.hold_document(document).await?
    {
        return Ok(Err(RunsError::Stale { kind: document.kind.clone(), id: document.id.clone() }));
    }
    if loaded.is_none() {
        match Queue::thread_for(run, tables.now().await?) {
            Ok(thread) => tables.make_thread(&thread).await?,
            Err(error) => return Ok(Err(error)),
        };
        loaded = tables.load(&run.thread, op).await?;
    }
    let Some(Loaded { mut queue, now, .. }) = loaded else { return Ok(Err(no_thread(&run.thread))) };
    let mut new = run.clone();
    new.id = Some(id);
    match queue.add(new, tables.next_number().await?, now) {
        Ok(added) => {
            if let Some(document) = &run.document {
                tables.put_document(document, Some(document.revision)).await?;
            }
            tables.store(queue, op, now).await?;
            Ok(Ok(added))
        }
        Err(error) => Ok(Err(error)),
    }
}

/// Claims a run of this thread, if that can be done now.
async fn claim(tables: &Tables<'_>, thread: &str, asked: &RunClaim, op: Uuid) -> Result<Option<Claimed>, Fault> {
    let graphs = asked.graphs.as_deref();
    let Some(Loaded { mut queue, now, .. }) = tables.load_if_free(thread, op).await? else { return Ok(None) };
    if queue.head(graphs, now).is_none() {
        return Ok(None);
    }
    let (name, holder, lasts) = (escape(thread), claimed_by(&asked.holder), millis(asked.lasts));
    let (lives, take_over) = (None::<i64>, false);
    let with = [
        (&name as _, Type::TEXT),
        (&holder as _, Type::TEXT),
        (&lasts as _, Type::INT8),
        (&lives as _, Type::INT8),
        (&take_over as _, Type::BOOL),
    ];
    let claimed = tables.session.query(tables.client, &tables.session.statements.claim, &with).await?;
    if claimed.is_empty() {
        return Ok(None);
    }
    let token = u64::try_from(first::<i64>(&claimed)?).unwrap_or_default();
    let Some(run) = queue.start(graphs, now) else { return Ok(None) };
    tables.store(queue, op, now).await?;
    Ok(Some(Claimed::new(run, Lease::new(thread, token, asked.lasts))))
}

async fn record(
    tables: &Tables<'_>,
    lease: &Lease,
    mut settlement: Settlement,
    batch: &Batch,
    op: Uuid,
) -> Decided<u64> {
    let Some(Loaded { mut queue, now, is_done }) = tables.load(&lease.thread, op).await? else {
        return Ok(Err(no_thread(&lease.thread)));
    };
    if is_done {
        return Ok(Ok(queue.thread().last_event));
    }
    if !is_held(tables, lease).await? {
        return Ok(Err(superseded(&lease.thread)));
    }
    let ends = settlement.end.is_some();
    if let Err(error) = queue.settle(&mut settlement, now) {
        return Ok(Err(error));
    }
    if !settlement.records.is_empty() {
        let owner = Owner::Held(&lease.thread, lease.token);
        match store(tables.session, tables.client, &owner, batch).await? {
            Stored::Done => {}
            Stored::NotHeld => return Ok(Err(superseded(&lease.thread))),
            Stored::Lacks(channel, version) => {
                let (thread, channel) = (lease.thread.to_string(), channel.to_string());
                return Ok(Err(hier_core::checkpoint::SaverError::Gone { thread, channel, version }.into()));
            }
        }
    }
    let mailbox = Mailbox { session: tables.session, client: tables.client, thread: &lease.thread };
    mailbox.change(&settlement.also, op).await?;
    let thread = tables.store(queue, op, now).await?;
    if ends {
        release(tables, lease).await?;
    }
    Ok(Ok(thread.last_event))
}

async fn hand_back(tables: &Tables<'_>, lease: &Lease, run: Uuid, op: Uuid) -> Decided<()> {
    let Some(Loaded { mut queue, now, is_done }) = tables.load(&lease.thread, op).await? else {
        return Ok(Err(no_thread(&lease.thread)));
    };
    if is_done {
        return Ok(Ok(()));
    }
    if !is_held(tables, lease).await? {
        return Ok(Err(superseded(&lease.thread)));
    }
    queue.hand_back(run, now);
    tables.store(queue, op, now).await?;
    release(tables, lease).await?;
    Ok(Ok(()))
}

async fn clone_thread(tables: &Tables<'_>, from: &str, to: &str) -> Decided<ThreadRow> {
    let Some(source) = tables.thread(from, true).await? else { return Ok(Err(no_thread(from))) };
    let row = source.copy_to(to, tables.now().await?);
    if !tables.make_thread(&row).await? {
        return Ok(Err(RunsError::Exists { kind: "thread", id: to.to_owned() }));
    }
    let change = Change { session: tables.session, client: tables.client, vault: tables.vault };
    change.copy_thread(from, to).await?;
    Ok(Ok(row))
}

#[async_trait]
impl RunStore for Postgres {
    async fn create_thread(&self, thread: NewThread) -> Result<ThreadRow, RunsError> {
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
        let work = |queue: &mut Queue, now| {
            queue.patch(patch.clone(), now);
            Ok(())
        };
        let (_, row) = self.change_thread(id, work).await?;
        Ok(self.thread(id).await?.unwrap_or(row))
    }

    async fn search_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        Ok(look!(self, tables => tables.search(&query).await)?)
    }

    async fn count_threads(&self, mut query: ThreadQuery) -> Result<u64, RunsError> {
        (query.limit, query.offset, query.with_values) = (usize::MAX, 0, false);
        Ok(self.search_threads(query).await?.len() as u64)
    }

    async fn remove_thread(&self, id: &str) -> Result<bool, RunsError> {
        let removed = in_transaction!(self, tables => tables.remove(id).await)?;
        self.0.released.notify_waiters();
        self.ring(id);
        Ok(removed)
    }

    async fn clone_thread(&self, from: &str, to: &str) -> Result<ThreadRow, RunsError> {
        in_transaction!(self, tables => clone_thread(&tables, from, to).await)?
    }

    async fn create_run(&self, run: NewRun) -> Result<Run, RunsError> {
        // One id for all attempts, so that it is added once.
        let (id, op) = (run.id.unwrap_or_else(Uuid::new_v4), Uuid::new_v4());
        let made = in_transaction!(self, tables => create_run(&tables, &run, id, op).await)?;
        self.ring(&run.thread);
        made
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

    async fn cancel_runs(&self, thread: &str, runs: &[Uuid], action: Cancel) -> Result<Vec<Run>, RunsError> {
        let (cancelled, _) = self.change_thread(thread, |queue, now| Ok(queue.cancel(runs, action, now))).await?;
        if let Some(cancelled) = cancelled {
            return Ok(cancelled);
        }
        // As they are now: what they were is not known any more.
        let mut query = RunQuery::thread(thread);
        query.limit = usize::MAX;
        Ok(self.runs(query).await?.into_iter().filter(|run| runs.contains(&run.id)).collect())
    }

    async fn claim_run(&self, asked: RunClaim) -> Result<Option<Claimed>, RunsError> {
        // Looked at first without a transaction: most that look find nothing.
        for thread in look!(self, tables => tables.ready(asked.graphs.as_deref()).await)? {
            let op = Uuid::new_v4();
            let claimed = in_transaction!(self, tables => claim(&tables, &thread, &asked, op).await)?;
            if claimed.is_some() {
                self.0.bell.ring_thread(&thread);
                return Ok(claimed);
            }
        }
        Ok(None)
    }

    async fn record(&self, lease: &Lease, mut settlement: Settlement) -> Result<u64, RunsError> {
        settlement.records.iter().try_for_each(check)?;
        self.ready().await?;
        let (op, ends) = (Uuid::new_v4(), settlement.end.is_some());
        let mut batch = Batch::of(&self.0.vault, &lease.thread, settlement.records.clone())?;
        batch.settle();
        // That there are some is all that is asked of them further on.
        settlement.records.truncate(1);
        let last = in_transaction!(self, tables => record(&tables, lease, settlement.clone(), &batch, op).await)??;
        self.0.bell.ring_thread(&lease.thread);
        if ends {
            self.0.released.notify_waiters();
            self.0.bell.ring_runs();
        }
        Ok(last)
    }

    async fn hand_back(&self, lease: &Lease, run: Uuid) -> Result<(), RunsError> {
        let op = Uuid::new_v4();
        in_transaction!(self, tables => hand_back(&tables, lease, run, op).await)??;
        self.0.released.notify_waiters();
        self.ring(&lease.thread);
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
            events += in_transaction!(self, tables => tables.prune_events(&thread, cutoff).await)?;
        }
        Ok((events, in_transaction!(self, tables => tables.prune_runs(cutoff).await)?))
    }

    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        Ok(look!(self, tables => tables.documents(kind, Some(id)).await)?.pop())
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        Ok(look!(self, tables => tables.documents(kind, None).await)?)
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
            && let Some(ear) = Ear::open(inner.session.line.clone(), channel(&inner.session), inner.bell.clone())
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
