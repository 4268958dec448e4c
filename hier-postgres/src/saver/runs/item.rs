//! The statement that stores changes of threads' runs: one of a thread, or those of several.

use std::sync::Arc;

use hier_checkpoint::checkpoint::SaverError;
use hier_checkpoint::runs::{Change, Document, ThreadRow};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use super::super::client::Parameter;
use super::super::fault::Fault;
use super::super::sharing::Shares;
use super::super::store::{Columns, Looks};
use super::super::text::{escape, unescape};
use super::change::{Answer, Beside, Seen};
use super::tables::{Tables, sealed_values};
use hier_checkpoint::backend::rows::Batch;
use hier_checkpoint::backend::run_rows::{
    DOCUMENTS, EVENTS, RUNS, THREADS, document_key, event_key, expires, integer, micros, seal,
};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// A change of a thread's runs as it is stored.
#[derive(Debug, Default)]
pub(in super::super) struct Item {
    /// Escaped, as everything in here.
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
    document: Option<Replaced>,
    runs: Vec<RunColumns>,
    gone: Vec<Uuid>,
    at: i64,
    events: Vec<EventColumns>,
    documents: Vec<DocumentColumns>,
    records: Option<Arc<Batch>>,
}

/// A document that has to have this revision, and is replaced.
#[derive(Debug)]
struct Replaced {
    kind: String,
    id: String,
    revision: i64,
    body: Vec<u8>,
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
    body: Vec<u8>,
}

impl Item {
    /// Whether it may be stored together with those of other threads: none of them waits for it.
    pub(super) fn may_share(&self) -> bool {
        self.document.is_none() && self.gone.is_empty() && self.is_small()
    }

    /// About how many bytes it has.
    pub(super) fn bytes(&self) -> usize {
        let runs = self.runs.iter().map(|run| run.body.len()).sum::<usize>();
        let events = self.events.iter().map(|event| event.body.len()).sum::<usize>();
        let documents = self.documents.iter().map(|document| document.body.len()).sum::<usize>();
        let records = self.records.as_ref().map_or(0, |records| records.size().1);
        self.body.len() + self.values.as_ref().map_or(0, Vec::len) + runs + events + documents + records
    }
}

impl Item {
    /// What has changed, to be stored unless somebody else has changed it since.
    pub(super) fn of(
        vault: &ValueCodec,
        seen: &Seen,
        op: Uuid,
        (thread, change): (&ThreadRow, &Change),
        beside: Beside<'_>,
    ) -> Result<Self, SaverError> {
        let (ready, graph) =
            change.ready.as_ref().map(|(time, graph)| (micros(*time), escape(graph).into_owned())).unzip();
        let (holder, lasts) = beside.claim.unzip();
        let document = beside.document.map(|document| {
            let Document { kind, id, revision, value, .. } = document;
            let body = seal(vault, DOCUMENTS, &document_key(kind, id), value)?;
            let (kind, id) = (escape(kind).into_owned(), escape(id).into_owned());
            Ok::<_, SaverError>(Replaced { kind, id, revision: integer(*revision), body })
        });
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
            token: beside.lease.map(|lease| i64::try_from(lease.token).unwrap_or(-1)),
            ends: beside.ends,
            holder: holder.map(str::to_owned),
            lasts,
            document: document.transpose()?,
            runs: runs_of(vault, change)?,
            gone: change.removed.clone(),
            at: micros(seen.now),
            events: events_of(vault, thread, change)?,
            documents: documents_of(vault, change)?,
            records: beside.records.cloned(),
        })
    }
}

fn runs_of(vault: &ValueCodec, change: &Change) -> Result<Vec<RunColumns>, SaverError> {
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

fn events_of(vault: &ValueCodec, thread: &ThreadRow, change: &Change) -> Result<Vec<EventColumns>, SaverError> {
    let first = (thread.last_event + 1).saturating_sub(change.events.len() as u64);
    let columns = (first..).zip(&change.events).map(|(at, event)| {
        let body = seal(vault, EVENTS, &event_key(&thread.id, at), event)?;
        Ok(EventColumns { number: integer(at), run: event.run, bytes: integer(event.bytes()), body })
    });
    columns.collect()
}

fn documents_of(vault: &ValueCodec, change: &Change) -> Result<Vec<DocumentColumns>, SaverError> {
    let columns = change.documents.iter().map(|Document { kind, id, value, .. }| {
        let body = seal(vault, DOCUMENTS, &document_key(kind, id), value)?;
        Ok(DocumentColumns { kind: escape(kind).into_owned(), id: escape(id).into_owned(), body })
    });
    columns.collect()
}

impl Tables<'_> {
    /// Stores a change, which waits for whoever is at work on its thread or is to go alone.
    pub(super) async fn put(&self, item: &Item, waits: bool) -> Result<Answer, Fault> {
        let answer = Box::pin(self.put_all(&[item], Looks::ForParents, waits)).await?.pop();
        match answer.unwrap_or(Answer::Changed) {
            // The values may be there all the same.
            Answer::LacksParent => {
                let answer = Box::pin(self.put_all(&[item], Looks::ForValues, waits)).await?.pop();
                Ok(answer.unwrap_or(Answer::Changed))
            }
            answer => Ok(answer),
        }
    }

    /// Stores changes of different threads, whose names rise, and answers each.
    pub(super) async fn put_all(&self, items: &[&Item], looks: Looks, waits: bool) -> Result<Vec<Answer>, Fault> {
        fn each<'a, T>(items: &[&'a Item], of: impl Fn(&'a Item) -> T) -> Vec<T> {
            items.iter().map(|item| of(item)).collect()
        }
        /// The rows of all, each with the place of its thread.
        fn rows<'a, T>(items: &[&'a Item], of: impl Fn(&'a Item) -> &'a [T]) -> (Vec<i32>, Vec<&'a T>) {
            let numbered = (1..).zip(items);
            numbered.flat_map(|(place, item)| of(item).iter().map(move |row| (place, row))).unzip()
        }
        let (names, seen) = (each(items, |item| &*item.name), each(items, |item| item.seen));
        let (is_new, op) = (each(items, |item| item.is_new), each(items, |item| item.op));
        let (ready, graph) = (each(items, |item| item.ready), each(items, |item| item.graph.as_deref()));
        let (expires, body) = (each(items, |item| item.expires), each(items, |item| &*item.body));
        let (values, token) = (each(items, |item| item.values.as_deref()), each(items, |item| item.token));
        let (ends, holder) = (each(items, |item| item.ends), each(items, |item| item.holder.as_deref()));
        let lasts = each(items, |item| item.lasts);
        // One of these goes alone.
        let document = items.iter().find_map(|item| item.document.as_ref());
        let (kind, id) = document.map(|it| (&*it.kind, &*it.id)).unzip();
        let (revision, replaced) = document.map(|it| (it.revision, &*it.body)).unzip();
        let gone: Vec<Uuid> = items.iter().flat_map(|item| &item.gone).copied().collect();
        let (of_run, runs) = rows(items, |item| &item.runs);
        let run_id: Vec<Uuid> = runs.iter().map(|row| row.id).collect();
        let run_number: Vec<i64> = runs.iter().map(|row| row.number).collect();
        let run_status: Vec<&str> = runs.iter().map(|row| row.status).collect();
        let run_ended: Vec<Option<i64>> = runs.iter().map(|row| row.ended).collect();
        let run_body: Vec<&[u8]> = runs.iter().map(|row| &*row.body).collect();
        let (of_event, events) = rows(items, |item| &item.events);
        let event_at: Vec<i64> =
            of_event.iter().map(|place| usize::try_from(*place - 1).map_or(0, |place| items[place].at)).collect();
        let event_number: Vec<i64> = events.iter().map(|row| row.number).collect();
        let event_run: Vec<Option<Uuid>> = events.iter().map(|row| row.run).collect();
        let event_bytes: Vec<i64> = events.iter().map(|row| row.bytes).collect();
        let event_body: Vec<&[u8]> = events.iter().map(|row| &*row.body).collect();
        let (of_document, documents) = rows(items, |item| &item.documents);
        let document_kind: Vec<&str> = documents.iter().map(|row| &*row.kind).collect();
        let document_id: Vec<&str> = documents.iter().map(|row| &*row.id).collect();
        let document_body: Vec<&[u8]> = documents.iter().map(|row| &*row.body).collect();
        let mut records = Columns::default();
        for (place, item) in (1..).zip(items) {
            if let Some(batch) = &item.records {
                records.push(place, batch, looks);
            }
        }
        let own: [Parameter<'_>; 35] = [
            (&waits, Type::BOOL),
            (&kind, Type::TEXT),
            (&id, Type::TEXT),
            (&revision, Type::INT8),
            (&replaced, Type::BYTEA),
            (&names, Type::TEXT_ARRAY),
            (&seen, Type::UUID_ARRAY),
            (&is_new, Type::BOOL_ARRAY),
            (&op, Type::UUID_ARRAY),
            (&ready, Type::INT8_ARRAY),
            (&graph, Type::TEXT_ARRAY),
            (&expires, Type::INT8_ARRAY),
            (&body, Type::BYTEA_ARRAY),
            (&values, Type::BYTEA_ARRAY),
            (&token, Type::INT8_ARRAY),
            (&ends, Type::BOOL_ARRAY),
            (&holder, Type::TEXT_ARRAY),
            (&lasts, Type::INT8_ARRAY),
            (&of_run, Type::INT4_ARRAY),
            (&run_id, Type::UUID_ARRAY),
            (&run_number, Type::INT8_ARRAY),
            (&run_status, Type::TEXT_ARRAY),
            (&run_ended, Type::INT8_ARRAY),
            (&run_body, Type::BYTEA_ARRAY),
            (&gone, Type::UUID_ARRAY),
            (&of_event, Type::INT4_ARRAY),
            (&event_at, Type::INT8_ARRAY),
            (&event_number, Type::INT8_ARRAY),
            (&event_run, Type::UUID_ARRAY),
            (&event_bytes, Type::INT8_ARRAY),
            (&event_body, Type::BYTEA_ARRAY),
            (&of_document, Type::INT4_ARRAY),
            (&document_kind, Type::TEXT_ARRAY),
            (&document_id, Type::TEXT_ARRAY),
            (&document_body, Type::BYTEA_ARRAY),
        ];
        let with: Vec<Parameter<'_>> = own.into_iter().chain(records.parameters_of_several()).collect();
        let rows = self.session.query_often(self.client, &self.session.statements.change_threads, &with).await?;
        let Some(row) = rows.first() else {
            return Err(Fault::NoConnection("the server answered with no row where there must be one".to_owned()));
        };
        answers(row, items.len())
    }
}

fn answers(row: &Row, count: usize) -> Result<Vec<Answer>, Fault> {
    let said: Vec<Option<String>> = row.try_get(0)?;
    let tokens: Option<Vec<Option<i64>>> = row.try_get(1)?;
    let lacking: Option<Vec<i32>> = row.try_get(2)?;
    let (channels, versions): (Option<Vec<Option<String>>>, Option<Vec<Uuid>>) = (row.try_get(3)?, row.try_get(4)?);
    let lacking = lacking.unwrap_or_default();
    if said.len() != count {
        let reason = format!("the server gave {} answers to {count} changes of runs", said.len());
        return Err(Fault::NoConnection(reason));
    }
    let lacks = |place: usize| {
        let at = lacking.iter().position(|item| usize::try_from(*item - 1) == Ok(place)).unwrap_or_default();
        let channel = channels.as_ref().and_then(|channels| channels.get(at)?.as_deref());
        let version = versions.as_ref().and_then(|versions| versions.get(at)).copied().unwrap_or_default();
        channel.map_or(Answer::LacksParent, |channel| Answer::Lacks(unescape(channel).to_string(), version))
    };
    let answer = |(place, said): (usize, Option<String>)| {
        Ok(match said.as_deref() {
            None => {
                let token = tokens.as_ref().and_then(|tokens| *tokens.get(place)?).unwrap_or_default();
                Answer::Done(u64::try_from(token).unwrap_or_default())
            }
            Some("changed") => Answer::Changed,
            Some("stale") => Answer::Stale,
            Some("superseded") => Answer::Superseded,
            Some("taken") => Answer::Taken,
            Some("alone") => Answer::Alone,
            Some("lacks") => lacks(place),
            Some(other) => {
                return Err(Fault::NoConnection(format!("the server answered `{other}` to a change of runs")));
            }
        })
    };
    said.into_iter().enumerate().map(answer).collect()
}
