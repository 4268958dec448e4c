//! The statement that stores changes of runs. Changes of different threads can share it. If another process is changing
//! a thread, the statement refuses the change of this thread, so that the other changes do not wait. The refused change
//! then has its own statement.

use std::sync::Arc;

use hier_checkpoint::checkpoint::SaverError;
use hier_runs::{Change, Document, ThreadRow};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::Postgres;
use super::super::batcher::{Batchable, Batcher};
use super::super::client::Parameter;
use super::super::fault::PostgresFault;
use super::super::literal::{ArrayLiteral, Bodies, RecordLiteral};
use super::super::records::{BaseCheck, RecordRows};
use super::super::session::first_row;
use super::super::text::{escape, unescape};
use super::change::{ChangeAnswer, ChangeExtras, LoadedThread};
use super::tables::{RunTables, sealed_values};
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::backend::value_codec::ValueCodec;
use hier_runs::rows::{DOCUMENTS, EVENTS, RUNS, THREADS, document_key, event_key, expires, integer, micros, seal};

/// An encoded change of a thread's runs. Texts are escaped.
#[derive(Debug, Default)]
pub(in super::super) struct ChangeRow {
    pub(super) name: String,
    seen: Option<Uuid>,
    is_new: bool,
    op: Uuid,
    ready: Option<i64>,
    graph: Option<String>,
    expires: Option<i64>,
    body: Vec<u8>,
    values: Option<Vec<u8>>,
    token: Option<i64>,
    ends: bool,
    holder: Option<String>,
    lasts: Option<i64>,
    runs: Vec<RunColumns>,
    removed: Vec<Uuid>,
    at: i64,
    events: Vec<EventColumns>,
    documents: Vec<DocumentColumns>,
    records: Option<Arc<Batch>>,
}

#[derive(Debug)]
struct RunColumns {
    id: Uuid,
    number: i64,
    status: &'static str,
    ended: Option<i64>,
    body: Vec<u8>,
}

#[derive(Debug)]
struct EventColumns {
    number: i64,
    run: Option<Uuid>,
    bytes: i64,
    body: Vec<u8>,
}

#[derive(Debug)]
struct DocumentColumns {
    kind: String,
    id: String,
    /// The revision that the change replaces. With `None`, the change adds the document unless it exists.
    revision: Option<i64>,
    body: Vec<u8>,
}

impl ChangeRow {
    /// Returns true if the change can share a statement with others.
    pub(super) fn may_share(&self) -> bool {
        self.documents.iter().all(|document| document.revision.is_none()) && self.removed.is_empty()
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        let runs = self.runs.iter().map(|run| run.body.len()).sum::<usize>();
        let events = self.events.iter().map(|event| event.body.len()).sum::<usize>();
        let documents = self.documents.iter().map(|document| document.body.len()).sum::<usize>();
        let records = self.records.as_ref().map_or(0, |records| records.size().1);
        self.body.len() + self.values.as_ref().map_or(0, Vec::len) + runs + events + documents + records
    }
}

impl ChangeRow {
    pub(super) fn encode(
        vault: &ValueCodec,
        seen: &LoadedThread,
        op: Uuid,
        (thread, change): (&ThreadRow, &Change),
        extras: ChangeExtras<'_>,
    ) -> Result<Self, SaverError> {
        let (ready, graph) =
            change.ready.as_ref().map(|(time, graph)| (micros(*time), escape(graph).into_owned())).unzip();
        let (holder, lasts) = extras.claim.unzip();
        let replaced = extras.document.map(|document| encode_document(vault, document, Some(document.revision)));
        let added = change.documents.iter().map(|document| encode_document(vault, document, None));
        Ok(Self {
            name: escape(&thread.id).into_owned(),
            seen: seen.op,
            is_new: seen.thread.is_none(),
            op,
            ready,
            graph,
            expires: expires(thread),
            body: seal(vault, THREADS, &thread.id, thread)?,
            values: sealed_values(vault, thread)?,
            token: extras.lease.map(|lease| i64::try_from(lease.token).unwrap_or(-1)),
            ends: extras.ends,
            holder: holder.map(str::to_owned),
            lasts,
            runs: encode_runs(vault, change)?,
            removed: change.removed.clone(),
            at: micros(seen.now),
            events: encode_events(vault, thread, change)?,
            documents: replaced.into_iter().chain(added).collect::<Result<_, _>>()?,
            records: extras.records.cloned(),
        })
    }
}

fn encode_runs(vault: &ValueCodec, change: &Change) -> Result<Vec<RunColumns>, SaverError> {
    let columns = change.put.iter().map(|run| {
        Ok(RunColumns {
            id: run.id,
            number: integer(run.number),
            status: run.status.name(),
            ended: run.ended.map(micros),
            body: seal(vault, RUNS, &run.id.to_string(), run)?,
        })
    });
    columns.collect()
}

fn encode_events(vault: &ValueCodec, thread: &ThreadRow, change: &Change) -> Result<Vec<EventColumns>, SaverError> {
    let first = (thread.last_event + 1).saturating_sub(change.events.len() as u64);
    let columns = (first..).zip(&change.events).map(|(at, event)| {
        let body = seal(vault, EVENTS, &event_key(&thread.id, at), event)?;
        Ok(EventColumns { number: integer(at), run: event.run, bytes: integer(event.bytes()), body })
    });
    columns.collect()
}

fn encode_document(
    vault: &ValueCodec,
    document: &Document,
    replaces: Option<u64>,
) -> Result<DocumentColumns, SaverError> {
    let Document { kind, id, value, .. } = document;
    let body = seal(vault, DOCUMENTS, &document_key(kind, id), value)?;
    let (kind, id) = (escape(kind).into_owned(), escape(id).into_owned());
    Ok(DocumentColumns { kind, id, revision: replaces.map(integer), body })
}

impl Batchable for Arc<ChangeRow> {
    type Answer = ChangeAnswer;

    const MAX_ITEMS: usize = 64;
    const MAX_SIZE: usize = 256 << 10;

    fn size(&self) -> usize {
        self.bytes()
    }

    fn key(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn batcher(postgres: &Postgres) -> &Arc<Batcher<Self>> {
        &postgres.0.thread_changes
    }

    async fn send_batch(postgres: &Postgres, batch: Vec<Self>) -> Vec<ChangeAnswer> {
        postgres.answers_of(postgres.put_shared(&batch).await)
    }
}

impl Postgres {
    async fn put_shared(&self, items: &[Arc<ChangeRow>]) -> Result<Vec<ChangeAnswer>, PostgresFault> {
        let items: Vec<&ChangeRow> = items.iter().map(|item| &**item).collect();
        self.tables(&self.0.session.client().await?).put_all(&items, BaseCheck::Parents, false).await
    }
}

/// The rows of changes in the form of the statement's parameters.
#[derive(Default)]
struct ItemRows<'a> {
    changes: ArrayLiteral,
    runs: ArrayLiteral,
    events: ArrayLiteral,
    documents: ArrayLiteral,
    records: RecordRows,
    bodies: Bodies<'a>,
}

impl<'a> ItemRows<'a> {
    /// Adds a change. `place` is its number in the statement, which starts at 1.
    fn push(&mut self, place: usize, item: &'a ChangeRow, check: BaseCheck) {
        let bodies = &mut self.bodies;
        let row = || RecordLiteral::default().plain(place);
        let change =
            RecordLiteral::default().text(Some(&item.name)).optional(item.seen).plain(item.is_new).plain(item.op);
        let change = change.optional(item.ready).text(item.graph.as_deref()).optional(item.expires);
        let change =
            change.plain(bodies.add(&item.body)).optional(item.values.as_deref().map(|values| bodies.add(values)));
        let change = change.optional(item.token).plain(item.ends).text(item.holder.as_deref()).optional(item.lasts);
        let removed = item.removed.iter().map(Uuid::to_string).collect::<Vec<_>>().join(",");
        self.changes.push(change.text(Some(&format!("{{{removed}}}"))));
        for run in &item.runs {
            let row = row().plain(run.id).plain(run.number).text(Some(run.status)).optional(run.ended);
            self.runs.push(row.plain(bodies.add(&run.body)));
        }
        for event in &item.events {
            let row = row().plain(item.at).plain(event.number).optional(event.run).plain(event.bytes);
            self.events.push(row.plain(bodies.add(&event.body)));
        }
        for document in &item.documents {
            let row = row().text(Some(&document.kind)).text(Some(&document.id)).optional(document.revision);
            self.documents.push(row.plain(bodies.add(&document.body)));
        }
        if let Some(batch) = &item.records {
            self.records.push(place, batch, check, bodies);
        }
    }
}

impl RunTables<'_> {
    /// Stores a change. If another process is changing the thread, waits or refuses the change.
    pub(super) async fn put(&self, item: &ChangeRow, waits: bool) -> Result<ChangeAnswer, PostgresFault> {
        let answer = Box::pin(self.put_all(&[item], BaseCheck::Parents, waits)).await?.pop();
        match answer.unwrap_or(ChangeAnswer::Changed) {
            // The base values may exist nevertheless.
            ChangeAnswer::LacksParent => {
                let answer = Box::pin(self.put_all(&[item], BaseCheck::Values, waits)).await?.pop();
                Ok(answer.unwrap_or(ChangeAnswer::Changed))
            }
            answer => Ok(answer),
        }
    }

    /// Stores changes of different threads in the order of their names. Returns an answer for each change.
    pub(super) async fn put_all(
        &self,
        items: &[&ChangeRow],
        check: BaseCheck,
        waits: bool,
    ) -> Result<Vec<ChangeAnswer>, PostgresFault> {
        let mut rows = ItemRows::default();
        for (place, item) in (1..).zip(items) {
            rows.push(place, item, check);
        }
        let ItemRows { changes, runs, events, documents, records, bodies } = rows;
        let (changes, runs) = (changes.finish(), runs.finish());
        let (events, documents, records) = (events.finish(), documents.finish(), records.finish());
        let with: [Parameter<'_>; 7] = [
            (&waits, Type::BOOL),
            (&changes, Type::TEXT),
            (&runs, Type::TEXT),
            (&events, Type::TEXT),
            (&documents, Type::TEXT),
            (&records, Type::TEXT),
            (&bodies.0, Type::BYTEA_ARRAY),
        ];
        let rows = self.session.query_often(self.client, &self.session.statements.change_threads, &with).await?;
        decode_answers(first_row(&rows)?, items.len())
    }
}

fn decode_answers(row: &Row, count: usize) -> Result<Vec<ChangeAnswer>, PostgresFault> {
    let said: Vec<Option<String>> = row.try_get(0)?;
    let tokens: Option<Vec<Option<i64>>> = row.try_get(1)?;
    let lacking: Option<Vec<i32>> = row.try_get(2)?;
    let (channels, versions): (Option<Vec<Option<String>>>, Option<Vec<Uuid>>) = (row.try_get(3)?, row.try_get(4)?);
    let lacking = lacking.unwrap_or_default();
    if said.len() != count {
        let reason = format!("the server returned {} results for {count} changes of runs", said.len());
        return Err(PostgresFault::NoConnection(reason));
    }
    let lacks = |place: usize| {
        let at = lacking.iter().position(|item| usize::try_from(*item - 1) == Ok(place)).unwrap_or_default();
        let channel = channels.as_ref().and_then(|channels| channels.get(at)?.as_deref());
        let version = versions.as_ref().and_then(|versions| versions.get(at)).copied().unwrap_or_default();
        channel.map_or(ChangeAnswer::LacksParent, |channel| ChangeAnswer::Lacks(unescape(channel).to_string(), version))
    };
    let answer = |(place, said): (usize, Option<String>)| {
        Ok(match said.as_deref() {
            None => {
                let token = tokens.as_ref().and_then(|tokens| *tokens.get(place)?).unwrap_or_default();
                ChangeAnswer::Done(u64::try_from(token).unwrap_or_default())
            }
            Some("changed") => ChangeAnswer::Changed,
            Some("stale") => ChangeAnswer::Stale,
            Some("superseded") => ChangeAnswer::Superseded,
            Some("taken") => ChangeAnswer::Taken,
            Some("alone") => ChangeAnswer::Alone,
            Some("lacks") => lacks(place),
            Some(other) => {
                return Err(PostgresFault::NoConnection(format!(
                    "the server returned the unknown result `{other}` for a change of runs"
                )));
            }
        })
    };
    said.into_iter().enumerate().map(answer).collect()
}
