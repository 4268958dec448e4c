//! Inboxes of threads, and the times at which threads are due.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_checkpoint::checkpoint::{
    Delivered, DueChange, DueQuery, DueThread, INBOX_BYTES, InboxMessage, SaverError, SideEffects,
};
use hier_runs::ThreadIs;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::Postgres;
use super::client::PooledClient;
use super::fault::PostgresFault;
use super::records::{BatchOutcome, BatchOwner, store_batch};
use super::session::{Parameter, PostgresSession, Transaction, retrying};
use super::text::{escape, unescape};
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::backend::storage_key::StorageKey;

/// Converts to milliseconds since 1970. Rounds up, so that a thread does not wake too early.
fn due_at(at: SystemTime) -> i64 {
    millis(at.checked_add(Duration::from_nanos(999_999)).unwrap_or(at))
}

fn millis(at: SystemTime) -> i64 {
    i64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}

fn time(millis: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap_or_default())
}

/// The inbox of a thread. Methods that write need a transaction.
#[derive(Clone, Copy)]
pub(super) struct InboxTables<'a> {
    pub(super) session: &'a PostgresSession,
    pub(super) client: &'a PooledClient,
    pub(super) thread: &'a str,
}

impl Postgres {
    /// Adds a message to the inbox of a thread. With a condition, fails unless the thread exists and meets the
    /// condition.
    pub(super) async fn post_letter(
        &self,
        thread: &str,
        is: Option<&ThreadIs>,
        graph: &str,
        letter: &InboxMessage,
    ) -> Result<bool, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        self.ready().await?;
        let value = vault.seal(
            StorageKey::InboxMessage { thread, id: letter.id, signal: letter.signal.as_deref() },
            letter.value.clone(),
        )?;
        let mut is_repeated = false;
        retrying!(session, client => {
            let was_sent = std::mem::replace(&mut is_repeated, true);
            let transaction = Transaction::begin(client).await?;
            let mailbox = InboxTables { session, client: transaction.client(), thread };
            let posted = async {
                // Locks the thread before the inbox, because the end of a run locks them in this order.
                if let Some(is) = is && !self.tables(transaction.client()).hold_if(thread, is).await? {
                    return Err(SaverError::deleted(thread).into());
                }
                mailbox.post(graph, letter, (&value, was_sent)).await
            };
            let posted = posted.await;
            transaction.end(posted).await
        })
    }

    pub(super) async fn letters(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        let (session, vault) = (&self.0.session, &self.0.vault);
        self.ready().await?;
        retrying!(session, client => {
            let rows = InboxTables { session, client: &client, thread }.waiting().await?;
            rows.iter().map(|row| {
                let (number, id): (i64, Uuid) = (row.try_get(0)?, row.try_get(1)?);
                let signal = row.try_get::<_, Option<&str>>(2)?.map(unescape);
                let value = vault.open(StorageKey::InboxMessage { thread, id, signal: signal.as_deref() }, row.try_get(3)?)?;
                let letter = match signal {
                    Some(name) => InboxMessage::signal(id, name, value),
                    None => InboxMessage::message(id, value),
                };
                Ok(Delivered::new(u64::try_from(number).unwrap_or_default(), letter))
            }).collect::<Result<Vec<_>, PostgresFault>>()
        })
    }

    pub(super) async fn due_threads(&self, query: &DueQuery) -> Result<Vec<DueThread>, SaverError> {
        let session = &self.0.session;
        self.ready().await?;
        let graphs: Vec<_> = query.graphs.iter().map(|graph| escape(graph)).collect();
        let (by, limit) = (millis(query.by), i64::try_from(query.limit).unwrap_or(i64::MAX));
        let (since, last) = query.after.as_ref().map(|last| (millis(last.at), escape(&last.thread))).unzip();
        let sql = session.statements.with_schema(
            "select thread, at, driven from {s}.due where graph = any($1) and at <= $2
                and ($4::bigint is null or (at, thread) > ($4, $5)) order by at, thread limit $3",
        );
        retrying!(session, client => {
            let with: [Parameter<'_>; 5] = [
                (&graphs, Type::TEXT_ARRAY),
                (&by, Type::INT8),
                (&limit, Type::INT8),
                (&since, Type::INT8),
                (&last, Type::TEXT),
            ];
            let rows = session.query(&client, &sql, &with).await?;
            let read = |row: &Row| {
                Ok(DueThread::new(unescape(row.try_get(0)?), time(row.try_get(1)?)).driven(row.try_get(2)?))
            };
            rows.iter().map(read).collect::<Result<Vec<_>, PostgresFault>>()
        })
    }

    /// Stores a batch and its side effects in one transaction.
    pub(super) async fn store_also(
        &self,
        thread: &Arc<str>,
        token: u64,
        batch: &Batch,
        also: &SideEffects,
    ) -> Result<BatchOutcome, SaverError> {
        let (session, commit) = (&self.0.session, Uuid::new_v4());
        retrying!(session, client => {
            let transaction = Transaction::begin(client).await?;
            let mailbox = InboxTables { session, client: transaction.client(), thread };
            let stored = mailbox.store(token, batch, also, commit).await;
            transaction.end(stored).await
        })
    }
}

impl InboxTables<'_> {
    async fn query(self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, PostgresFault> {
        self.session.query(self.client, &self.session.statements.with_schema(sql), with).await
    }

    /// Locks the inbox until the end of the transaction. Messages therefore become visible in the order of their
    /// numbers, and a change of the thread's due time does not miss a message that arrives meanwhile.
    async fn hold(self) -> Result<(), PostgresFault> {
        let name = escape(self.thread);
        self.query("select pg_advisory_xact_lock(hashtextextended('{s} ' || $1, 7))::text", &[(&name, Type::TEXT)])
            .await?;
        Ok(())
    }

    /// Adds a message. Returns false if the thread already knows its id, unless an attempt whose answer was lost has
    /// added the message. `was_sent` is true if there may be such an attempt.
    async fn post(
        self,
        graph: &str,
        letter: &InboxMessage,
        (value, was_sent): (&[u8], bool),
    ) -> Result<bool, PostgresFault> {
        self.hold().await?;
        let name = escape(self.thread);
        let known = "select value = $3 from {s}.mail where thread = $1 and id = $2";
        let with: [Parameter<'_>; 3] = [(&name, Type::TEXT), (&letter.id, Type::UUID), (&value, Type::BYTEA)];
        if let Some(known) = self.query(known, &with).await?.first() {
            return Ok(was_sent && known.try_get(0)?);
        }
        // The size of a delivered message counts until its run can no longer be rolled back.
        let kept = "select coalesce(sum(size), 0)::bigint from {s}.mail where thread = $1";
        let kept: i64 = super::session::first(&self.query(kept, &[(&name, Type::TEXT)]).await?)?;
        let size = letter.size();
        if usize::try_from(kept).unwrap_or(usize::MAX).saturating_add(size) > INBOX_BYTES {
            return Err(SaverError::InboxFull { thread: self.thread.to_owned() }.into());
        }
        let (size, signal) = (i64::try_from(size).unwrap_or(i64::MAX), letter.signal.as_deref().map(escape));
        let sql = "insert into {s}.mail (thread, id, signal, value, size) values ($1, $2, $3, $4, $5)";
        let with: [Parameter<'_>; 5] = [
            (&name, Type::TEXT),
            (&letter.id, Type::UUID),
            (&signal, Type::TEXT),
            (&value, Type::BYTEA),
            (&size, Type::INT8),
        ];
        self.query(sql, &with).await?;
        if letter.signal.is_some() {
            // An existing graph is kept, because the runs of a thread determine its graph.
            let sql = "insert into {s}.due as old (thread, graph, at) values ($1, $2, $3)
                on conflict (thread) do update set at = least(old.at, excluded.at)";
            let (graph, at) = (escape(graph), now());
            self.query(sql, &[(&name, Type::TEXT), (&graph, Type::TEXT), (&at, Type::INT8)]).await?;
        }
        Ok(true)
    }

    async fn waiting(self) -> Result<Vec<Row>, PostgresFault> {
        let name = escape(self.thread);
        let sql = "select number, id, signal, value from {s}.mail where thread = $1 and taken is null order by number";
        self.query(sql, &[(&name, Type::TEXT)]).await
    }

    async fn store(
        self,
        token: u64,
        batch: &Batch,
        also: &SideEffects,
        commit: Uuid,
    ) -> Result<BatchOutcome, PostgresFault> {
        let stored = store_batch(self.session, self.client, &BatchOwner::Held(self.thread, token), batch).await?;
        if matches!(stored, BatchOutcome::Stored) {
            self.change(also, commit).await?;
        }
        Ok(stored)
    }

    /// Applies the side effects of a commit. `commit` is the same for each attempt.
    pub(super) async fn change(self, also: &SideEffects, commit: Uuid) -> Result<(), PostgresFault> {
        if also.is_empty() {
            return Ok(());
        }
        self.hold().await?;
        self.take_messages(&also.taken, commit, also.run).await?;
        self.change_due(also.due.as_ref()).await
    }

    async fn take_messages(self, letters: &[Uuid], commit: Uuid, run: Option<Uuid>) -> Result<(), PostgresFault> {
        let (name, mut taken) = (escape(self.thread), HashSet::with_capacity(letters.len()));
        for id in letters {
            // The row stays, so that a repeated message with this id is ignored. The value is needed only if the run
            // that has taken the message may be rolled back. If an attempt is repeated because its answer was lost,
            // this commit has already taken the message.
            let sql = "update {s}.mail set taken = $3, run = $4, value = case when $4 is null then '' else value end,
                    size = case when $4 is null then 0 else size end
                where thread = $1 and id = $2 and (taken is null or taken = $3) returning 1";
            let with: [Parameter<'_>; 4] =
                [(&name, Type::TEXT), (id, Type::UUID), (&commit, Type::UUID), (&run, Type::UUID)];
            if !taken.insert(*id) || self.query(sql, &with).await?.is_empty() {
                return Err(SaverError::no_message(self.thread, *id).into());
            }
        }
        Ok(())
    }

    async fn change_due(self, due: Option<&DueChange>) -> Result<(), PostgresFault> {
        let name = escape(self.thread);
        match due {
            Some(DueChange::NoLaterThan { at, graph }) => self.no_later_than(graph, due_at(*at)).await,
            Some(DueChange::Exactly { at, graph, seen }) => {
                let seen = i64::try_from(*seen).unwrap_or(i64::MAX);
                let sql = "select 1 from {s}.mail where thread = $1 and taken is null and signal is not null and number > $2 limit 1";
                let woken = !self.query(sql, &[(&name, Type::TEXT), (&seen, Type::INT8)]).await?.is_empty();
                self.query("delete from {s}.due where thread = $1", &[(&name, Type::TEXT)]).await?;
                match at.map(due_at).into_iter().chain(woken.then(now)).min() {
                    Some(at) => self.no_later_than(graph, at).await,
                    None => Ok(()),
                }
            }
            Some(DueChange::Driven { until, graph }) => {
                let (graph, until) = (escape(graph), due_at(*until));
                let sql = "insert into {s}.due as old (thread, graph, at, driven) values ($1, $2, $3, true)
                    on conflict (thread) do update
                    set graph = excluded.graph, at = least(old.at, excluded.at), driven = true";
                self.query(sql, &[(&name, Type::TEXT), (&graph, Type::TEXT), (&until, Type::INT8)]).await.map(|_| ())
            }
            Some(DueChange::Postponed { until }) => {
                let (sql, until) = ("update {s}.due set at = $2 where thread = $1", due_at(*until));
                self.query(sql, &[(&name, Type::TEXT), (&until, Type::INT8)]).await.map(|_| ())
            }
            _ => Ok(()),
        }
    }

    /// Copies the due time of the thread to another thread. The copy does not count as driven by a run.
    pub(super) async fn copy_due(self, to: &str) -> Result<(), PostgresFault> {
        let (name, to) = (escape(self.thread), escape(to));
        let sql = "insert into {s}.due (thread, graph, at) select $2, graph, at from {s}.due where thread = $1";
        self.query(sql, &[(&name, Type::TEXT), (&to, Type::TEXT)]).await.map(|_| ())
    }

    async fn no_later_than(self, graph: &str, at: i64) -> Result<(), PostgresFault> {
        let (name, graph) = (escape(self.thread), escape(graph));
        let sql = "insert into {s}.due as old (thread, graph, at) values ($1, $2, $3)
            on conflict (thread) do update set graph = excluded.graph, at = least(old.at, excluded.at)";
        self.query(sql, &[(&name, Type::TEXT), (&graph, Type::TEXT), (&at, Type::INT8)]).await?;
        Ok(())
    }
}

fn now() -> i64 {
    millis(SystemTime::now())
}
