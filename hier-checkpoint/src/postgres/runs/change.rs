//! Changes of a thread's runs: what is there is read, what becomes of it is decided here, and it is stored on condition that nobody
//! else has changed it meanwhile. Two statements, and no transaction that is open while we think.

use std::time::SystemTime;

use hier_core::checkpoint::{Also, Deletion, Lease, SaverError};
use hier_core::runs::{Change, Document, Queue, Run, ThreadRow};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::client::Parameter;
use super::super::delete;
use super::super::fault::Fault;
use super::super::session::first;
use super::super::store::Columns;
use super::super::text::{escape, unescape};
use super::tables::Tables;
use crate::rows::Batch;
use crate::run_rows::{
    DOCUMENTS, EVENTS, RUNS, THREADS, document_key, event_key, expires, integer, micros, number, open, seal, time,
};

/// A thread with its runs as it was read.
#[derive(Clone, Debug)]
pub(in super::super) struct Seen {
    /// The thread, and its runs that have not ended; none if there is no thread.
    pub(super) thread: Option<(ThreadRow, Vec<Run>)>,
    /// The last change.
    pub(super) op: Option<Uuid>,
    /// The server's time.
    pub(super) now: SystemTime,
    /// A number for a new run, if one is to be added.
    pub(super) number: u64,
    /// The run that is there already under the id of the new one.
    pub(super) there: Option<Run>,
}

/// The threads that wait, and the first as it was read.
pub(super) type Waiting = (Vec<String>, Result<Seen, SaverError>);

/// What is stored together with what becomes of the runs.
#[derive(Clone, Copy, Default)]
pub(super) struct Beside<'a> {
    /// The thread has to be held with this lease.
    pub(super) lease: Option<&'a Lease>,
    /// And is released.
    pub(super) ends: bool,
    /// The thread is claimed if a run of it begins, by whom and for how many milliseconds.
    pub(super) claim: Option<(&'a str, i64)>,
    /// Checkpoints, and what tasks have done.
    pub(super) records: Option<&'a Batch>,
    /// What is changed beside the records; not nothing.
    pub(super) also: Option<&'a Also>,
    /// A document that has to have this revision, and is replaced.
    pub(super) document: Option<&'a Document>,
}

/// What came of a change.
#[derive(Debug)]
pub(super) enum Answer {
    /// It is stored. The token of the claim, if there is one.
    Done(u64),
    /// Somebody else has changed the runs since they were read.
    Changed,
    /// The document has another revision.
    Stale,
    /// The thread is not held with the lease.
    Superseded,
    /// Somebody else holds the thread.
    Taken,
    /// The records build on a value of this channel and version, which is not there.
    Lacks(String, Uuid),
}

/// A list for each column.
#[derive(Default)]
struct RunColumns {
    id: Vec<Uuid>,
    number: Vec<i64>,
    status: Vec<&'static str>,
    ended: Vec<Option<i64>>,
    body: Vec<Vec<u8>>,
}

#[derive(Default)]
struct EventColumns {
    number: Vec<i64>,
    run: Vec<Option<Uuid>>,
    bytes: Vec<i64>,
    body: Vec<Vec<u8>>,
}

#[derive(Default)]
struct DocumentColumns {
    kind: Vec<String>,
    id: Vec<String>,
    body: Vec<Vec<u8>>,
}

impl Tables<'_> {
    /// A thread with its runs that have not ended, and what a new run needs if one is to be added under this id.
    /// [`SaverError::Damaged`] if rows of the thread cannot be read.
    pub(super) async fn see(&self, thread: &str, new: Option<Uuid>) -> Result<Seen, Fault> {
        let name = escape(thread);
        let sql = "select * from {s}.runs_of($1, $2) where {own}";
        let rows = self.query_often(sql, &[(&name, Type::TEXT), (&new, Type::UUID)]).await?;
        match rows.first() {
            Some(row) => self.seen(thread, new, row, 0),
            None => Err(Fault::NoConnection("the server answered with no row where there must be one".to_owned())),
        }
    }

    /// The threads that a worker with these graphs may look at, those that have waited longest first; the first as it is. Not those
    /// that are passed over.
    pub(super) async fn waiting(&self, graphs: Option<&[String]>) -> Result<Option<Waiting>, Fault> {
        let passed_over = self.unreadable.threads();
        let without: Vec<_> = passed_over.iter().map(|thread| escape(thread)).collect();
        let graphs: Option<Vec<_>> = graphs.map(|graphs| graphs.iter().map(|graph| escape(graph)).collect());
        let sql = "select w.names, r.* from {s}.waiting($1, $2) w (names), {s}.runs_of(w.names[1], null) r
            where cardinality(w.names) > 0 and {own}";
        let rows = self.query_often(sql, &[(&graphs, Type::TEXT_ARRAY), (&without, Type::TEXT_ARRAY)]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let names: Vec<String> = row.try_get(0)?;
        let names: Vec<String> = names.iter().map(|name| unescape(name).to_string()).collect();
        let first = match self.seen(names.first().map_or("", |name| name), None, row, 1) {
            Err(Fault::Saver(error)) => Err(error),
            read => Ok(read?),
        };
        Ok(Some((names, first)))
    }

    /// From this column on.
    fn seen(&self, thread: &str, new: Option<Uuid>, row: &Row, column: usize) -> Result<Seen, Fault> {
        self.read_seen(thread, new, row, column).map_err(|fault| fault.of_thread(thread))
    }

    fn read_seen(&self, thread: &str, new: Option<Uuid>, row: &Row, column: usize) -> Result<Seen, Fault> {
        let body: Option<Vec<u8>> = row.try_get(column)?;
        let (ids, bodies): (Option<Vec<Uuid>>, Option<Vec<Vec<u8>>>) =
            (row.try_get(column + 3)?, row.try_get(column + 4)?);
        let run = |(id, body): (Uuid, Vec<u8>)| Ok(open(self.vault, RUNS, &id.to_string(), body)?);
        let live = ids.unwrap_or_default().into_iter().zip(bodies.unwrap_or_default());
        let live = live.map(run).collect::<Result<Vec<Run>, Fault>>()?;
        let row_of = |body| Ok::<ThreadRow, Fault>(open(self.vault, THREADS, thread, body)?);
        let thread = body.map(row_of).transpose()?.map(|found| (found, live));
        let there: Option<Vec<u8>> = row.try_get(column + 6)?;
        Ok(Seen {
            thread,
            op: row.try_get(column + 1)?,
            now: time(row.try_get(column + 2)?),
            number: number(row.try_get::<_, Option<i64>>(column + 5)?.unwrap_or_default()),
            there: new.zip(there).map(run).transpose()?,
        })
    }

    /// The token of a thread that this one holds.
    pub(super) async fn token_of(&self, thread: &str, holder: &str) -> Result<Option<u64>, Fault> {
        let name = escape(thread);
        let sql = "select token from {s}.threads where name = $1 and holder = $2";
        let rows = self.query(sql, &[(&name, Type::TEXT), (&holder, Type::TEXT)]).await?;
        Ok(rows.first().map(|row| row.try_get(0)).transpose()?.map(number))
    }

    /// Until the end of the transaction nobody else changes the thread.
    pub(super) async fn hold(&self, thread: &str) -> Result<(), Fault> {
        let name = escape(thread);
        self.query("select 1 from {s}.run_threads where name = $1 for update", &[(&name, Type::TEXT)]).await.map(|_| ())
    }

    /// Deletes the checkpoints of the runs that are undone, in a transaction that holds the thread.
    pub(super) async fn undo(&self, thread: &str, runs: &[String]) -> Result<(), Fault> {
        let plan = |history: &delete::History| Deletion::by_runs(history.iter().map(|(name, it)| (name, it)), runs);
        let change = delete::Change { session: self.session, client: self.client, vault: self.vault };
        change.delete_some(thread, &plan).await.map(|_| ())
    }

    /// Stores what has changed, unless somebody else has changed it since.
    pub(super) async fn put(
        &self,
        seen: &Seen,
        op: Uuid,
        (thread, change): (&ThreadRow, &Change),
        beside: Beside<'_>,
    ) -> Result<Answer, Fault> {
        let (runs, events, documents) =
            (self.runs_of(change)?, self.events_of(thread, change)?, self.documents_of(change)?);
        let (name, body) = (escape(&thread.id), seal(self.vault, THREADS, &thread.id, thread)?);
        let (values, expires, is_new) = (self.sealed_values(thread)?, expires(thread), seen.thread.is_none());
        let ready = change.ready.as_ref();
        let (ready, graph) = ready.map(|(time, graph)| (micros(*time), escape(graph))).unzip();
        let token = beside.lease.map(|lease| i64::try_from(lease.token).unwrap_or(-1));
        let (holder, lasts) = beside.claim.unzip();
        let (kind, id, revision, document) = match beside.document {
            None => (None, None, None, None),
            Some(Document { kind, id, revision, value, .. }) => {
                let body = seal(self.vault, DOCUMENTS, &document_key(kind, id), value)?;
                (Some(escape(kind)), Some(escape(id)), Some(integer(*revision)), Some(body))
            }
        };
        let (at, none) = (micros(seen.now), Batch::default());
        let records = Columns::of(beside.records.unwrap_or(&none));
        let own: [Parameter<'_>; 31] = [
            (&name, Type::TEXT),
            (&seen.op, Type::UUID),
            (&is_new, Type::BOOL),
            (&op, Type::UUID),
            (&ready, Type::INT8),
            (&graph, Type::TEXT),
            (&expires, Type::INT8),
            (&body, Type::BYTEA),
            (&values, Type::BYTEA),
            (&token, Type::INT8),
            (&beside.ends, Type::BOOL),
            (&holder, Type::TEXT),
            (&lasts, Type::INT8),
            (&kind, Type::TEXT),
            (&id, Type::TEXT),
            (&revision, Type::INT8),
            (&document, Type::BYTEA),
            (&runs.id, Type::UUID_ARRAY),
            (&runs.number, Type::INT8_ARRAY),
            (&runs.status, Type::TEXT_ARRAY),
            (&runs.ended, Type::INT8_ARRAY),
            (&runs.body, Type::BYTEA_ARRAY),
            (&change.removed, Type::UUID_ARRAY),
            (&at, Type::INT8),
            (&events.number, Type::INT8_ARRAY),
            (&events.run, Type::UUID_ARRAY),
            (&events.bytes, Type::INT8_ARRAY),
            (&events.body, Type::BYTEA_ARRAY),
            (&documents.kind, Type::TEXT_ARRAY),
            (&documents.id, Type::TEXT_ARRAY),
            (&documents.body, Type::BYTEA_ARRAY),
        ];
        let with: Vec<Parameter<'_>> = own.into_iter().chain(records.parameters()).collect();
        let rows = self.session.query_often(self.client, &self.session.statements.change_runs, &with).await?;
        answer(&first::<Vec<Option<String>>>(&rows)?)
    }

    fn runs_of(&self, change: &Change) -> Result<RunColumns, Fault> {
        let mut columns = RunColumns::default();
        for run in &change.put {
            columns.id.push(run.id);
            columns.number.push(integer(run.number));
            columns.status.push(run.status.name());
            columns.ended.push(run.ended.map(micros));
            columns.body.push(seal(self.vault, RUNS, &run.id.to_string(), run)?);
        }
        Ok(columns)
    }

    fn events_of(&self, thread: &ThreadRow, change: &Change) -> Result<EventColumns, Fault> {
        let first = (thread.last_event + 1).saturating_sub(change.events.len() as u64);
        let mut columns = EventColumns::default();
        for (at, event) in (first..).zip(&change.events) {
            columns.number.push(integer(at));
            columns.run.push(event.run);
            columns.bytes.push(integer(event.bytes()));
            columns.body.push(seal(self.vault, EVENTS, &event_key(&thread.id, at), event)?);
        }
        Ok(columns)
    }

    fn documents_of(&self, change: &Change) -> Result<DocumentColumns, Fault> {
        let mut columns = DocumentColumns::default();
        for Document { kind, id, value, .. } in &change.documents {
            columns.kind.push(escape(kind).into_owned());
            columns.id.push(escape(id).into_owned());
            columns.body.push(seal(self.vault, DOCUMENTS, &document_key(kind, id), value)?);
        }
        Ok(columns)
    }
}

fn answer(told: &[Option<String>]) -> Result<Answer, Fault> {
    let word = |place: usize| told.get(place).and_then(Option::as_deref).unwrap_or_default();
    Ok(match word(0) {
        "done" => Answer::Done(word(1).parse().unwrap_or_default()),
        "changed" => Answer::Changed,
        "stale" => Answer::Stale,
        "superseded" => Answer::Superseded,
        "taken" => Answer::Taken,
        "lacks" => Answer::Lacks(unescape(word(1)).to_string(), word(2).parse().unwrap_or_default()),
        other => return Err(Fault::NoConnection(format!("the server answered `{other}` to a change of runs"))),
    })
}

impl Seen {
    /// What becomes of the thread is decided with this. None if there is no thread.
    pub(super) fn queue(&self) -> Option<Queue> {
        self.thread.as_ref().map(|(thread, live)| Queue::new(thread.clone(), live.clone()))
    }
}
