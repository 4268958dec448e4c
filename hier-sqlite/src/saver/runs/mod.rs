//! Runs in a SQLite file, beside the checkpoints.

mod claims;
mod documents;
mod mail;
#[cfg(feature = "encryption")]
pub(super) mod reencrypt;
pub(super) mod tables;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::{Checkpointer, Lease, Letter, check, check_thread};
use hier_checkpoint::runs::{
    Bell, Cancel, Claimed, Document, EventPage, EventQuery, IfExists, NewRun, NewThread, Queue, Run, RunClaim,
    RunQuery, RunStore, RunsError, Settlement, ThreadIs, ThreadPatch, ThreadQuery, ThreadRow, ThreadStatus,
};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::fault::Fault;
use super::writer::Work;
use super::{SHORT_BYTES, Sqlite, delete, lease, store};
pub(super) use claims::Recovery;
use claims::{claim, claim_added};
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::backend::run_rows::{no_thread, superseded};
use tables::Tables;

/// What comes of something that may be refused. A refusal is no fault: nothing was changed before it.
type Decided<T> = Result<Result<T, RunsError>, Fault>;

impl Sqlite {
    /// Does something with the tables of the runs, in a transaction.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(Tables<'_>, SystemTime) -> Decided<T> + Send + 'static,
    ) -> Result<T, RunsError> {
        let (vault, unreadable) = (self.0.vault.clone(), self.0.unreadable.clone());
        let run = move |connection: &Connection| {
            work(Tables { connection, vault: &vault, unreadable: &unreadable, longest: usize::MAX }, SystemTime::now())
        };
        self.0.writer.submit(Work::Short, run).await?
    }

    /// Lets something happen to a thread, and stores what has changed.
    async fn change_thread<T: Send + 'static>(
        &self,
        thread: &str,
        work: impl FnOnce(&mut Queue, SystemTime) -> Result<T, RunsError> + Send + 'static,
    ) -> Result<(T, ThreadRow), RunsError> {
        let name = thread.to_owned();
        let changed = self
            .change(move |tables, now| {
                let Some(mut queue) = tables.queue(&name)? else { return Ok(Err(no_thread(&name))) };
                let result = match work(&mut queue, now) {
                    Ok(result) => result,
                    Err(error) => return Ok(Err(error)),
                };
                Ok(Ok((result, tables.store(queue, now)?)))
            })
            .await?;
        self.ring(thread);
        Ok(changed)
    }

    async fn add(&self, run: NewRun, claim: Option<RunClaim>) -> Result<(Run, Option<Claimed>), RunsError> {
        let strategy = run.multitask_strategy;
        let made = self.change(move |tables, now| create_run(tables, run, claim.as_ref(), now)).await?;
        self.0.bell.ring_added(&made.0.thread, strategy);
        if made.1.is_none() {
            self.0.bell.ring_runs();
        }
        Ok(made)
    }

    fn ring(&self, thread: &str) {
        self.0.bell.ring_thread(thread);
        self.0.bell.ring_runs();
    }

    async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(Tables<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, RunsError> {
        let (vault, unreadable) = (self.0.vault.clone(), self.0.unreadable.clone());
        let read = move |connection: &Connection| {
            work(Tables { connection, vault: &vault, unreadable: &unreadable, longest: usize::MAX })
        };
        Ok(self.read(read).await?)
    }

    /// Reads a row, at once if it is short. One statement, so that it needs no transaction.
    async fn look_at<T: Send + 'static>(
        &self,
        work: impl Fn(Tables<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, RunsError> {
        let (vault, unreadable) = (&self.0.vault, &*self.0.unreadable);
        let read = |connection: &Connection| work(Tables { connection, vault, unreadable, longest: SHORT_BYTES });
        match self.read_short(read) {
            Some(found) => Ok(found?),
            None => self.look(work).await,
        }
    }
}

/// Refuses a lease that was taken over or released.
fn check_held(connection: &Connection, lease: &Lease) -> Result<bool, Fault> {
    let sql = "select 1 from threads where name = ? and token = ? and holder is not null";
    let token = i64::try_from(lease.token).unwrap_or(-1);
    Ok(connection.prepare_cached(sql)?.exists(params![&*lease.thread, token])?)
}

/// Adds a run, and claims it if that is asked for and can be done now.
fn create_run(
    tables: Tables<'_>,
    run: NewRun,
    asked: Option<&RunClaim>,
    now: SystemTime,
) -> Decided<(Run, Option<Claimed>)> {
    if let Some(id) = run.id
        && tables.run(id)?.is_some()
    {
        return Ok(Err(RunsError::Exists { kind: "run", id: id.to_string() }));
    }
    let mut queue = match tables.queue(&run.thread)? {
        Some(queue) => queue,
        None => match Queue::thread_for(&run, now) {
            Ok(thread) => Queue::new(thread, Vec::new()),
            Err(error) => return Ok(Err(error)),
        },
    };
    let document = run.document.clone();
    match queue.add(run, tables.next_number()?, now) {
        Ok(run) => {
            if let Some(document) = document
                && !tables.put_document(&document, Some(document.revision))?
            {
                return Ok(Err(RunsError::Stale { kind: document.kind, id: document.id }));
            }
            let claimed = match asked {
                Some(asked) => claim_added(tables, &mut queue, run.id, asked, now)?,
                None => None,
            };
            tables.store(queue, now)?;
            Ok(Ok((run, claimed)))
        }
        Err(error) => Ok(Err(error)),
    }
}

fn record(
    tables: Tables<'_>,
    lease: &Lease,
    mut settlement: Settlement,
    batch: &Batch,
    now: SystemTime,
) -> Decided<(ThreadRow, Option<Run>)> {
    if !check_held(tables.connection, lease)? {
        return Ok(Err(superseded(&lease.thread)));
    }
    let Some(mut queue) = tables.queue(&lease.thread)? else { return Ok(Err(no_thread(&lease.thread))) };
    let ends = settlement.end.as_ref().map(|end| end.run);
    if let Err(error) = queue.settle(&mut settlement, now) {
        return Ok(Err(error));
    }
    store::commit(tables.connection, &lease.thread, lease.token, batch, &settlement.also)?;
    let ended = ends.and_then(|run| queue.ended(run)).cloned();
    let thread = tables.store(queue, now)?;
    if ends.is_some() {
        lease::release(tables.connection, lease)?;
    }
    Ok(Ok((thread, ended)))
}

#[async_trait]
impl RunStore for Sqlite {
    async fn create_thread(&self, thread: NewThread) -> Result<ThreadRow, RunsError> {
        check_thread(&thread.id)?;
        self.change(move |tables, now| {
            if let Some(found) = tables.thread(&thread.id, true)? {
                let lenient = thread.if_exists == IfExists::DoNothing;
                return Ok(if lenient { Ok(found) } else { Err(RunsError::Exists { kind: "thread", id: thread.id }) });
            }
            let row = ThreadRow::new(thread, now);
            tables.put_thread(&row, None)?;
            Ok(Ok(row))
        })
        .await
    }

    async fn thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        let id = id.to_owned();
        self.look_at(move |tables| tables.thread(&id, true)).await
    }

    async fn update_thread(&self, id: &str, patch: ThreadPatch) -> Result<ThreadRow, RunsError> {
        let ((), row) = self.change_thread(id, move |queue, now| queue.patch(patch, now)).await?;
        Ok(self.thread(id).await?.unwrap_or(row))
    }

    async fn search_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        self.look(move |tables| tables.search(&query)).await
    }

    async fn count_threads(&self, mut query: ThreadQuery) -> Result<u64, RunsError> {
        (query.limit, query.offset, query.with_values) = (usize::MAX, 0, false);
        self.look(move |tables| Ok(tables.search(&query)?.len() as u64)).await
    }

    async fn remove_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        let name = id.to_owned();
        let removed = self
            .change(move |tables, _| {
                // Without a condition, a thread that cannot be read is deleted, too.
                if !is.is_any() && !tables.thread(&name, false)?.is_some_and(|row| is.is(&row)) {
                    return Ok(Ok(false));
                }
                let removed = tables::remove(tables.connection, &name)?;
                delete::delete_thread(tables.connection, &name)?;
                Ok(Ok(removed))
            })
            .await;
        self.0.conversations.forget(id);
        self.0.released.notify_waiters();
        self.ring(id);
        removed
    }

    async fn clone_thread(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
        check_thread(&to.id)?;
        let from = from.to_owned();
        self.change(move |tables, now| {
            if tables.thread(&to.id, false)?.is_some() {
                return Ok(Err(RunsError::Exists { kind: "thread", id: to.id }));
            }
            let Some(source) = tables.thread(&from, true)? else { return Ok(Err(no_thread(&from))) };
            let row = source.copy_to(to, now);
            delete::copy_thread(tables.connection, tables.vault, &from, &row.id)?;
            tables.put_thread(&row, None)?;
            Ok(Ok(row))
        })
        .await
    }

    async fn create_run(&self, run: NewRun) -> Result<Run, RunsError> {
        Ok(self.add(run, None).await?.0)
    }

    async fn create_claimed(&self, run: NewRun, claim: RunClaim) -> Result<(Run, Option<Claimed>), RunsError> {
        self.add(run, Some(claim)).await
    }

    async fn run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        self.look_at(move |tables| tables.run(id)).await
    }

    async fn runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        self.look(move |tables| tables.runs(&query)).await
    }

    async fn remove_run(&self, id: Uuid) -> Result<bool, RunsError> {
        self.change(move |tables, _| {
            // Does not read the body, which may be unreadable.
            let mut ended = tables.connection.prepare_cached("select ended from runs where id = ?")?;
            match ended.query_row([id.as_bytes()], |row| row.get::<_, Option<i64>>(0)).optional()? {
                Some(None) => Ok(Err(RunsError::Live { run: id })),
                found => {
                    tables.connection.prepare_cached("delete from runs where id = ?")?.execute([id.as_bytes()])?;
                    Ok(Ok(found.is_some()))
                }
            }
        })
        .await
    }

    async fn cancel_runs_if(
        &self,
        thread: &str,
        is: ThreadIs,
        runs: &[Uuid],
        action: Cancel,
    ) -> Result<Vec<Run>, RunsError> {
        let runs = runs.to_vec();
        Ok(self.change_thread(thread, move |queue, now| queue.cancel_if(&is, &runs, action, now)).await?.0)
    }

    async fn post_if(&self, thread: &str, is: ThreadIs, graph: &str, letter: Letter) -> Result<bool, RunsError> {
        Ok(self.post_letter(thread, Some(is), graph, letter).await?)
    }

    async fn claim_run(&self, asked: RunClaim) -> Result<Option<Claimed>, RunsError> {
        Ok(self.claim_runs(asked, 1).await?.pop())
    }

    async fn claim_runs(&self, asked: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        // Looked at first without a transaction: most that look find nothing.
        let graphs = asked.graphs.clone();
        let lost = self.0.recovery.is_due(asked.graphs.as_deref());
        let is_ready =
            move |tables: Tables<'_>| Ok(!tables.ready(graphs.as_deref(), SystemTime::now(), 1, lost)?.is_empty());
        if most == 0 || !self.look_at(is_ready).await? {
            return Ok(Vec::new());
        }
        let claimed = self.change(move |tables, now| claim(tables, (&asked, most, lost), now)).await?;
        for claimed in &claimed {
            self.0.bell.ring_events(&claimed.run.thread);
        }
        Ok(claimed)
    }

    async fn record(&self, lease: &Lease, mut settlement: Settlement) -> Result<u64, RunsError> {
        settlement.records.iter().try_for_each(check)?;
        let enters = settlement.records.clone();
        let batch = Batch::of(&self.0.vault, &self.0.latest, &lease.thread, enters)?;
        let ends = settlement.end.is_some();
        let own = lease.clone();
        settlement.records.truncate(1);
        let (row, ended) = self.change(move |tables, now| record(tables, &own, settlement, &batch, now)).await?;
        if ends {
            self.0.released.notify_waiters();
            match ended {
                Some(run) => self.0.bell.ring_ended(run),
                None => self.0.bell.ring_thread(&lease.thread),
            }
            if row.status == ThreadStatus::Busy {
                self.0.bell.ring_runs();
            }
        } else {
            self.0.bell.ring_events(&lease.thread);
        }
        Ok(row.last_event)
    }

    async fn hand_back(&self, lease: &Lease, run: Uuid) -> Result<(), RunsError> {
        let own = lease.clone();
        self.change(move |tables, now| {
            if !check_held(tables.connection, &own)? {
                return Ok(Err(superseded(&own.thread)));
            }
            let Some(mut queue) = tables.queue(&own.thread)? else { return Ok(Err(no_thread(&own.thread))) };
            queue.hand_back(run, now);
            tables.store(queue, now)?;
            lease::release(tables.connection, &own)?;
            Ok(Ok(()))
        })
        .await?;
        self.0.released.notify_waiters();
        self.ring(&lease.thread);
        Ok(())
    }

    async fn events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        let thread = query.thread.clone();
        self.look(move |tables| tables.events(&query)).await?.ok_or_else(|| no_thread(&thread))
    }

    async fn prune_runs(&self, older_than: Duration) -> Result<(u64, u64), RunsError> {
        let cutoff = SystemTime::now().checked_sub(older_than).unwrap_or(SystemTime::UNIX_EPOCH);
        self.change(move |tables, _| Ok(Ok(tables.prune(cutoff)?))).await
    }

    async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        self.look_at(move |tables| tables.document(&kind, &id)).await
    }

    async fn documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        let kind = kind.to_owned();
        self.look(move |tables| tables.documents(&kind)).await
    }

    async fn documents_due(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        let kind = kind.to_owned();
        self.look(move |tables| tables.documents_due(&kind, by)).await
    }

    async fn put_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        self.change(move |tables, _| Ok(Ok(tables.put_document(&document, replaces)?))).await
    }

    async fn remove_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        self.change(move |tables, _| {
            let sql = "delete from documents where kind = ? and id = ?";
            Ok(Ok(tables.connection.prepare_cached(sql)?.execute(params![kind, id])? > 0))
        })
        .await
    }

    fn bell(&self) -> &Bell {
        &self.0.bell
    }

    fn as_checkpointer(self: Arc<Self>) -> Arc<dyn Checkpointer> {
        self
    }
}
