//! Stores a batch of records with one statement.

use std::sync::Arc;

use tokio_postgres::types::Type;
use uuid::Uuid;

use super::client::PooledClient;
use super::fault::PostgresFault;
use super::literal::{ArrayLiteral, Bodies, RecordLiteral};
use super::session::{Parameter, PostgresSession, first};
use super::text::{escape, unescape};
use hier_checkpoint::backend::rows::Batch;

/// The rows of batches in the form of the parameters of statements.
#[derive(Default)]
pub(super) struct RecordRows {
    bases: ArrayLiteral,
    checkpoints: ArrayLiteral,
    pieces: ArrayLiteral,
    writes: ArrayLiteral,
}

impl RecordRows {
    /// Adds the rows of a batch. `item` is the number of its thread in the statement.
    pub(super) fn push<'a>(&mut self, item: usize, batch: &'a Batch, check: BaseCheck, bodies: &mut Bodies<'a>) {
        let row = |namespace: &str| RecordLiteral::default().plain(item).text(Some(&escape(namespace)));
        for bases in &batch.bases {
            let parent = bases.parent.filter(|_| check == BaseCheck::Parents);
            if let Some(parent) = parent {
                self.bases.push(row(&bases.namespace).text(None).plain(parent));
                continue;
            }
            for base in &bases.values {
                self.bases.push(row(&bases.namespace).text(Some(&escape(&base.channel))).plain(base.version));
            }
        }
        for checkpoint in &batch.checkpoints {
            let body = bodies.add(&checkpoint.body);
            self.checkpoints.push(row(&checkpoint.namespace).plain(checkpoint.id).plain(body));
        }
        for piece in &batch.pieces {
            let (channel, value) = (escape(&piece.channel), bodies.add(&piece.value));
            let row = row(&piece.namespace).text(Some(&channel)).plain(piece.version).optional(piece.base);
            self.pieces.push(row.plain(value));
        }
        for write in &batch.writes {
            let (path, channel, value) = (escape(&write.path), escape(&write.channel), bodies.add(&write.value));
            let row = row(&write.namespace).plain(write.checkpoint).plain(write.task).plain(write.slot);
            self.writes.push(row.text(Some(&path)).text(Some(&channel)).plain(value));
        }
    }

    /// Returns a value of the type `record_rows`.
    pub(super) fn finish(self) -> String {
        let Self { bases, checkpoints, pieces, writes } = self;
        RecordLiteral::default().array(bases).array(checkpoints).array(pieces).array(writes).finish()
    }

    /// Returns the fields of `record_rows` separately, because the server reads them faster.
    fn finish_arrays(self) -> [String; 4] {
        let Self { bases, checkpoints, pieces, writes } = self;
        [bases, checkpoints, pieces, writes].map(ArrayLiteral::finish)
    }
}

/// The method to check that the base values of deltas exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BaseCheck {
    /// Checks the parent checkpoint if it is known to have all base values.
    Parents,
    /// Checks each base value.
    Values,
}

/// The thread that a batch belongs to.
pub(super) enum BatchOwner<'a> {
    /// The thread with this name, if a lease with this token holds it.
    Held(&'a str, u64),
    /// The thread with this key. The transaction has created or locked the thread, so it needs no lease.
    Unclaimed(i64),
}

pub(super) enum BatchOutcome {
    Stored,
    NotHeld,
    /// A delta of the batch has a base with this channel and version, which does not exist.
    Lacks(Arc<str>, Uuid),
}

/// Stores a batch if its thread is held and the base values of its deltas exist.
pub(super) async fn store_batch(
    session: &PostgresSession,
    client: &PooledClient,
    owner: &BatchOwner<'_>,
    batch: &Batch,
) -> Result<BatchOutcome, PostgresFault> {
    match try_store_batch(session, client, owner, batch, BaseCheck::Parents).await? {
        // The parent checkpoint does not exist, but the base values may exist.
        None => {
            let outcome = try_store_batch(session, client, owner, batch, BaseCheck::Values).await?;
            Ok(outcome.unwrap_or(BatchOutcome::NotHeld))
        }
        Some(outcome) => Ok(outcome),
    }
}

/// Returns `None` and stores nothing if a parent checkpoint does not exist.
async fn try_store_batch(
    session: &PostgresSession,
    client: &PooledClient,
    owner: &BatchOwner<'_>,
    batch: &Batch,
    check: BaseCheck,
) -> Result<Option<BatchOutcome>, PostgresFault> {
    let (mut rows, mut bodies) = (RecordRows::default(), Bodies::default());
    rows.push(1, batch, check, &mut bodies);
    let (name, token) = match owner {
        BatchOwner::Held(name, token) => (Some(escape(name)), i64::try_from(*token).unwrap_or(-1)),
        BatchOwner::Unclaimed(key) => (None, *key),
    };
    let [bases, checkpoints, pieces, writes] = rows.finish_arrays();
    let with: [Parameter<'_>; 7] = [
        (&name, Type::TEXT),
        (&token, Type::INT8),
        (&bases, Type::TEXT),
        (&checkpoints, Type::TEXT),
        (&pieces, Type::TEXT),
        (&writes, Type::TEXT),
        (&bodies.0, Type::BYTEA_ARRAY),
    ];
    let rows = session.query_often(client, &session.statements.commit, &with).await?;
    let Some(answer) = first::<Option<Vec<Option<String>>>>(&rows)? else { return Ok(Some(BatchOutcome::NotHeld)) };
    Ok(match &answer[..] {
        [None, _] => None,
        [Some(channel), Some(version)] => {
            Some(BatchOutcome::Lacks(unescape(channel), version.parse().unwrap_or_default()))
        }
        _ => Some(BatchOutcome::Stored),
    })
}
