//! Storing a batch with one statement.

use std::sync::Arc;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::Client;
use super::fault::Fault;
use super::session::{Parameter, Session, first};
use super::text::{escape, unescape};
use crate::rows::Batch;

/// The rows of a batch, a list for each column.
#[derive(Default)]
pub(super) struct Columns<'a> {
    bases: Bases<'a>,
    checkpoints: Checkpoints<'a>,
    pieces: Pieces<'a>,
    writes: Writes<'a>,
}

type Text<'a> = std::borrow::Cow<'a, str>;

#[derive(Default)]
struct Bases<'a> {
    namespace: Vec<Text<'a>>,
    channel: Vec<Text<'a>>,
    version: Vec<Uuid>,
}

#[derive(Default)]
struct Checkpoints<'a> {
    namespace: Vec<Text<'a>>,
    id: Vec<Uuid>,
    body: Vec<&'a [u8]>,
}

#[derive(Default)]
struct Pieces<'a> {
    namespace: Vec<Text<'a>>,
    channel: Vec<Text<'a>>,
    version: Vec<Uuid>,
    base: Vec<Option<Uuid>>,
    value: Vec<&'a [u8]>,
}

#[derive(Default)]
struct Writes<'a> {
    namespace: Vec<Text<'a>>,
    checkpoint: Vec<Uuid>,
    task: Vec<Uuid>,
    slot: Vec<i32>,
    path: Vec<Text<'a>>,
    channel: Vec<Text<'a>>,
    value: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(batch: &'a Batch) -> Self {
        let mut columns = Self::default();
        for bases in &batch.bases {
            for base in &bases.values {
                columns.bases.namespace.push(escape(&bases.namespace));
                columns.bases.channel.push(escape(&base.channel));
                columns.bases.version.push(base.version);
            }
        }
        for row in &batch.checkpoints {
            columns.checkpoints.namespace.push(escape(&row.namespace));
            columns.checkpoints.id.push(row.id);
            columns.checkpoints.body.push(&row.body);
        }
        for row in &batch.pieces {
            columns.pieces.namespace.push(escape(&row.namespace));
            columns.pieces.channel.push(escape(&row.channel));
            columns.pieces.version.push(row.version);
            columns.pieces.base.push(row.base);
            columns.pieces.value.push(&row.value);
        }
        for row in &batch.writes {
            columns.writes.namespace.push(escape(&row.namespace));
            columns.writes.checkpoint.push(row.checkpoint);
            columns.writes.task.push(row.task);
            columns.writes.slot.push(row.slot);
            columns.writes.path.push(escape(&row.path));
            columns.writes.channel.push(escape(&row.channel));
            columns.writes.value.push(&row.value);
        }
        columns
    }

    /// What the statements that store them take, in their order.
    pub(super) fn parameters(&self) -> [Parameter<'_>; 18] {
        let Self { bases: b, checkpoints: c, pieces: p, writes: w } = self;
        [
            (&b.namespace, Type::TEXT_ARRAY),
            (&b.channel, Type::TEXT_ARRAY),
            (&b.version, Type::UUID_ARRAY),
            (&c.namespace, Type::TEXT_ARRAY),
            (&c.id, Type::UUID_ARRAY),
            (&c.body, Type::BYTEA_ARRAY),
            (&p.namespace, Type::TEXT_ARRAY),
            (&p.channel, Type::TEXT_ARRAY),
            (&p.version, Type::UUID_ARRAY),
            (&p.base, Type::UUID_ARRAY),
            (&p.value, Type::BYTEA_ARRAY),
            (&w.namespace, Type::TEXT_ARRAY),
            (&w.checkpoint, Type::UUID_ARRAY),
            (&w.task, Type::UUID_ARRAY),
            (&w.slot, Type::INT4_ARRAY),
            (&w.path, Type::TEXT_ARRAY),
            (&w.channel, Type::TEXT_ARRAY),
            (&w.value, Type::BYTEA_ARRAY),
        ]
    }
}

/// Which thread a batch is for.
pub(super) enum Owner<'a> {
    /// The one with this name, if it is held with this token.
    Held(&'a str, u64),
    /// The one with this key, which has never been claimed.
    Unclaimed(i64),
}

/// The result of a batch.
pub(super) enum Stored {
    Done,
    /// The thread is not held.
    NotHeld,
    /// It builds on a value of this channel and version, which is not there.
    Lacks(Arc<str>, Uuid),
}

/// Stores a batch, if its thread is held and what it builds on is there.
pub(super) async fn store(
    session: &Session,
    client: &Client,
    owner: &Owner<'_>,
    batch: &Batch,
) -> Result<Stored, Fault> {
    let columns = Columns::of(batch);
    let (name, token, key) = match owner {
        Owner::Held(name, token) => (Some(escape(name)), i64::try_from(*token).unwrap_or(-1), None),
        Owner::Unclaimed(key) => (None, 0, Some(*key)),
    };
    let thread: [Parameter<'_>; 3] = [(&name, Type::TEXT), (&token, Type::INT8), (&key, Type::INT8)];
    let with: Vec<Parameter<'_>> = thread.into_iter().chain(columns.parameters()).collect();
    let rows = session.query_often(client, &session.statements.commit, &with).await?;
    let Some(answer) = first::<Option<Vec<String>>>(&rows)? else { return Ok(Stored::NotHeld) };
    match &answer[..] {
        [channel, version] => Ok(Stored::Lacks(unescape(channel), version.parse().unwrap_or_default())),
        _ => Ok(Stored::Done),
    }
}
