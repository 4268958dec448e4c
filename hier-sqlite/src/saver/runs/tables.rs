//! The tables of the runs, on a connection. The connection may be in a transaction.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::SystemTime;

use hier_checkpoint::checkpoint::{Deletion, SaverError, background};
use hier_runs::{
    Change, EventPage, EventQuery, EventRow, NewEvent, Queue, Run, RunQuery, RunStatus, ThreadChange, ThreadQuery,
    ThreadRow, ThreadSnapshot,
};
use rusqlite::{Connection, OptionalExtension, params};
use serde_json::Value;
use uuid::Uuid;

use super::super::fault::Fault;
use super::super::lease::now as now_millis;
use super::super::read::uuid_at;
use super::super::{delete, undo};
use hier_checkpoint::backend::unreadable::Unreadable;
use hier_checkpoint::backend::value_codec::ValueCodec;
use hier_runs::rows::{
    EVENTS, RUNS, THREADS, VALUES, event_key, expires, integer, micros, number, open, open_event, open_live, open_run,
    seal, time, trim,
};

/// The maximum number of old runs that one transaction deletes, so that writers wait only briefly.
pub(super) const OLD_RUNS: u64 = 1_000;

#[derive(Clone, Copy)]
pub(super) struct RunTables<'a> {
    pub(super) connection: &'a Connection,
    pub(super) vault: &'a ValueCodec,
    pub(super) unreadable: &'a Unreadable,
    /// The maximum number of stored bytes of a row. Larger rows return [`Fault::Long`].
    pub(super) longest: usize,
}

impl RunTables<'_> {
    /// Returns a thread, with its values if requested.
    pub(super) fn thread(&self, id: &str, with_values: bool) -> Result<Option<ThreadRow>, Fault> {
        let sql = "select case when length(body) + case when ?3 then coalesce(length(vals), 0) else 0 end <= ?2 then body end,
            case when ?3 and length(vals) <= ?2 then vals end from run_threads where name = ?1";
        let longest = integer(self.longest as u64);
        let row = |row: &rusqlite::Row<'_>| Ok((row.get::<_, Option<Vec<u8>>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?));
        let found =
            self.connection.prepare_cached(sql)?.query_row(params![id, longest, with_values], row).optional()?;
        let Some((body, values)) = found else { return Ok(None) };
        let mut thread: ThreadRow = open(self.vault, THREADS, id, body.ok_or(Fault::Long)?)?;
        thread.values = values.map(|stored| open(self.vault, VALUES, id, stored)).transpose()?;
        Ok(Some(thread))
    }

    pub(super) fn has_thread(&self, id: &str) -> Result<bool, Fault> {
        Ok(self.connection.prepare_cached("select 1 from run_threads where name = ?")?.exists([id])?)
    }

    fn values(&self, id: &str) -> Result<Option<Value>, Fault> {
        let sql = "select vals from run_threads where name = ?";
        let found = self.connection.prepare_cached(sql)?.query_row([id], |row| row.get::<_, Option<Vec<u8>>>(0));
        let found = found.optional()?.flatten();
        Ok(found.map(|stored| open(self.vault, VALUES, id, stored)).transpose()?)
    }

    /// Returns a thread with its unfinished runs, and the number for a new run if the change adds one. Returns
    /// [`SaverError::Damaged`] if its rows cannot be read.
    pub(super) fn snapshot(&self, change: &ThreadChange, now: SystemTime) -> Result<ThreadSnapshot, Fault> {
        let is_taken = match change.new_run().and_then(|run| run.id) {
            Some(id) => self.run(id)?.is_some(),
            None => false,
        };
        let queue = self.read_queue(&change.thread).map_err(|fault| fault.of_thread(&change.thread))?;
        let number = if change.new_run().is_some() { self.next_number()? } else { 0 };
        Ok(ThreadSnapshot { number, is_taken, ..ThreadSnapshot::new(queue, now) })
    }

    fn read_queue(&self, thread: &str) -> Result<Option<Queue>, Fault> {
        let Some(row) = self.thread(thread, false)? else { return Ok(None) };
        let sql = "select id, body from runs indexed by runs_live where thread = ? and ended is null";
        let live = self.read_runs(sql, params![thread], |id, body| open_live(self.vault, id, thread, body))?;
        Ok(Some(Queue::new(row, live)))
    }

    fn read_runs(
        &self,
        sql: &str,
        params: impl rusqlite::Params,
        read: impl Fn(Uuid, Vec<u8>) -> Result<Run, SaverError>,
    ) -> Result<Vec<Run>, Fault> {
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, |row| Ok((uuid_at(row, 0)?, row.get::<_, Option<Vec<u8>>>(1)?)))?;
        rows.map(|row| {
            let (id, body) = row?;
            Ok(read(id, body.ok_or(Fault::Long)?)?)
        })
        .collect()
    }

    pub(super) fn run(&self, id: Uuid) -> Result<Option<Run>, Fault> {
        let sql = "select id, case when length(body) <= ?2 then body end from runs where id = ?1";
        let params = params![id.as_bytes(), integer(self.longest as u64)];
        Ok(self.read_runs(sql, params, |id, body| open_run(self.vault, id, None, body))?.pop())
    }

    pub(super) fn runs(&self, query: &RunQuery) -> Result<Vec<Run>, Fault> {
        let thread = if query.thread.is_some() { "thread = ?" } else { "? is null" };
        let sql = if query.is_live() {
            // Sorts without the bodies. Without a limit, SQLite would ignore the order of the subquery.
            format!(
                "select r.id, r.body from (
                    select rowid as place from runs indexed by runs_live
                    where {thread} and number < ? and ended is null order by number desc limit -1
                ) live cross join runs r on r.rowid = live.place"
            )
        } else {
            format!("select id, body from runs where {thread} and number < ? order by number desc")
        };
        let mut statement = self.connection.prepare_cached(&sql)?;
        let mut rows = statement.query(params![query.thread, query.before.map_or(i64::MAX, integer)])?;
        let (mut found, mut passed) = (Vec::new(), 0);
        while let Some(row) = rows.next()? {
            if found.len() == query.limit {
                break;
            }
            let run = open_run(self.vault, uuid_at(row, 0)?, query.thread.as_deref(), row.get(1)?);
            // An unreadable run fails a query for its thread. A query for all threads omits the run.
            let run = if query.thread.is_some() { Some(run?) } else { self.unreadable.ok_or_log(run) };
            let Some(run) = run.filter(|run| query.wants(run)) else { continue };
            if passed < query.offset {
                passed += 1;
            } else {
                found.push(run);
            }
        }
        Ok(found)
    }

    fn next_number(&self) -> Result<u64, Fault> {
        let sql = "update run_numbers set last = last + 1 returning last";
        Ok(number(self.connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?))
    }

    /// Stores a change and returns the resulting thread.
    pub(super) fn store(&self, queue: Queue, now: SystemTime) -> Result<ThreadRow, Fault> {
        let runs = queue.live().iter().any(|run| run.status == RunStatus::Running);
        let (mut thread, change) = queue.changed();
        let Change { put, removed, events, undone, settled, documents, ready, is_crowded, .. } = change;
        for document in &documents {
            self.put_document(document, None)?;
        }
        for run in &put {
            self.put_run(run)?;
        }
        for id in removed {
            self.connection.prepare_cached("delete from runs where id = ?")?.execute([id.as_bytes()])?;
        }
        let first = thread.last_event - events.len() as u64 + 1;
        for (event, number) in events.iter().zip(first..) {
            self.put_event(&thread.id, number, event, now)?;
        }
        if is_crowded {
            self.trim(&mut thread)?;
        }
        for run in undone {
            undo::undo(self.connection, &thread.id, run)?;
            // The lease on the thread stays.
            let plan = |history: &delete::History| Deletion {
                ends_lease: false,
                ..Deletion::by_runs(history.iter().map(|(namespace, it)| (namespace, it)), &[run.to_string()])
            };
            delete::delete_some(self.connection, self.vault, &thread.id, plan)?;
        }
        for run in settled {
            undo::settle(self.connection, run)?;
        }
        let ready = ready.map(|(time, graph)| (if runs { -micros(time) } else { micros(time) }, graph));
        self.put_thread(&thread, ready)?;
        Ok(thread)
    }

    /// Stores a thread. `ready` contains the time from which a worker may claim the thread, and the graph that the
    /// worker needs. The time is negative while a run of the thread is in progress, so that a query for waiting threads
    /// skips such threads.
    pub(super) fn put_thread(&self, thread: &ThreadRow, ready: Option<(i64, String)>) -> Result<(), Fault> {
        let body = seal(self.vault, THREADS, &thread.id, thread)?;
        let values = thread.values.as_ref().map(|values| seal(self.vault, VALUES, &thread.id, values)).transpose()?;
        let (ready, graph) = ready.unzip();
        let sql = "insert into run_threads (name, ready, graph, expires, body, vals) values (?1, ?2, ?3, ?4, ?5, ?6)
            on conflict (name) do update set ready = ?2, graph = ?3, expires = ?4, body = ?5, vals = coalesce(?6, vals)";
        self.connection.prepare_cached(sql)?.execute(params![
            thread.id,
            ready,
            graph,
            expires(thread),
            body,
            values
        ])?;
        Ok(())
    }

    fn put_run(&self, run: &Run) -> Result<(), Fault> {
        let body = seal(self.vault, RUNS, &run.id.to_string(), run)?;
        let sql = "insert into runs (id, thread, number, status, ended, body) values (?1, ?2, ?3, ?4, ?5, ?6)
            on conflict (id) do update set status = ?4, ended = ?5, body = ?6";
        let ended = run.ended.map(micros);
        let (id, number) = (run.id.as_bytes(), integer(run.number));
        self.connection.prepare_cached(sql)?.execute(params![
            id,
            run.thread,
            number,
            run.status.name(),
            ended,
            body
        ])?;
        Ok(())
    }

    fn put_event(&self, thread: &str, number: u64, event: &NewEvent, now: SystemTime) -> Result<(), Fault> {
        let body = seal(self.vault, EVENTS, &event_key(thread, number), event)?;
        let run = event.run.as_ref().map(Uuid::as_bytes);
        let sql = "insert into events (thread, number, at, run, bytes, body) values (?, ?, ?, ?, ?, ?)";
        let bytes = integer(event.bytes());
        self.connection.prepare_cached(sql)?.execute(params![
            thread,
            integer(number),
            micros(now),
            run,
            bytes,
            body
        ])?;
        Ok(())
    }

    fn trim(&self, thread: &mut ThreadRow) -> Result<(), Fault> {
        let mut statement =
            self.connection.prepare_cached("select number, bytes from events where thread = ? order by number")?;
        let rows = statement.query_map([&thread.id], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let oldest = rows.collect::<Result<Vec<(i64, i64)>, _>>()?;
        if let Some(last) = trim(thread, oldest) {
            let sql = "delete from events where thread = ? and number <= ?";
            self.connection.prepare_cached(sql)?.execute(params![thread.id, last])?;
        }
        Ok(())
    }

    pub(super) fn search(&self, query: &ThreadQuery) -> Result<Vec<ThreadRow>, Fault> {
        let early = !query.values.is_empty();
        let mut threads = Vec::new();
        let mut add = |mut thread: ThreadRow| {
            if query.wants(&thread) {
                // The values of all matching threads may exceed the memory.
                thread.values = None;
                threads.push(thread);
            }
        };
        if let Some(ids) = &query.ids {
            for id in ids.iter().collect::<BTreeSet<_>>() {
                self.thread(id, early)?.into_iter().for_each(&mut add);
            }
        } else {
            let mut statement = self.connection.prepare_cached("select name, body from run_threads")?;
            let mut rows = statement.query([])?;
            while let Some(row) = rows.next()? {
                let id: String = row.get(0)?;
                let read = open::<ThreadRow>(self.vault, THREADS, &id, row.get(1)?);
                let Some(mut thread) = self.unreadable.ok_or_log(read) else { continue };
                if early && !self.has_values(&mut thread)? {
                    continue;
                }
                add(thread);
            }
        }
        let mut matched = query.clone();
        matched.values.clear();
        let mut page = matched.page(threads);
        if query.with_values {
            for thread in &mut page {
                self.has_values(thread)?;
            }
        }
        Ok(page)
    }

    /// Loads the values of a thread. Returns false if they cannot be read.
    fn has_values(&self, thread: &mut ThreadRow) -> Result<bool, Fault> {
        match self.values(&thread.id) {
            Ok(values) => thread.values = values,
            Err(Fault::Saver(error)) => {
                self.unreadable.log(&error);
                return Ok(false);
            }
            Err(fault) => return Err(fault),
        }
        Ok(true)
    }

    /// Returns the threads that a worker with these graphs may claim, ordered from the longest wait. If `lost` is true,
    /// starts with the threads of lost workers. Skips threads that are known to be unreadable.
    pub(super) fn ready(
        &self,
        graphs: Option<&[String]>,
        now: SystemTime,
        most: usize,
        lost: bool,
    ) -> Result<Vec<String>, Fault> {
        let graphs = graphs.map(|graphs| Value::from(graphs.to_vec()).to_string());
        let without = Value::from(self.unreadable.threads()).to_string();
        let sql = "select name from run_threads
            where ready <= ?1 and ready >= ?6 and (?2 is null or graph in (select value from json_each(?2)))
            and name not in (select value from json_each(?4))
            and not exists (select 1 from threads where threads.name = run_threads.name and holder is not null
                and leased_until > ?3 and leased_until <= ?3 + coalesce(lasts, leased_until))
            order by ready, name limit ?5";
        let mut statement = self.connection.prepare_cached(sql)?;
        let (most, first) = (integer(most as u64), if lost { i64::MIN } else { 0 });
        let rows =
            statement.query_map(params![micros(now), graphs, now_millis(), without, most, first], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub(super) fn events(&self, query: &EventQuery) -> Result<Option<EventPage>, Fault> {
        let sql = "select number, at, body from events where thread = ?1 and number > ?2 and (?3 is null or run = ?3)
            order by number limit ?4";
        let run = query.run.as_ref().map(Uuid::as_bytes);
        let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map(params![query.thread, integer(query.after), run, limit], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?, row.get::<_, Vec<u8>>(2)?))
        })?;
        let mut events = Vec::new();
        for row in rows {
            let (at_number, at, body) = row?;
            let at_number = number(at_number);
            let event = open_event(self.vault, &query.thread, at_number, query.run, body)?;
            events.push(EventRow::new(at_number, time(at), event));
        }
        // The thread is read last. If the caller already knows this thread, all events above belong to it.
        let thread = self.thread(&query.thread, false)?;
        Ok(thread.map(|thread| EventPage::new(events, &thread)))
    }

    /// Returns the threads that have events from before this time.
    pub(super) fn with_old_events(&self, cutoff: SystemTime) -> Result<Vec<String>, Fault> {
        let mut statement = self.connection.prepare_cached("select distinct thread from events where at < ?")?;
        let rows = statement.query_map([micros(cutoff)], |row| row.get(0))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Deletes the events of a thread from before this time, and returns their number.
    pub(super) fn prune_events(&self, name: &str, cutoff: SystemTime) -> Result<u64, Fault> {
        // The row of the thread counts its events. If the row cannot be read, the events stay.
        let thread = match self.thread(name, false).map_err(|fault| fault.of_thread(name)) {
            Err(Fault::Saver(error @ SaverError::Damaged { .. })) => {
                self.unreadable.log(&error);
                return Ok(0);
            }
            read => read?,
        };
        let sql =
            "select max(number), count(*), sum(bytes) from events where thread = ? and at < ? having count(*) > 0";
        let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let old = self.connection.prepare_cached(sql)?.query_row(params![name, micros(cutoff)], read);
        let Some((last, count, bytes)) = old.optional()? else { return Ok(0) };
        let sql = "delete from events where thread = ? and at < ?";
        self.connection.prepare_cached(sql)?.execute(params![name, micros(cutoff)])?;
        if let Some(mut thread) = thread {
            thread.gone_events = thread.gone_events.max(number(last));
            thread.event_bytes = thread.event_bytes.saturating_sub(number(bytes));
            let body = seal(self.vault, THREADS, name, &thread)?;
            let sql = "update run_threads set body = ? where name = ?";
            self.connection.prepare_cached(sql)?.execute(params![body, name])?;
        }
        Ok(number(count))
    }

    /// Deletes at most [`OLD_RUNS`] runs that ended before this time, and returns their number.
    pub(super) fn prune_runs(&self, cutoff: SystemTime) -> Result<u64, Fault> {
        let sql = "delete from runs where id in (select id from runs where ended < ? limit ?)";
        let deleted = self.connection.prepare_cached(sql)?.execute(params![micros(cutoff), integer(OLD_RUNS)])?;
        Ok(deleted as u64)
    }
}

/// Deletes the runs, the events and the rows of a thread and of its background threads. Returns false if the thread has
/// no row.
pub(in super::super) fn remove(connection: &Connection, thread: &str) -> Result<bool, Fault> {
    let Range { start, end } = background::names_within(thread);
    for (table, name) in [("runs", "thread"), ("events", "thread"), ("run_threads", "name")] {
        let within = format!("delete from {table} where {name} >= ? and {name} < ?");
        connection.prepare_cached(&within)?.execute([&start, &end])?;
    }
    for sql in ["delete from runs where thread = ?", "delete from events where thread = ?"] {
        connection.prepare_cached(sql)?.execute([thread])?;
    }
    Ok(connection.prepare_cached("delete from run_threads where name = ?")?.execute([thread])? > 0)
}
