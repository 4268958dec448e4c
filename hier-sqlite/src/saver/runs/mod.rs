//! Runs in a SQLite file, next to the checkpoints.

mod claims;
mod documents;
mod inbox;
#[cfg(feature = "encryption")]
pub(super) mod reencrypt;
pub(super) mod tables;

use std::time::{Duration, SystemTime};

use hier_checkpoint::async_trait;
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::checkpoint::{InboxMessage, Lease, PostOutcome};
use hier_runs::rows::no_thread;
use hier_runs::{
    ChangeNotifier, Changed, Claimed, Document, DocumentBackend, EventPage, EventQuery, NewThread, PrunedRuns, Run,
    RunBackend, RunClaim, RunQuery, RunsError, ThreadBackend, ThreadChange, ThreadIs, ThreadQuery, ThreadRow,
};
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::fault::Fault;
use super::writer::JobClass;
use super::{SHORT_BYTES, Sqlite, delete, lease, store};
pub(super) use claims::Recovery;
use claims::claim;
use tables::{OLD_RUNS, RunTables};

/// A result that may be a refusal. A refusal is not a fault, because it has changed nothing.
type Decided<T> = Result<Result<T, RunsError>, Fault>;

impl Sqlite {
    /// Runs `work` on the tables in a transaction. Work that may take long must not be [`JobClass::Short`], because a
    /// short job may run in the task of its caller.
    async fn transact<T: Send + 'static>(
        &self,
        class: JobClass,
        work: impl FnOnce(RunTables<'_>, SystemTime) -> Decided<T> + Send + 'static,
    ) -> Result<T, RunsError> {
        let (vault, unreadable) = (self.0.vault.clone(), self.0.unreadable.clone());
        let run = move |connection: &Connection| {
            work(
                RunTables { connection, vault: &vault, unreadable: &unreadable, longest: usize::MAX },
                SystemTime::now(),
            )
        };
        self.0.writer.submit(class, run).await?
    }

    async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce(RunTables<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, RunsError> {
        let (vault, unreadable) = (self.0.vault.clone(), self.0.unreadable.clone());
        let read = move |connection: &Connection| {
            work(RunTables { connection, vault: &vault, unreadable: &unreadable, longest: usize::MAX })
        };
        Ok(self.read(read).await?)
    }

    /// Reads a row. Reads a small row without waiting. A single statement needs no transaction.
    async fn look_at<T: Send + 'static>(
        &self,
        work: impl Fn(RunTables<'_>) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, RunsError> {
        let (vault, unreadable) = (&self.0.vault, &*self.0.unreadable);
        let read = |connection: &Connection| work(RunTables { connection, vault, unreadable, longest: SHORT_BYTES });
        match self.read_short(read) {
            Some(found) => Ok(found?),
            None => self.look(work).await,
        }
    }
}

/// Returns false if a lease was taken over or released.
fn check_held(connection: &Connection, lease: &Lease) -> Result<bool, Fault> {
    let sql = "select 1 from threads where name = ? and token = ? and holder is not null";
    let token = i64::try_from(lease.token).unwrap_or(-1);
    Ok(connection.prepare_cached(sql)?.exists(params![&*lease.thread, token])?)
}

/// Decides a change and stores it with its records. Returns `None` if nothing changes.
fn apply(
    tables: RunTables<'_>,
    change: ThreadChange,
    records: Option<&Batch>,
    now: SystemTime,
) -> Decided<Option<Changed>> {
    let (connection, lease, releases) = (tables.connection, change.lease().cloned(), change.releases());
    if let Some(lease) = &lease
        && !check_held(connection, lease)?
    {
        return Err(super::lease::lost(connection, &lease.thread, lease.token));
    }
    let thread = change.thread.clone();
    let snapshot = tables.snapshot(&change, now)?;
    let mut decision = match change.decide(snapshot) {
        Ok(Some(decision)) => decision,
        Ok(None) => return Ok(Ok(None)),
        Err(error) => return Ok(Err(error)),
    };
    if let Some(document) = decision.document.take()
        && !tables.put_document(&document, Some(document.revision))?
    {
        return Ok(Err(RunsError::Stale { kind: document.kind, id: document.id }));
    }
    let claimed = match &decision.claim {
        Some(claim) => claims::hold(connection, &thread, claim)?,
        None => None,
    };
    if claimed.is_some() {
        decision.start();
    } else if decision.is_only_claim() {
        return Ok(Ok(None));
    }
    if let (Some(lease), Some(records)) = (&lease, records) {
        store::commit(connection, &lease.thread, lease.token, records, &decision.also)?;
    }
    let row = tables.store(decision.queue, now)?;
    if let Some(lease) = lease.filter(|_| releases) {
        lease::release(connection, &lease)?;
    }
    let claimed = decision.started.zip(claimed).map(|(run, lease)| Claimed::new(run, lease));
    Ok(Ok(Some(Changed::new(&row, decision.runs, claimed))))
}

#[async_trait]
impl RunBackend for Sqlite {
    async fn change(&self, mut change: ThreadChange) -> Result<Changed, RunsError> {
        let (thread, releases) = (change.thread.clone(), change.releases());
        let records = match change.take_records().zip(change.lease()) {
            Some((records, lease)) => Some(Batch::of(&self.0.vault, &self.0.latest, &lease.thread, records)?),
            None => None,
        };
        let class = match &records {
            // An undo reads the whole history of the thread.
            _ if change.undoes() => JobClass::Alone,
            Some(records) => store::job_class(records),
            None => JobClass::Short,
        };
        let changed = self.transact(class, move |tables, now| apply(tables, change, records.as_ref(), now)).await?;
        if releases {
            self.0.released.notify_waiters();
        }
        changed.ok_or_else(|| no_thread(&thread))
    }

    async fn claim(&self, asked: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        // This check needs no write transaction. Most claims find nothing and end here.
        let graphs = asked.graphs.clone();
        let lost = self.0.recovery.is_due(asked.graphs.as_deref());
        let is_ready =
            move |tables: RunTables<'_>| Ok(!tables.ready(graphs.as_deref(), SystemTime::now(), 1, lost)?.is_empty());
        if !self.look_at(is_ready).await? {
            return Ok(Vec::new());
        }
        self.transact(JobClass::Short, move |tables, now| claim(tables, (&asked, most, lost), now)).await
    }

    async fn load_run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        self.look_at(move |tables| tables.run(id)).await
    }

    async fn find_runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        self.look(move |tables| tables.runs(&query)).await
    }

    async fn delete_run(&self, id: Uuid) -> Result<bool, RunsError> {
        self.transact(JobClass::Short, move |tables, _| {
            // The statement does not read the body, which may be unreadable.
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

    async fn find_events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        let thread = query.thread.clone();
        self.look(move |tables| tables.events(&query)).await?.ok_or_else(|| no_thread(&thread))
    }

    async fn delete_older(&self, than: Duration) -> Result<PrunedRuns, RunsError> {
        let cutoff = SystemTime::now().checked_sub(than).unwrap_or(SystemTime::UNIX_EPOCH);
        let (mut events, mut runs) = (0, 0);
        // Separate transactions, so that writers wait only briefly.
        for thread in self.look(move |tables| tables.with_old_events(cutoff)).await? {
            let prune = move |tables: RunTables<'_>, _| Ok(Ok(tables.prune_events(&thread, cutoff)?));
            events += self.transact(JobClass::Alone, prune).await?;
        }
        loop {
            let prune = move |tables: RunTables<'_>, _| Ok(Ok(tables.prune_runs(cutoff)?));
            let count = self.transact(JobClass::Alone, prune).await?;
            runs += count;
            if count < OLD_RUNS {
                return Ok(PrunedRuns { events, runs });
            }
        }
    }

    fn notifier(&self) -> &ChangeNotifier {
        &self.0.bell
    }
}

#[async_trait]
impl ThreadBackend for Sqlite {
    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        let id = id.to_owned();
        self.look_at(move |tables| tables.thread(&id, true)).await
    }

    async fn find_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        self.look(move |tables| tables.search(&query)).await
    }

    async fn insert_thread(&self, thread: NewThread) -> Result<Option<ThreadRow>, RunsError> {
        self.transact(JobClass::Short, move |tables, now| {
            if tables.has_thread(&thread.id)? {
                return Ok(Ok(None));
            }
            let row = ThreadRow::new(thread, now);
            tables.put_thread(&row, None)?;
            Ok(Ok(Some(row)))
        })
        .await
    }

    async fn insert_copy(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
        let from = from.to_owned();
        self.transact(JobClass::Alone, move |tables, now| {
            if tables.has_thread(&to.id)? {
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

    async fn delete_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        let name = id.to_owned();
        let removed = self
            .transact(JobClass::Alone, move |tables, _| {
                // Without a condition, this also deletes a thread that cannot be read.
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
        removed
    }

    async fn post_to(
        &self,
        thread: &str,
        is: ThreadIs,
        graph: &str,
        letter: InboxMessage,
    ) -> Result<PostOutcome, RunsError> {
        Ok(self.post_letter(thread, Some(is), graph, letter).await?.into())
    }
}

#[async_trait]
impl DocumentBackend for Sqlite {
    async fn load_document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        self.look_at(move |tables| tables.document(&kind, &id)).await
    }

    async fn find_documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        let kind = kind.to_owned();
        self.look(move |tables| tables.documents(&kind)).await
    }

    async fn find_due_documents(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        let kind = kind.to_owned();
        self.look(move |tables| tables.documents_due(&kind, by)).await
    }

    async fn store_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        self.transact(JobClass::Short, move |tables, _| Ok(Ok(tables.put_document(&document, replaces)?))).await
    }

    async fn delete_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        let (kind, id) = (kind.to_owned(), id.to_owned());
        self.transact(JobClass::Short, move |tables, _| {
            let sql = "delete from documents where kind = ? and id = ?";
            Ok(Ok(tables.connection.prepare_cached(sql)?.execute(params![kind, id])? > 0))
        })
        .await
    }
}
