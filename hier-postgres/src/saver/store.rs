//! Storing a batch with one statement.

use std::sync::Arc;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::Client;
use super::fault::Fault;
use super::session::{Parameter, Session, first};
use super::text::{escape, unescape};
use hier_checkpoint::backend::rows::Batch;

/// The rows of batches, a list for each column; with the place in a list of threads where there are several.
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
    item: Vec<i32>,
    namespace: Vec<Text<'a>>,
    /// None for a checkpoint that has all the values.
    channel: Vec<Option<Text<'a>>>,
    version: Vec<Uuid>,
}

#[derive(Default)]
struct Checkpoints<'a> {
    item: Vec<i32>,
    namespace: Vec<Text<'a>>,
    id: Vec<Uuid>,
    body: Vec<&'a [u8]>,
}

#[derive(Default)]
struct Pieces<'a> {
    item: Vec<i32>,
    namespace: Vec<Text<'a>>,
    channel: Vec<Text<'a>>,
    version: Vec<Uuid>,
    base: Vec<Option<Uuid>>,
    value: Vec<&'a [u8]>,
}

#[derive(Default)]
struct Writes<'a> {
    item: Vec<i32>,
    namespace: Vec<Text<'a>>,
    checkpoint: Vec<Uuid>,
    task: Vec<Uuid>,
    slot: Vec<i32>,
    path: Vec<Text<'a>>,
    channel: Vec<Text<'a>>,
    value: Vec<&'a [u8]>,
}

impl<'a> Columns<'a> {
    pub(super) fn of(batch: &'a Batch, looks: Looks) -> Self {
        let mut columns = Self::default();
        columns.push(1, batch, looks);
        columns
    }

    /// Adds those of the thread in this place.
    pub(super) fn push(&mut self, item: i32, batch: &'a Batch, looks: Looks) {
        for bases in &batch.bases {
            let parent = bases.parent.filter(|_| looks == Looks::ForParents);
            let values = bases.values.iter().map(|base| (Some(escape(&base.channel)), base.version));
            let values = values.filter(|_| parent.is_none());
            for (channel, version) in parent.map(|parent| (None, parent)).into_iter().chain(values) {
                self.bases.item.push(item);
                self.bases.namespace.push(escape(&bases.namespace));
                self.bases.channel.push(channel);
                self.bases.version.push(version);
            }
        }
        for row in &batch.checkpoints {
            self.checkpoints.item.push(item);
            self.checkpoints.namespace.push(escape(&row.namespace));
            self.checkpoints.id.push(row.id);
            self.checkpoints.body.push(&row.body);
        }
        for row in &batch.pieces {
            self.pieces.item.push(item);
            self.pieces.namespace.push(escape(&row.namespace));
            self.pieces.channel.push(escape(&row.channel));
            self.pieces.version.push(row.version);
            self.pieces.base.push(row.base);
            self.pieces.value.push(&row.value);
        }
        for row in &batch.writes {
            self.writes.item.push(item);
            self.writes.namespace.push(escape(&row.namespace));
            self.writes.checkpoint.push(row.checkpoint);
            self.writes.task.push(row.task);
            self.writes.slot.push(row.slot);
            self.writes.path.push(escape(&row.path));
            self.writes.channel.push(escape(&row.channel));
            self.writes.value.push(&row.value);
        }
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

    /// What the statement takes that stores those of several threads.
    pub(super) fn parameters_of_several(&self) -> Vec<Parameter<'_>> {
        let items: [(usize, Parameter<'_>); 4] = [
            (0, (&self.bases.item, Type::INT4_ARRAY)),
            (3, (&self.checkpoints.item, Type::INT4_ARRAY)),
            (6, (&self.pieces.item, Type::INT4_ARRAY)),
            (11, (&self.writes.item, Type::INT4_ARRAY)),
        ];
        let mut all: Vec<Parameter<'_>> = self.parameters().to_vec();
        // The last first, so that the places before it stay.
        for (place, parameter) in items.into_iter().rev() {
            all.insert(place, parameter);
        }
        all
    }
}

/// What is looked for of that which records build on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    /// The checkpoints that have all of it, where they are known.
    ForParents,
    /// Each value.
    ForValues,
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
    match store_looking(session, client, owner, batch, Looks::ForParents).await? {
        // The values may be there all the same.
        None => Ok(store_looking(session, client, owner, batch, Looks::ForValues).await?.unwrap_or(Stored::NotHeld)),
        Some(stored) => Ok(stored),
    }
}

/// None if a checkpoint is not there that would have all that the batch builds on: then nothing is stored.
async fn store_looking(
    session: &Session,
    client: &Client,
    owner: &Owner<'_>,
    batch: &Batch,
    looks: Looks,
) -> Result<Option<Stored>, Fault> {
    let columns = Columns::of(batch, looks);
    let (name, token, key) = match owner {
        Owner::Held(name, token) => (Some(escape(name)), i64::try_from(*token).unwrap_or(-1), None),
        Owner::Unclaimed(key) => (None, 0, Some(*key)),
    };
    let thread: [Parameter<'_>; 3] = [(&name, Type::TEXT), (&token, Type::INT8), (&key, Type::INT8)];
    let with: Vec<Parameter<'_>> = thread.into_iter().chain(columns.parameters()).collect();
    let rows = session.query_often(client, &session.statements.commit, &with).await?;
    let Some(answer) = first::<Option<Vec<Option<String>>>>(&rows)? else { return Ok(Some(Stored::NotHeld)) };
    Ok(match &answer[..] {
        [None, _] => None,
        [Some(channel), Some(version)] => Some(Stored::Lacks(unescape(channel), version.parse().unwrap_or_default())),
        _ => Some(Stored::Done),
    })
}
