//! The tables of the runs, on a connection. The connection may be in a transaction.

use std::time::SystemTime;

use hier_checkpoint::checkpoint::SaverError;
use hier_runs::{EventPage, EventQuery, EventRow, Run, RunQuery, ThreadQuery, ThreadRow};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::Postgres;
use super::super::client::{Parameter, PooledClient};
use super::super::fault::PostgresFault;
use super::super::session::{PostgresSession, first};
use super::super::text::{escape, unescape};
use hier_checkpoint::backend::retention::PAGE_BYTES;
use hier_checkpoint::backend::unreadable::Unreadable;
use hier_checkpoint::backend::value_codec::ValueCodec;
use hier_runs::rows::{THREADS, VALUES, expires, integer, number, open, open_event, open_run, seal, time, trim};

/// The number of runs that a query reads at a time if only few of them may match.
const PAGE: i64 = 200;
/// The number of threads that a query reads at a time.
const THREAD_PAGE: i64 = 5_000;
/// The number of threads that a query reads at a time with their values, which may be large.
const VALUES_PAGE: i64 = 20;

#[derive(Clone, Copy)]
pub(in super::super) struct RunTables<'a> {
    pub(in super::super) session: &'a PostgresSession,
    pub(in super::super) client: &'a PooledClient,
    pub(in super::super) vault: &'a ValueCodec,
    pub(in super::super) unreadable: &'a Unreadable,
}

pub(super) const NOW: &str = "(extract(epoch from clock_timestamp()) * 1000000)::bigint";

impl Postgres {
    pub(in super::super) fn tables<'a>(&'a self, client: &'a PooledClient) -> RunTables<'a> {
        RunTables { session: &self.0.session, client, vault: &self.0.vault, unreadable: &self.0.unreadable }
    }
}

impl RunTables<'_> {
    pub(super) async fn query(&self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, PostgresFault> {
        self.session.query(self.client, &self.session.statements.with_schema(sql), with).await
    }

    /// Runs a statement that each connection prepares. See [`PostgresSession::query_often`].
    pub(super) async fn query_often(&self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, PostgresFault> {
        self.session.query_often(self.client, sql, with).await
    }

    pub(super) async fn now(&self) -> Result<SystemTime, PostgresFault> {
        Ok(time(first(&self.query(&format!("select {NOW}"), &[]).await?)?))
    }

    pub(super) async fn thread(&self, id: &str, with_values: bool) -> Result<Option<ThreadRow>, PostgresFault> {
        let name = escape(id);
        let sql = "select body, case when $2 then vals end from {s}.run_threads where name = $1 and {own}";
        let rows = self.query_often(sql, &[(&name, Type::TEXT), (&with_values, Type::BOOL)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut thread: ThreadRow = open(self.vault, THREADS, id, row.try_get(0)?)?;
        let values: Option<Vec<u8>> = row.try_get(1)?;
        thread.values = values.map(|stored| open(self.vault, VALUES, id, stored)).transpose()?;
        Ok(Some(thread))
    }

    fn read_run(&self, row: &Row, thread: Option<&str>) -> Result<Result<Run, SaverError>, PostgresFault> {
        Ok(open_run(self.vault, row.try_get(0)?, thread, row.try_get(1)?))
    }

    pub(super) async fn run(&self, id: Uuid) -> Result<Option<Run>, PostgresFault> {
        let sql = "select id, body from {s}.runs where id = $1 and {own}";
        let rows = self.query_often(sql, &[(&id, Type::UUID)]).await?;
        Ok(rows.first().map(|row| self.read_run(row, None)).transpose()?.transpose()?)
    }

    pub(super) async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, PostgresFault> {
        let name = query.thread.as_deref().map(escape);
        // Live runs are few. They are found by their index, and then sorted.
        let runs = if query.is_live() {
            "(select * from {s}.runs where ended is null and ($1::text is null or thread = $1) offset 0)"
        } else {
            "{s}.runs"
        };
        // A page ends with the run that fills it.
        let sql = format!(
            "select id, body, number from (
                select *, sum(octet_length(body)) over (order by number desc) - octet_length(body) as before from (
                    select id, body, number from {runs} r where ($1::text is null or thread = $1) and number < $2
                    order by number desc limit $3
                ) page
            ) sized where before < {PAGE_BYTES} order by number desc"
        );
        let mut most = integer(query.offset.saturating_add(query.limit) as u64).min(PAGE);
        let (mut found, mut passed, mut below) = (Vec::new(), 0, query.before.map_or(i64::MAX, integer));
        while found.len() < query.limit {
            let rows = self.query(&sql, &[(&name, Type::TEXT), (&below, Type::INT8), (&most, Type::INT8)]).await?;
            let Some(last) = rows.last() else { break };
            below = last.try_get(2)?;
            // Few of the runs may match.
            most = most.saturating_mul(4).min(PAGE);
            for row in &rows {
                let run = self.read_run(row, query.thread.as_deref())?;
                // An unreadable run fails a query for its thread. A query for all threads omits the run.
                let run = if query.thread.is_some() { Some(run?) } else { self.unreadable.ok_or_log(run) };
                let Some(run) = run.filter(|run| query.wants(run)) else { continue };
                if found.len() == query.limit {
                    return Ok(found);
                }
                if passed < query.offset {
                    passed += 1;
                } else {
                    found.push(run);
                }
            }
        }
        Ok(found)
    }

    /// Adds a thread with the change `op`. Returns false if it exists.
    pub(super) async fn make_thread(&self, thread: &ThreadRow, op: Uuid) -> Result<bool, PostgresFault> {
        let (name, body) = (escape(&thread.id), seal(self.vault, THREADS, &thread.id, thread)?);
        let values = sealed_values(self.vault, thread)?;
        let sql = "insert into {s}.run_threads (name, expires, body, vals, op) values ($1, $2, $3, $4, $5)
            on conflict do nothing returning 1";
        let expires = expires(thread);
        let with = [
            (&name as _, Type::TEXT),
            (&expires as _, Type::INT8),
            (&body as _, Type::BYTEA),
            (&values as _, Type::BYTEA),
            (&op as _, Type::UUID),
        ];
        Ok(!self.query(sql, &with).await?.is_empty())
    }

    /// Returns the thread if `op` is its last change.
    pub(super) async fn made_by(&self, id: &str, op: Uuid) -> Result<Option<ThreadRow>, PostgresFault> {
        let name = escape(id);
        let sql = "select 1 from {s}.run_threads where name = $1 and op = $2";
        let made = self.query(sql, &[(&name, Type::TEXT), (&op, Type::UUID)]).await?;
        if made.is_empty() { Ok(None) } else { self.thread(id, true).await }
    }

    pub(super) async fn trim(&self, thread: &mut ThreadRow) -> Result<(), PostgresFault> {
        let name = escape(&thread.id).into_owned();
        let sql = "select number, bytes from {s}.events where thread = $1 order by number";
        let rows = self.query(sql, &[(&name, Type::TEXT)]).await?;
        let oldest = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        if let Some(last) = trim(thread, oldest.collect::<Result<Vec<_>, PostgresFault>>()?) {
            let sql = "delete from {s}.events where thread = $1 and number <= $2";
            self.query(sql, &[(&name, Type::TEXT), (&last, Type::INT8)]).await?;
        }
        Ok(())
    }

    pub(super) async fn search(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, PostgresFault> {
        let early = !query.values.is_empty();
        let ids: Option<Vec<_>> = query.ids.as_ref().map(|ids| ids.iter().map(|id| escape(id)).collect());
        let sql = "select name, body, case when $2 then vals end from {s}.run_threads
            where ($1::text[] is null or name = any($1)) and name > $3 order by name limit $4";
        let (mut threads, mut after) = (Vec::new(), String::new());
        let most = if early { VALUES_PAGE } else { THREAD_PAGE };
        loop {
            let with = [
                (&ids as _, Type::TEXT_ARRAY),
                (&early as _, Type::BOOL),
                (&after as _, Type::TEXT),
                (&most as _, Type::INT8),
            ];
            let rows = self.query(sql, &with).await?;
            for row in &rows {
                threads.extend(self.matching(query, row, early)?);
            }
            match rows.last().filter(|_| integer(rows.len() as u64) == most) {
                Some(last) => after = last.try_get(0)?,
                None => break,
            }
        }
        let mut matched = query.clone();
        matched.values.clear();
        let mut page = matched.page(threads);
        if query.with_values {
            for thread in &mut page {
                let name = escape(&thread.id).into_owned();
                let sql = "select vals from {s}.run_threads where name = $1";
                let rows = self.query(sql, &[(&name, Type::TEXT)]).await?;
                let stored: Option<Vec<u8>> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
                self.has_values(thread, stored);
            }
        }
        Ok(page)
    }

    /// Returns a thread without its values if it can be read and matches the query. If `early` is true, the row contains
    /// the values.
    fn matching(&self, query: &ThreadQuery, row: &Row, early: bool) -> Result<Option<ThreadRow>, PostgresFault> {
        let id = unescape(row.try_get(0)?);
        let (body, values): (Vec<u8>, Option<Vec<u8>>) = (row.try_get(1)?, row.try_get(2)?);
        let read = self.unreadable.ok_or_log(open::<ThreadRow>(self.vault, THREADS, &id, body));
        let Some(mut thread) = read else { return Ok(None) };
        if early && !self.has_values(&mut thread, values) {
            return Ok(None);
        }
        let matches = query.wants(&thread);
        thread.values = None;
        Ok(matches.then_some(thread))
    }

    /// Sets the values of a thread. Returns false if they cannot be read.
    fn has_values(&self, thread: &mut ThreadRow, stored: Option<Vec<u8>>) -> bool {
        let Some(stored) = stored else { return true };
        thread.values = self.unreadable.ok_or_log(open(self.vault, VALUES, &thread.id, stored));
        thread.values.is_some()
    }

    pub(super) async fn events(&self, query: &EventQuery) -> Result<Option<EventPage>, PostgresFault> {
        let (name, after) = (escape(&query.thread), integer(query.after));
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let sql = "select number, at, body from {s}.events where thread = $1 and number > $2
            and ($3::uuid is null or run = $3) and {own} order by number limit $4";
        let with = [
            (&name as _, Type::TEXT),
            (&after as _, Type::INT8),
            (&query.run as _, Type::UUID),
            (&limit as _, Type::INT8),
        ];
        let mut events = Vec::new();
        for row in self.query_often(sql, &with).await? {
            let at = number(row.try_get(0)?);
            let event = open_event(self.vault, &query.thread, at, query.run, row.try_get(2)?)?;
            events.push(EventRow::new(at, time(row.try_get(1)?), event));
        }
        // The thread is read last. If the caller already knows this thread, all events above belong to it.
        let thread = self.thread(&query.thread, false).await?;
        Ok(thread.map(|thread| EventPage::new(events, &thread)))
    }
}

pub(super) fn sealed_values(vault: &ValueCodec, thread: &ThreadRow) -> Result<Option<Vec<u8>>, SaverError> {
    thread.values.as_ref().map(|values| seal(vault, VALUES, &thread.id, values)).transpose()
}
