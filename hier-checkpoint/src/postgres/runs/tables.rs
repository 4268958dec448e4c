//! The tables of the runs, on a connection and in whatever transaction it is.

use std::time::SystemTime;

use hier_core::checkpoint::Deletion;
use hier_core::runs::{
    Change, EventPage, EventQuery, EventRow, NewEvent, Queue, Run, RunQuery, ThreadQuery, ThreadRow,
};
use serde_json::Value;
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::client::{Client, Parameter};
use super::super::delete;
use super::super::fault::Fault;
use super::super::session::{Session, first};
use super::super::text::{escape, unescape};
use crate::run_rows::{
    EVENTS, RUNS, THREADS, VALUES, event_key, expires, integer, micros, number, open, seal, time, trim,
};
use crate::vault::Vault;

/// How many runs are read at once where most may be wanted by nobody.
const PAGE: i64 = 200;

/// The tables of the runs.
#[derive(Clone, Copy)]
pub(in super::super) struct Tables<'a> {
    pub(in super::super) session: &'a Session,
    pub(in super::super) client: &'a Client,
    pub(in super::super) vault: &'a Vault,
}

/// A thread that is about to be changed, with its runs that have not ended.
pub(super) struct Loaded {
    pub(super) queue: Queue,
    /// The server's time.
    pub(super) now: SystemTime,
    /// Whether this change has been made, and only its answer was lost.
    pub(super) is_done: bool,
}

pub(super) const NOW: &str = "(extract(epoch from clock_timestamp()) * 1000000)::bigint";

impl Tables<'_> {
    pub(super) async fn query(&self, sql: &str, with: &[Parameter<'_>]) -> Result<Vec<Row>, Fault> {
        self.session.query(self.client, &self.session.statements.with_schema(sql), with).await
    }

    /// The server's time.
    pub(super) async fn now(&self) -> Result<SystemTime, Fault> {
        Ok(time(first(&self.query(&format!("select {NOW}"), &[]).await?)?))
    }

    /// A thread, without its values unless they are wanted.
    pub(super) async fn thread(&self, id: &str, with_values: bool) -> Result<Option<ThreadRow>, Fault> {
        let name = escape(id);
        let sql = "select body, case when $2 then vals end from {s}.run_threads where name = $1";
        let rows = self.query(sql, &[(&name, Type::TEXT), (&with_values, Type::BOOL)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut thread: ThreadRow = open(self.vault, THREADS, id, row.try_get(0)?)?;
        let values: Option<Vec<u8>> = row.try_get(1)?;
        thread.values = values.map(|stored| open(self.vault, VALUES, id, stored)).transpose()?;
        Ok(Some(thread))
    }

    /// A thread with its runs that have not ended; until the end of the transaction nobody else changes them.
    pub(super) async fn load(&self, thread: &str, op: Uuid) -> Result<Option<Loaded>, Fault> {
        let name = escape(thread);
        let sql = format!("select body, op, {NOW} from {{s}}.run_threads where name = $1 for update");
        let rows = self.query(&sql, &[(&name, Type::TEXT)]).await?;
        self.loaded(thread, op, &rows).await
    }

    /// The same, unless somebody else is changing it.
    pub(super) async fn load_if_free(&self, thread: &str, op: Uuid) -> Result<Option<Loaded>, Fault> {
        let name = escape(thread);
        let sql = format!("select body, op, {NOW} from {{s}}.run_threads where name = $1 for update skip locked");
        let rows = self.query(&sql, &[(&name, Type::TEXT)]).await?;
        self.loaded(thread, op, &rows).await
    }

    async fn loaded(&self, thread: &str, op: Uuid, rows: &[Row]) -> Result<Option<Loaded>, Fault> {
        let Some(row) = rows.first() else { return Ok(None) };
        let found = open(self.vault, THREADS, thread, row.try_get(0)?)?;
        let (last_op, now): (Option<Uuid>, i64) = (row.try_get(1)?, row.try_get(2)?);
        let name = escape(thread);
        let sql = "select id, body from {s}.runs where thread = $1 and ended is null order by number";
        let live = self.read_runs(&self.query(sql, &[(&name, Type::TEXT)]).await?)?;
        Ok(Some(Loaded { queue: Queue::new(found, live), now: time(now), is_done: last_op == Some(op) }))
    }

    fn read_runs(&self, rows: &[Row]) -> Result<Vec<Run>, Fault> {
        let read = |row: &Row| {
            let id: Uuid = row.try_get(0)?;
            Ok(open(self.vault, RUNS, &id.to_string(), row.try_get(1)?)?)
        };
        rows.iter().map(read).collect()
    }

    pub(super) async fn run(&self, id: Uuid) -> Result<Option<Run>, Fault> {
        let rows = self.query("select id, body from {s}.runs where id = $1", &[(&id, Type::UUID)]).await?;
        Ok(self.read_runs(&rows)?.pop())
    }

    pub(super) async fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, Fault> {
        let name = query.thread.as_deref().map(escape);
        let sql = "select id, body, number from {s}.runs where ($1::text is null or thread = $1) and number < $2
            order by number desc limit $3";
        let (mut found, mut passed, mut below) = (Vec::new(), 0, i64::MAX);
        loop {
            let rows = self.query(sql, &[(&name, Type::TEXT), (&below, Type::INT8), (&PAGE, Type::INT8)]).await?;
            let Some(last) = rows.last() else { return Ok(found) };
            below = last.try_get(2)?;
            for run in self.read_runs(&rows)?.into_iter().filter(|run| query.wants(run)) {
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
    }

    pub(super) async fn next_number(&self) -> Result<u64, Fault> {
        Ok(number(first(&self.query("select nextval('{s}.run_numbers')", &[]).await?)?))
    }

    /// Makes a thread unless it is there.
    pub(super) async fn make_thread(&self, thread: &ThreadRow) -> Result<bool, Fault> {
        let (name, body) = (escape(&thread.id), seal(self.vault, THREADS, &thread.id, thread)?);
        let values = self.sealed_values(thread)?;
        let sql = "insert into {s}.run_threads (name, expires, body, vals) values ($1, $2, $3, $4)
            on conflict do nothing returning 1";
        let expires = expires(thread);
        let with = [
            (&name as _, Type::TEXT),
            (&expires as _, Type::INT8),
            (&body as _, Type::BYTEA),
            (&values as _, Type::BYTEA),
        ];
        Ok(!self.query(sql, &with).await?.is_empty())
    }

    fn sealed_values(&self, thread: &ThreadRow) -> Result<Option<Vec<u8>>, Fault> {
        Ok(thread.values.as_ref().map(|values| seal(self.vault, VALUES, &thread.id, values)).transpose()?)
    }

    /// Stores what has changed, tells other processes, and returns the thread as it is now.
    pub(super) async fn store(&self, queue: Queue, op: Uuid, now: SystemTime) -> Result<ThreadRow, Fault> {
        let (mut thread, change) = queue.changed();
        let Change { put, removed, events, undone, documents, ready, is_crowded, .. } = change;
        for document in &documents {
            self.put_document(document, None).await?;
        }
        for run in &put {
            self.put_run(run).await?;
        }
        if !removed.is_empty() {
            self.query("delete from {s}.runs where id = any($1)", &[(&removed, Type::UUID_ARRAY)]).await?;
        }
        self.put_events(&thread, &events, now).await?;
        if is_crowded {
            self.trim(&mut thread).await?;
        }
        if !undone.is_empty() {
            let plan =
                |history: &delete::History| Deletion::by_runs(history.iter().map(|(name, it)| (name, it)), &undone);
            let change = delete::Change { session: self.session, client: self.client, vault: self.vault };
            change.delete_some(&thread.id, &plan).await?;
        }
        let (name, body) = (escape(&thread.id), seal(self.vault, THREADS, &thread.id, &thread)?);
        let (ready, graph) = ready.map(|(time, graph)| (micros(time), escape(&graph).into_owned())).unzip();
        let (values, expires) = (self.sealed_values(&thread)?, expires(&thread));
        let sql = "update {s}.run_threads set ready = $2, graph = $3, expires = $4, op = $5, body = $6,
                vals = coalesce($7, vals) where name = $1
            returning pg_notify($8, case when length($1) < 4000 then $1 else '' end)";
        let channel = super::channel(self.session);
        let with = [
            (&name as _, Type::TEXT),
            (&ready as _, Type::INT8),
            (&graph as _, Type::TEXT),
            (&expires as _, Type::INT8),
            (&op as _, Type::UUID),
            (&body as _, Type::BYTEA),
            (&values as _, Type::BYTEA),
            (&channel as _, Type::TEXT),
        ];
        self.query(sql, &with).await?;
        Ok(thread)
    }

    async fn put_run(&self, run: &Run) -> Result<(), Fault> {
        let (name, body) = (escape(&run.thread), seal(self.vault, RUNS, &run.id.to_string(), run)?);
        let (at, status, ended) = (integer(run.number), run.status.name(), run.ended.map(micros));
        let sql = "insert into {s}.runs (id, thread, number, status, ended, body) values ($1, $2, $3, $4, $5, $6)
            on conflict (id) do update set status = $4, ended = $5, body = $6";
        let with = [
            (&run.id as _, Type::UUID),
            (&name as _, Type::TEXT),
            (&at as _, Type::INT8),
            (&status as _, Type::TEXT),
            (&ended as _, Type::INT8),
            (&body as _, Type::BYTEA),
        ];
        self.query(sql, &with).await.map(|_| ())
    }

    async fn put_events(&self, thread: &ThreadRow, events: &[NewEvent], now: SystemTime) -> Result<(), Fault> {
        if events.is_empty() {
            return Ok(());
        }
        let first = thread.last_event - events.len() as u64 + 1;
        let numbers: Vec<i64> = (first..).take(events.len()).map(integer).collect();
        let runs: Vec<Option<Uuid>> = events.iter().map(|event| event.run).collect();
        let bytes: Vec<i64> = events.iter().map(|event| integer(event.bytes())).collect();
        let bodies = (first..).zip(events);
        let bodies = bodies.map(|(number, event)| seal(self.vault, EVENTS, &event_key(&thread.id, number), event));
        let bodies = bodies.collect::<Result<Vec<_>, _>>()?;
        let (name, at) = (escape(&thread.id), micros(now));
        let sql = "insert into {s}.events (thread, at, number, run, bytes, body)
            select $1, $2, r.* from unnest($3::bigint[], $4::uuid[], $5::bigint[], $6::bytea[]) r";
        let with = [
            (&name as _, Type::TEXT),
            (&at as _, Type::INT8),
            (&numbers as _, Type::INT8_ARRAY),
            (&runs as _, Type::UUID_ARRAY),
            (&bytes as _, Type::INT8_ARRAY),
            (&bodies as _, Type::BYTEA_ARRAY),
        ];
        self.query(sql, &with).await.map(|_| ())
    }

    async fn trim(&self, thread: &mut ThreadRow) -> Result<(), Fault> {
        let name = escape(&thread.id).into_owned();
        let sql = "select number, bytes from {s}.events where thread = $1 order by number";
        let rows = self.query(sql, &[(&name, Type::TEXT)]).await?;
        let oldest = rows.iter().map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        if let Some(last) = trim(thread, oldest.collect::<Result<Vec<_>, Fault>>()?) {
            let sql = "delete from {s}.events where thread = $1 and number <= $2";
            self.query(sql, &[(&name, Type::TEXT), (&last, Type::INT8)]).await?;
        }
        Ok(())
    }

    /// Those that a query asks for.
    pub(super) async fn search(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, Fault> {
        let early = !query.values.is_empty();
        let ids: Option<Vec<_>> = query.ids.as_ref().map(|ids| ids.iter().map(|id| escape(id)).collect());
        let sql = "select name, body, case when $2 then vals end from {s}.run_threads
            where $1::text[] is null or name = any($1)";
        let mut threads = Vec::new();
        for row in self.query(sql, &[(&ids, Type::TEXT_ARRAY), (&early, Type::BOOL)]).await? {
            let id = unescape(row.try_get(0)?);
            let mut thread: ThreadRow = open(self.vault, THREADS, &id, row.try_get(1)?)?;
            let values: Option<Vec<u8>> = row.try_get(2)?;
            thread.values = values.map(|stored| open(self.vault, VALUES, &id, stored)).transpose()?;
            if query.wants(&thread) {
                threads.push(thread);
            }
        }
        let mut page = query.page(threads);
        if query.with_values && !early {
            for thread in &mut page {
                thread.values = self.values(&thread.id).await?;
            }
        }
        Ok(page)
    }

    async fn values(&self, id: &str) -> Result<Option<Value>, Fault> {
        let name = escape(id);
        let rows = self.query("select vals from {s}.run_threads where name = $1", &[(&name, Type::TEXT)]).await?;
        let stored: Option<Vec<u8>> = rows.first().map(|row| row.try_get(0)).transpose()?.flatten();
        Ok(stored.map(|stored| open(self.vault, VALUES, id, stored)).transpose()?)
    }

    /// The threads that a worker with these graphs may look at, those that have waited longest first.
    pub(super) async fn ready(&self, graphs: Option<&[String]>) -> Result<Vec<String>, Fault> {
        let graphs: Option<Vec<_>> = graphs.map(|graphs| graphs.iter().map(|graph| escape(graph)).collect());
        let sql = format!(
            "select name from {{s}}.run_threads r where ready <= {NOW} and ($1::text[] is null or graph = any($1))
            and not exists (select 1 from {{s}}.threads t where t.name = r.name and t.holder is not null
                and t.leased_until > clock_timestamp())
            order by ready, name limit 100"
        );
        let rows = self.query(&sql, &[(&graphs, Type::TEXT_ARRAY)]).await?;
        rows.iter().map(|row| Ok(unescape(row.try_get(0)?).to_string())).collect()
    }

    pub(super) async fn events(&self, query: &EventQuery) -> Result<Option<EventPage>, Fault> {
        let Some(thread) = self.thread(&query.thread, false).await? else { return Ok(None) };
        let (name, after) = (escape(&query.thread), integer(query.after));
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let sql = "select number, at, body from {s}.events where thread = $1 and number > $2
            and ($3::uuid is null or run = $3) order by number limit $4";
        let with = [
            (&name as _, Type::TEXT),
            (&after as _, Type::INT8),
            (&query.run as _, Type::UUID),
            (&limit as _, Type::INT8),
        ];
        let mut events = Vec::new();
        for row in self.query(sql, &with).await? {
            let at = number(row.try_get(0)?);
            let event = open(self.vault, EVENTS, &event_key(&query.thread, at), row.try_get(2)?)?;
            events.push(EventRow::new(at, time(row.try_get(1)?), event));
        }
        // What was appended between the two statements is in the page, too.
        let last = events.last().map_or(0, |event| event.number).max(thread.last_event);
        Ok(Some(EventPage::new(events, last, thread.gone_events)))
    }
}
