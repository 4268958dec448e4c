//! Storing a batch with one statement.

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::Client;
use super::fault::Fault;
use super::session::{Session, first};
use super::text::escape;
use crate::rows::Batch;

/// The rows of a batch, a list for each column.
#[derive(Default)]
struct Columns<'a> {
    checkpoints: Checkpoints<'a>,
    pieces: Pieces<'a>,
    writes: Writes<'a>,
}

type Text<'a> = std::borrow::Cow<'a, str>;

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
    fn of(batch: &'a Batch) -> Self {
        let mut columns = Self::default();
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
}

/// Which thread a batch is for.
pub(super) enum Owner<'a> {
    /// The one with this name, if it is held with this token.
    Held(&'a str, u64),
    /// The one with this key, which has never been claimed.
    Unclaimed(i64),
}

/// Stores a batch, and says whether the thread was found.
pub(super) async fn store(session: &Session, client: &Client, owner: &Owner<'_>, batch: &Batch) -> Result<bool, Fault> {
    let columns = Columns::of(batch);
    let Columns { checkpoints: c, pieces: p, writes: w } = &columns;
    let (name, token, key) = match owner {
        Owner::Held(name, token) => (Some(escape(name)), i64::try_from(*token).unwrap_or(-1), None),
        Owner::Unclaimed(key) => (None, 0, Some(*key)),
    };
    let rows = session
        .query(
            client,
            &session.statements.commit,
            &[
                (&name, Type::TEXT),
                (&token, Type::INT8),
                (&key, Type::INT8),
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
            ],
        )
        .await?;
    first(&rows)
}
