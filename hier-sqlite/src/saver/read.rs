//! Reads checkpoints, lists of checkpoints, and threads.

use std::cell::Cell;
use std::sync::Arc;

use hier_checkpoint::checkpoint::{Checkpoint, DeltaChain, ListQuery, Listed, Saved, SaverError, ThreadInfo};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params, params_from_iter};
use uuid::Uuid;

use super::fault::Fault;
use super::lease::{now, time};
use hier_checkpoint::backend::rows::{PieceRow, WriteRow, by_task, is_known, open_body};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The bytes that a row costs in addition to its value.
const ROW: i64 = 256;

/// The remaining number of bytes of a limited read.
pub(super) struct ReadBudget(Cell<i64>);

impl ReadBudget {
    const NONE: i64 = i64::MAX;

    /// Reads a column. The statement returns null for a value that exceeds [`left`](Self::left).
    fn read_column(&self, row: &rusqlite::Row<'_>, column: usize) -> Result<Option<Vec<u8>>, rusqlite::Error> {
        if self.left() == Self::NONE { row.get(column).map(Some) } else { row.get(column) }
    }

    fn left(&self) -> i64 {
        self.0.get()
    }

    /// Subtracts a value from the budget. Returns [`Fault::Long`] if the value exceeds the budget.
    fn charge(&self, value: Option<Vec<u8>>) -> Result<Vec<u8>, Fault> {
        let value = value.ok_or(Fault::Long)?;
        if self.left() != Self::NONE {
            let left = self.left() - ROW - i64::try_from(value.len()).unwrap_or(Self::NONE);
            if left < 0 {
                return Err(Fault::Long);
            }
            self.0.set(left);
        }
        Ok(value)
    }
}

pub(super) struct NamespaceReader<'a> {
    pub(super) connection: &'a Connection,
    pub(super) vault: &'a ValueCodec,
    pub(super) thread: &'a str,
    pub(super) namespace: Arc<str>,
    pub(super) key: i64,
    budget: ReadBudget,
}

impl<'a> NamespaceReader<'a> {
    pub(super) fn find(
        connection: &'a Connection,
        vault: &'a ValueCodec,
        thread: &'a str,
        namespace: &str,
    ) -> Result<Option<Self>, Fault> {
        let sql = "select spaces.key from threads join spaces on spaces.thread = threads.key
            where threads.name = ? and spaces.name = ?";
        let key = connection.prepare_cached(sql)?.query_row(params![thread, namespace], |row| row.get(0)).optional()?;
        Ok(key.map(|key| Self::new(connection, vault, thread, namespace.into(), key)))
    }

    fn new(connection: &'a Connection, vault: &'a ValueCodec, thread: &'a str, namespace: Arc<str>, key: i64) -> Self {
        Self { connection, vault, thread, namespace, key, budget: ReadBudget(Cell::new(ReadBudget::NONE)) }
    }

    /// Limits the stored bytes of a checkpoint and its values. Larger data returns [`Fault::Long`].
    pub(super) fn within(self, bytes: usize) -> Self {
        self.budget.0.set(i64::try_from(bytes).unwrap_or(ReadBudget::NONE));
        self
    }

    pub(super) fn all(connection: &'a Connection, vault: &'a ValueCodec, thread: &'a str) -> Result<Vec<Self>, Fault> {
        let sql = "select spaces.name, spaces.key from threads join spaces on spaces.thread = threads.key
            where threads.name = ? order by spaces.name";
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map([thread], |row| Ok((row.get::<_, Arc<str>>(0)?, row.get(1)?)))?;
        rows.map(|row| row.map(|(namespace, key)| Self::new(connection, vault, thread, namespace, key)))
            .collect::<Result<_, _>>()
            .map_err(Fault::from)
    }

    pub(super) fn checkpoint(&self, id: Option<Uuid>) -> Result<Option<Checkpoint>, Fault> {
        let read = |row: &rusqlite::Row<'_>| Ok((uuid_at(row, 0)?, self.budget.read_column(row, 1)?));
        let one = "select id, case when length(body) <= ?2 then body end from checkpoints where space = ?1 and id = ?3";
        let newest = "select id, case when length(body) <= ?2 then body end from checkpoints where space = ?1 order by id desc limit 1";
        let left = self.budget.left();
        let found = match id {
            Some(id) => self.connection.prepare_cached(one)?.query_row(params![self.key, left, id.as_bytes()], read),
            None => self.connection.prepare_cached(newest)?.query_row(params![self.key, left], read),
        };
        let Some((id, body)) = found.optional()? else { return Ok(None) };
        Ok(Some(open_body(self.vault, self.thread, &self.namespace, id, self.budget.charge(body)?)?))
    }

    /// Returns the checkpoints from newest to oldest.
    pub(super) fn checkpoints(&self) -> Result<Vec<Checkpoint>, Fault> {
        let sql = "select id, body from checkpoints where space = ? order by id desc";
        let mut statement = self.connection.prepare_cached(sql)?;
        let rows = statement.query_map([self.key], |row| Ok((uuid_at(row, 0)?, row.get::<_, Vec<u8>>(1)?)))?;
        rows.map(|row| {
            let (id, body) = row?;
            Ok(open_body(self.vault, self.thread, &self.namespace, id, body)?)
        })
        .collect()
    }

    /// Returns a checkpoint. Omits values that the caller already has in the same version.
    pub(super) fn saved(&self, id: Option<Uuid>, known: &[(Arc<str>, Uuid)]) -> Result<Option<Saved>, Fault> {
        let Some(checkpoint) = self.checkpoint(id)? else { return Ok(None) };
        let mut values = Vec::new();
        for (channel, (name, version)) in checkpoint.channels.iter().zip(checkpoint.versions.iter()).enumerate() {
            if !version.is_nil() && !is_known(known, name, version) {
                values.push((channel, self.chain(name, *version)?));
            }
        }
        let writes = by_task(self.writes(checkpoint.id)?);
        Ok(Some(Saved::new(checkpoint, values, writes)))
    }

    fn chain(&self, channel: &Arc<str>, version: Uuid) -> Result<DeltaChain, Fault> {
        let mut chain = DeltaChain::default();
        let mut next = Some(version);
        while let Some(version) = next {
            let Some(piece) = self.piece(channel, version)? else { break };
            // Each base precedes its deltas. Other data, which hier did not write, could form a cycle.
            next = piece.base.filter(|base| *base < version);
            if piece.base.is_some() {
                chain.deltas.push(piece.value);
            } else {
                chain.full = Some(piece.value);
            }
        }
        chain.deltas.reverse();
        Ok(chain)
    }

    fn piece(&self, channel: &Arc<str>, version: Uuid) -> Result<Option<PieceRow>, Fault> {
        let sql = "select base, case when length(value) <= ?4 then value end from blobs
            where space = ?1 and channel = ?2 and version = ?3";
        let read = |row: &rusqlite::Row<'_>| Ok((optional_uuid_at(row, 0)?, self.budget.read_column(row, 1)?));
        let mut statement = self.connection.prepare_cached(sql)?;
        let key = params![self.key, &**channel, version.as_bytes(), self.budget.left()];
        let Some((base, value)) = statement.query_row(key, read).optional()? else { return Ok(None) };
        let (namespace, channel, value) = (self.namespace.clone(), channel.clone(), self.budget.charge(value)?);
        Ok(Some(PieceRow { namespace, channel, version, base, value }.open(self.vault, self.thread)?))
    }

    /// Returns the decoded writes of a checkpoint.
    fn writes(&self, checkpoint: Uuid) -> Result<Vec<WriteRow>, Fault> {
        let sql =
            "select checkpoint, task, slot, path, channel, case when length(value) <= ?2 then value end from writes
            where space = ?1 and checkpoint = ?3";
        let mut statement = self.connection.prepare_cached(sql)?;
        let mut rows = statement.query(params![self.key, self.budget.left(), checkpoint.as_bytes()])?;
        let mut writes = Vec::new();
        while let Some(row) = rows.next()? {
            writes.push(self.write_at(row, self.budget.charge(self.budget.read_column(row, 5)?)?)?);
        }
        Ok(writes)
    }

    /// Decodes a write from a row that begins with the columns from `checkpoint` to `channel`.
    pub(super) fn write_at(&self, row: &rusqlite::Row<'_>, value: Vec<u8>) -> Result<WriteRow, Fault> {
        let write = WriteRow {
            namespace: self.namespace.clone(),
            checkpoint: uuid_at(row, 0)?,
            task: uuid_at(row, 1)?,
            slot: row.get(2)?,
            path: row.get(3)?,
            channel: row.get(4)?,
            value,
        };
        Ok(write.open(self.vault, self.thread)?)
    }
}

pub(super) fn uuid_at(row: &rusqlite::Row<'_>, column: usize) -> Result<Uuid, rusqlite::Error> {
    row.get(column).map(Uuid::from_bytes)
}

pub(super) fn optional_uuid_at(row: &rusqlite::Row<'_>, column: usize) -> Result<Option<Uuid>, rusqlite::Error> {
    row.get::<_, Option<[u8; 16]>>(column).map(|bytes| bytes.map(Uuid::from_bytes))
}

/// Lists checkpoints from newest to oldest. First selects only ids, so that it reads no more bodies than requested.
pub(super) fn list(connection: &Connection, vault: &ValueCodec, query: &ListQuery) -> Result<Vec<Listed>, Fault> {
    let mut sql = "select threads.name, spaces.name, spaces.key, checkpoints.id from threads
        join spaces on spaces.thread = threads.key join checkpoints on checkpoints.space = spaces.key where true"
        .to_owned();
    let mut wanted: Vec<Value> = Vec::new();
    for (condition, value) in [
        (" and threads.name = ?", query.thread.clone().map(Value::Text)),
        (" and spaces.name = ?", query.namespace.clone().map(Value::Text)),
        (" and checkpoints.id < ?", query.before.map(|id| Value::Blob(id.as_bytes().to_vec()))),
    ] {
        if let Some(value) = value {
            sql.push_str(condition);
            wanted.push(value);
        }
    }
    sql.push_str(" order by checkpoints.id desc, threads.name, spaces.name");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params_from_iter(wanted))?;
    let mut found = Vec::new();
    while found.len() < query.limit.unwrap_or(usize::MAX) {
        let Some(row) = rows.next()? else { break };
        let (thread, namespace, key): (Arc<str>, Arc<str>, _) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let space = NamespaceReader::new(connection, vault, &thread, namespace, key);
        if let Some(checkpoint) = space.checkpoint(Some(uuid_at(row, 3)?))?
            && query.wants(&checkpoint)
        {
            let namespace = space.namespace;
            found.push(Listed::new(thread, namespace, checkpoint));
        }
    }
    Ok(found)
}

pub(super) fn threads(
    connection: &Connection,
    vault: &ValueCodec,
    limit: Option<usize>,
) -> Result<Vec<ThreadInfo>, Fault> {
    let sql = "select threads.name, threads.holder, threads.leased_until, threads.expires, count(*) from threads
        join spaces on spaces.thread = threads.key join checkpoints on checkpoints.space = spaces.key
        group by threads.key order by max(checkpoints.id) desc, threads.name limit ?";
    let limit = limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
    let now = now();
    let mut statement = connection.prepare_cached(sql)?;
    let rows = statement.query_map([limit], |row| {
        let held = row.get::<_, Option<i64>>(2)?.is_some_and(|until| until > now);
        let mut info = ThreadInfo::new(row.get::<_, Arc<str>>(0)?);
        info.checkpoints = row.get::<_, i64>(4)?.unsigned_abs();
        info.holder = row.get::<_, Option<String>>(1)?.filter(|_| held);
        info.expires = row.get::<_, Option<i64>>(3)?.map(time);
        Ok(info)
    })?;
    let mut found = rows.collect::<Result<Vec<_>, _>>()?;
    for info in &mut found {
        if let Some(root) = NamespaceReader::find(connection, vault, &info.thread, "")? {
            info.latest = match root.checkpoint(None) {
                // The thread is listed nevertheless, because other calls use only its name.
                Err(Fault::Saver(SaverError::Damaged { .. })) => None,
                latest => latest?,
            };
        }
    }
    Ok(found)
}
