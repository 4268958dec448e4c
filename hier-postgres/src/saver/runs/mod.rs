mod change;
pub(super) mod change_row;
mod claims;
pub(super) mod documents;
pub(super) mod listen;
mod notices;
pub(super) mod outbox;
#[cfg(feature = "encryption")]
pub(super) mod reencrypt;
mod store;
pub(super) mod tables;
pub(super) mod thread_cache;
pub(super) mod thread_reads;
mod upkeep;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_checkpoint::async_trait;
use hier_checkpoint::checkpoint::{InboxMessage, PostOutcome, SaverError};
use hier_runs::{
    ChangeNotifier, Changed, Claimed, Document, DocumentBackend, EventPage, EventQuery, NewThread, Notice, PrunedRuns,
    Run, RunBackend, RunClaim, RunQuery, RunsError, ThreadAction, ThreadBackend, ThreadChange, ThreadIs, ThreadQuery,
    ThreadRow,
};
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::delete::ThreadEditor;
use super::fault::PostgresFault;
use super::session::{Transaction, retrying};
use hier_checkpoint::backend::rows::Batch;
use hier_runs::rows::{micros, no_thread};
use listen::NotifyListener;
use tables::RunTables;
use upkeep::OLD_RUNS;

/// Runs a block with the tables of the runs in a transaction. Retries the block if the fault may pass.
macro_rules! in_transaction {
    ($this:expr, $tables:ident => $work:expr) => {{
        let (session, vault, unreadable) = (&$this.0.session, &$this.0.vault, &$this.0.unreadable);
        $this.ready().await?;
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let $tables = RunTables { session, client: transaction.client(), vault, unreadable };
            let changed: Result<_, PostgresFault> = async { $work }.await;
            transaction.end(changed).await
        })
    }};
}

/// Runs a block with the tables of the runs. Retries the block if the fault may pass.
macro_rules! look {
    ($this:expr, $tables:ident => $work:expr) => {{
        let (session, vault, unreadable) = (&$this.0.session, &$this.0.vault, &$this.0.unreadable);
        $this.ready().await?;
        retrying!(session, client => {
            let $tables = RunTables { session, client: &client, vault, unreadable };
            $work
        })
    }};
}
use look;

impl Postgres {
    pub(super) async fn sweep_runs(&self) -> Result<u64, SaverError> {
        let (mut count, mut after) = (0, Some(String::new()));
        while let Some(last) = after {
            let (removed, next) = in_transaction!(self, tables => tables.remove_expired(&last).await)?;
            count += removed;
            after = next;
        }
        Ok(count)
    }
}

async fn insert_copy(
    tables: &RunTables<'_>,
    from: &str,
    to: &NewThread,
    op: Uuid,
) -> Result<Result<ThreadRow, RunsError>, PostgresFault> {
    let Some(source) = tables.thread(from, true).await? else { return Ok(Err(no_thread(from))) };
    let row = source.copy_to(to.clone(), tables.now().await?);
    if !tables.make_thread(&row, op).await? {
        let made = tables.made_by(&row.id, op).await?;
        return Ok(made.ok_or(RunsError::Exists { kind: "thread", id: row.id }));
    }
    let change = ThreadEditor { session: tables.session, client: tables.client, vault: tables.vault };
    change.copy_thread(from, &row.id).await?;
    Ok(Ok(row))
}

#[async_trait]
impl RunBackend for Postgres {
    async fn change(&self, mut change: ThreadChange) -> Result<Changed, RunsError> {
        self.ready().await?;
        if let ThreadAction::Add(run, _) = &mut change.action {
            // All attempts use one id, so that they add the run once.
            run.id.get_or_insert_with(Uuid::new_v4);
        }
        let (mut records, mut known) = (None, None);
        if let Some((taken, lease)) = change.take_records().zip(change.lease()) {
            let mut batch = Batch::of(&self.0.vault, &self.0.latest, &lease.thread, taken)?;
            batch.settle();
            (records, known) = (Some(Arc::new(batch)), self.0.thread_cache.remove(&change.thread));
        }
        let mut changed = self.apply(&change, records.as_ref(), known).await?;
        if changed.is_none()
            && let ThreadAction::Add(_, claim @ Some(_)) = &mut change.action
        {
            // Another holder has claimed the thread meanwhile. The run is queued instead.
            *claim = None;
            changed = self.apply(&change, None, None).await?;
        }
        if change.releases() {
            self.0.thread_cache.remove(&change.thread);
            self.0.released.notify_waiters();
        }
        changed.ok_or_else(|| no_thread(&change.thread))
    }

    async fn claim(&self, asked: RunClaim, most: usize) -> Result<Vec<Claimed>, RunsError> {
        loop {
            let waiting = look!(self, tables => tables.waiting(asked.graphs.as_deref(), most).await)?;
            let (claimed, passes) = self.claim_of_those(waiting, &asked, most).await?;
            // If all threads of this page were skipped, the next query returns other threads.
            if !claimed.is_empty() || !passes {
                return Ok(claimed);
            }
        }
    }

    async fn load_run(&self, id: Uuid) -> Result<Option<Run>, RunsError> {
        Ok(look!(self, tables => tables.run(id).await)?)
    }

    async fn find_runs(&self, query: RunQuery) -> Result<Vec<Run>, RunsError> {
        Ok(look!(self, tables => tables.runs(&query).await)?)
    }

    async fn delete_run(&self, id: Uuid) -> Result<bool, RunsError> {
        in_transaction!(self, tables => {
            // Locks the row of the run, as the end of the run does.
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

    async fn find_events(&self, query: EventQuery) -> Result<EventPage, RunsError> {
        look!(self, tables => tables.events(&query).await)?.ok_or_else(|| no_thread(&query.thread))
    }

    async fn delete_older(&self, than: Duration) -> Result<PrunedRuns, RunsError> {
        let now = look!(self, tables => tables.now().await)?;
        let cutoff = now.checked_sub(than).map_or(0, micros);
        let mut events = 0;
        for thread in look!(self, tables => tables.with_old_events(cutoff).await)? {
            match in_transaction!(self, tables => tables.prune_events(&thread, cutoff).await) {
                Ok(count) => events += count,
                // The row of the thread counts its events. If the row cannot be read, the events stay.
                Err(error @ SaverError::Damaged { .. }) => self.0.unreadable.log(&error),
                Err(error) => return Err(error.into()),
            }
        }
        let mut runs = 0;
        loop {
            let count = in_transaction!(self, tables => tables.prune_runs(cutoff).await)?;
            runs += count;
            if count < OLD_RUNS {
                return Ok(PrunedRuns { events, runs });
            }
        }
    }

    /// Returns the notifier. The first call in a tokio runtime opens one more connection, through which the notifier
    /// receives the changes of other processes. Behind a pooler that switches connections between transactions, the
    /// notifier reports only the changes of this process.
    fn notifier(&self) -> &ChangeNotifier {
        let inner = &self.0;
        if inner.listener.get().is_none()
            && let Some(listener) = NotifyListener::start(&inner.session, inner.bell.clone())
        {
            // If two calls start a listener at the same time, one of the listeners is dropped.
            let _ = inner.listener.set(listener);
        }
        &inner.bell
    }

    fn announce(&self, notice: Notice<'_>) {
        let (thread, runs) = (notice.thread, notice.runs || notice.ends);
        self.0.bell.announce(notice);
        self.notify_others(thread, runs);
    }
}

#[async_trait]
impl ThreadBackend for Postgres {
    async fn load_thread(&self, id: &str) -> Result<Option<ThreadRow>, RunsError> {
        Ok(look!(self, tables => tables.thread(id, true).await)?)
    }

    async fn find_threads(&self, query: ThreadQuery) -> Result<Vec<ThreadRow>, RunsError> {
        Ok(in_transaction!(self, tables => {
            // All pages and values must be from one moment.
            tables.client.batch("set transaction isolation level repeatable read, read only").await?;
            tables.search(&query).await
        })?)
    }

    async fn insert_thread(&self, thread: NewThread) -> Result<Option<ThreadRow>, RunsError> {
        // All attempts use one id, so that a repeated attempt recognizes the thread of an attempt whose answer was lost.
        let op = self.0.session.new_change();
        Ok(in_transaction!(self, tables => {
            let row = ThreadRow::new(thread.clone(), tables.now().await?);
            if tables.make_thread(&row, op).await? {
                return Ok(Some(row));
            }
            tables.made_by(&thread.id, op).await
        })?)
    }

    async fn insert_copy(&self, from: &str, to: NewThread) -> Result<ThreadRow, RunsError> {
        let op = self.0.session.new_change();
        in_transaction!(self, tables => insert_copy(&tables, from, &to, op).await)?
    }

    async fn delete_thread_if(&self, id: &str, is: ThreadIs) -> Result<bool, RunsError> {
        let thread = [id.to_owned()];
        let removed = in_transaction!(self, tables => {
            // Without a condition, this also deletes a thread that cannot be read.
            if !is.is_any() && !tables.hold_if(id, &is).await? {
                return Ok(0);
            }
            tables.remove(&thread).await
        })?;
        self.0.conversations.forget(id);
        self.0.released.notify_waiters();
        Ok(removed > 0)
    }

    async fn post_to(
        &self,
        thread: &str,
        is: ThreadIs,
        graph: &str,
        letter: InboxMessage,
    ) -> Result<PostOutcome, RunsError> {
        Ok(self.post_letter(thread, Some(&is), graph, &letter).await?.into())
    }
}

#[async_trait]
impl DocumentBackend for Postgres {
    async fn load_document(&self, kind: &str, id: &str) -> Result<Option<Document>, RunsError> {
        self.ready().await?;
        Ok(self.shared_document(kind, id).await?)
    }

    async fn find_documents(&self, kind: &str) -> Result<Vec<Document>, RunsError> {
        Ok(look!(self, tables => tables.documents(kind).await)?)
    }

    async fn find_due_documents(&self, kind: &str, by: SystemTime) -> Result<Vec<Document>, RunsError> {
        Ok(look!(self, tables => tables.documents_due(kind, micros(by)).await)?)
    }

    async fn store_document(&self, document: Document, replaces: Option<u64>) -> Result<bool, RunsError> {
        let mut is_repeated = false;
        Ok(look!(self, tables => {
            let was_sent = std::mem::replace(&mut is_repeated, true);
            Ok(tables.put_document(&document, replaces).await?
                || (was_sent && tables.has_document(&document, replaces).await?))
        })?)
    }

    async fn delete_document(&self, kind: &str, id: &str) -> Result<bool, RunsError> {
        Ok(look!(self, tables => tables.remove_document(kind, id).await)?)
    }
}
