//! Prunes and deletes rows of the runs, and stores documents.

use hier_checkpoint::checkpoint::SaverError;
use hier_runs::{Document, ThreadIs, ThreadRow};
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::super::delete::{EXPIRED, ThreadEditor};
use super::super::fault::PostgresFault;
use super::super::text::{escape, unescape};
use super::tables::{NOW, RunTables};
use hier_runs::rows::{DOCUMENTS, DUE, THREADS, document_key, integer, micros, number, open, seal};

/// The maximum number of old runs that one statement deletes, so that the statement ends within its time limit.
pub(super) const OLD_RUNS: u64 = 1_000;

impl RunTables<'_> {
    /// Returns the threads that have events from before this time.
    pub(super) async fn with_old_events(&self, cutoff: i64) -> Result<Vec<String>, PostgresFault> {
        let sql = "select distinct thread from {s}.events where at < $1";
        let rows = self.query(sql, &[(&cutoff, Type::INT8)]).await?;
        rows.iter().map(|row| Ok(unescape(row.try_get(0)?).to_string())).collect()
    }

    /// Deletes the events of a thread from before this time, and returns their number.
    pub(super) async fn prune_events(&self, thread: &str, cutoff: i64) -> Result<u64, PostgresFault> {
        let name = escape(thread);
        let held =
            self.query("select body from {s}.run_threads where name = $1 for update", &[(&name, Type::TEXT)]).await?;
        let sql = "with gone as (delete from {s}.events where thread = $1 and at < $2 returning number, bytes)
            select count(*), coalesce(max(number), 0), coalesce(sum(bytes), 0)::bigint from gone";
        let gone = self.query(sql, &[(&name, Type::TEXT), (&cutoff, Type::INT8)]).await?;
        let Some(gone) = gone.first() else { return Ok(0) };
        let (count, last, bytes): (i64, i64, i64) = (gone.try_get(0)?, gone.try_get(1)?, gone.try_get(2)?);
        if let Some(row) = held.first().filter(|_| count > 0) {
            let found = open(self.vault, THREADS, thread, row.try_get(0)?);
            let mut found: ThreadRow = found.map_err(|error| PostgresFault::from(error).of_thread(thread))?;
            found.gone_events = found.gone_events.max(number(last));
            found.event_bytes = found.event_bytes.saturating_sub(number(bytes));
            let body = seal(self.vault, THREADS, thread, &found)?;
            // This makes changes that have read the row start over.
            let (sql, op) = ("update {s}.run_threads set body = $2, op = $3 where name = $1", Uuid::new_v4());
            self.query(sql, &[(&name, Type::TEXT), (&body, Type::BYTEA), (&op, Type::UUID)]).await?;
        }
        Ok(number(count))
    }

    /// Deletes at most [`OLD_RUNS`] runs that ended before this time, and returns their number.
    pub(super) async fn prune_runs(&self, cutoff: i64) -> Result<u64, PostgresFault> {
        let sql = format!(
            "delete from {{s}}.runs where id in (select id from {{s}}.runs where ended < $1 order by ended limit {OLD_RUNS})
            returning 1"
        );
        Ok(self.query(&sql, &[(&cutoff, Type::INT8)]).await?.len() as u64)
    }

    /// Locks the row of a thread until the end of the transaction. Returns true if the thread exists and meets the
    /// condition.
    pub(in super::super) async fn hold_if(&self, id: &str, is: &ThreadIs) -> Result<bool, PostgresFault> {
        let name = escape(id);
        let held = "select body from {s}.run_threads where name = $1 for update";
        let held = self.query(held, &[(&name, Type::TEXT)]).await?;
        let Some(row) = held.first() else { return Ok(false) };
        let found: ThreadRow = open(self.vault, THREADS, id, row.try_get(0)?)?;
        Ok(is.is(&found))
    }

    /// Deletes threads and their background threads with their runs, events and checkpoints. Returns the number of
    /// threads that existed.
    pub(super) async fn remove(&self, threads: &[String]) -> Result<u64, PostgresFault> {
        let asked: Vec<String> = threads.iter().map(|thread| escape(thread).into_owned()).collect();
        let mut names = asked.clone();
        // The order is always the same, so that two deletions do not deadlock.
        let change = ThreadEditor { session: self.session, client: self.client, vault: self.vault };
        names.extend(change.within(&names).await?);
        names.sort_unstable();
        let with = [(&names as _, Type::TEXT_ARRAY)];
        self.query("select 1 from {s}.run_threads where name = any($1) order by name for update", &with).await?;
        let removed = self.query("delete from {s}.run_threads where name = any($1) returning name", &with).await?;
        let sql = "with gone as (delete from {s}.runs where thread = any($1))
            delete from {s}.events where thread = any($1)";
        self.query(sql, &with).await?;
        change.delete_threads(&names).await?;
        let mut count = 0;
        for row in &removed {
            count += u64::from(asked.contains(&row.try_get::<_, String>(0)?));
        }
        Ok(count)
    }

    /// Deletes at most [`EXPIRED`] expired threads whose names follow `after`. Skips threads that another process is
    /// changing, because they may no longer be expired afterwards. Returns the number of deleted threads, and the name
    /// from which the next call continues, if there may be more. Needs a transaction.
    pub(super) async fn remove_expired(&self, after: &str) -> Result<(u64, Option<String>), PostgresFault> {
        let sql = format!(
            "select name from {{s}}.run_threads where expires < {NOW} and name > $1
            order by name limit {EXPIRED} for update skip locked"
        );
        let rows = self.query(&sql, &[(&after, Type::TEXT)]).await?;
        let next = rows.last().filter(|_| rows.len() as u64 == EXPIRED).map(|row| row.try_get(0)).transpose()?;
        let names = rows.iter().map(|row| Ok(unescape(row.try_get(0)?).to_string()));
        let removed = self.remove(&names.collect::<Result<Vec<_>, PostgresFault>>()?).await?;
        Ok((removed, next))
    }

    pub(super) async fn document(&self, kind: &str, id: &str) -> Result<Option<Document>, PostgresFault> {
        let (own_kind, own_id) = (escape(kind), escape(id));
        let sql = "select id, revision, body from {s}.documents where kind = $1 and id = $2 and {own}";
        let rows = self.query_often(sql, &[(&own_kind, Type::TEXT), (&own_id, Type::TEXT)]).await?;
        Ok(rows.first().map(|row| self.read_document(kind, row)).transpose()?.transpose()?)
    }

    /// Returns the readable documents of a kind, sorted by id.
    pub(super) async fn documents(&self, kind: &str) -> Result<Vec<Document>, PostgresFault> {
        let own_kind = escape(kind);
        let sql = "select id, revision, body from {s}.documents where kind = $1 order by id";
        let mut found = Vec::new();
        for row in self.query(sql, &[(&own_kind, Type::TEXT)]).await? {
            found.extend(self.unreadable.ok_or_log(self.read_document(kind, &row)?));
        }
        Ok(found)
    }

    /// Returns some of the due documents, ordered from the longest overdue. Skips pages without readable documents.
    pub(super) async fn documents_due(&self, kind: &str, by: i64) -> Result<Vec<Document>, PostgresFault> {
        let own_kind = escape(kind);
        let sql = "select id, revision, body from {s}.documents where kind = $1 and due <= $2
            order by due, id limit $3 offset $4";
        let (most, mut passed) = (integer(DUE as u64), 0);
        loop {
            let with: [(&(dyn ToSql + Sync), Type); 4] = [
                (&own_kind as _, Type::TEXT),
                (&by as _, Type::INT8),
                (&most as _, Type::INT8),
                (&passed as _, Type::INT8),
            ];
            let page = self.query(sql, &with).await?;
            let mut found = Vec::new();
            for row in &page {
                found.extend(self.unreadable.ok_or_log(self.read_document(kind, row)?));
            }
            if page.len() < DUE || !found.is_empty() {
                return Ok(found);
            }
            passed += most;
        }
    }

    /// Sets the due time of a document that is stored with a change of runs.
    pub(super) async fn put_due(&self, document: &Document) -> Result<(), PostgresFault> {
        let (kind, id, due) = (escape(&document.kind), escape(&document.id), document.due.map(micros));
        let sql = "update {s}.documents set due = $3 where kind = $1 and id = $2";
        self.query(sql, &[(&kind, Type::TEXT), (&id, Type::TEXT), (&due, Type::INT8)]).await.map(|_| ())
    }

    pub(super) fn read_document(&self, kind: &str, row: &Row) -> Result<Result<Document, SaverError>, PostgresFault> {
        let (id, revision) = (unescape(row.try_get(0)?), number(row.try_get(1)?));
        let value = open(self.vault, DOCUMENTS, &document_key(kind, &id), row.try_get(2)?);
        Ok(value.map(|value| Document::new(kind, &*id, value).revision(revision)))
    }

    pub(super) async fn put_document(&self, document: &Document, replaces: Option<u64>) -> Result<bool, PostgresFault> {
        let Document { kind, id, value, due, .. } = document;
        let body = seal(self.vault, DOCUMENTS, &document_key(kind, id), value)?;
        let (kind, id, revision, due) = (escape(kind), escape(id), replaces.map(integer), due.map(micros));
        let with = [
            (&kind as _, Type::TEXT),
            (&id as _, Type::TEXT),
            (&body as _, Type::BYTEA),
            (&due as _, Type::INT8),
            (&revision as _, Type::INT8),
        ];
        let stored = if replaces.is_some() {
            let sql = "update {s}.documents set revision = revision + 1, body = $3, due = $4
                where kind = $1 and id = $2 and revision = $5 returning 1";
            self.query(sql, &with).await?
        } else {
            let sql = "insert into {s}.documents (kind, id, revision, body, due) values ($1, $2, 1, $3, $4)
                on conflict do nothing returning 1";
            self.query(sql, &with[..4]).await?
        };
        Ok(!stored.is_empty())
    }

    /// Returns true if the stored document is the one that [`put_document`](Self::put_document) stores for these
    /// arguments.
    pub(super) async fn has_document(&self, document: &Document, replaces: Option<u64>) -> Result<bool, PostgresFault> {
        let stored = self.document(&document.kind, &document.id).await?;
        let revision = replaces.unwrap_or_default() + 1;
        Ok(stored.is_some_and(|stored| stored.revision == revision && stored.value == document.value))
    }

    pub(super) async fn remove_document(&self, kind: &str, id: &str) -> Result<bool, PostgresFault> {
        let (kind, id) = (escape(kind), escape(id));
        let sql = "delete from {s}.documents where kind = $1 and id = $2 returning 1";
        Ok(!self.query(sql, &[(&kind, Type::TEXT), (&id, Type::TEXT)]).await?.is_empty())
    }
}
