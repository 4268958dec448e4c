use std::sync::Arc;

use hier_checkpoint::checkpoint::SideEffects;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::Fault;
use super::lease::{HeldSpace, held_space};
use super::writer::JobClass;
use super::{SHORT_BYTES, inbox, undo};
use hier_checkpoint::backend::rows::{Base, Bases, Batch, CheckpointRow, PieceRow, WriteRow};

/// The number of rows up to which a caller may store a batch itself.
const SHORT_ROWS: usize = 16;

pub(super) fn job_class(batch: &Batch) -> JobClass {
    let (rows, bytes) = batch.size();
    if rows <= SHORT_ROWS && bytes <= SHORT_BYTES { JobClass::Short } else { JobClass::Long }
}

/// Stores a batch under the lease with this token.
pub(super) fn commit(
    connection: &Connection,
    thread: &str,
    token: u64,
    batch: &Batch,
    also: &SideEffects,
) -> Result<(), Fault> {
    let (namespace, parent) = batch.first();
    let asked = (namespace.map(|name| &**name), parent);
    let HeldSpace { held, space, has_checkpoint: has_parent } = held_space(connection, (thread, token), asked)?;
    let last = namespace.cloned().zip(space);
    let mut spaces = NamespaceKeys { connection, thread: held.key, last };
    for (place, bases) in batch.bases.iter().enumerate() {
        if place > 0 || !has_parent {
            check_bases(&mut spaces, thread, bases)?;
        }
    }
    if let Some(run) = also.run {
        for row in &batch.writes {
            undo::keep(connection, run, spaces.key(&row.namespace)?, row)?;
        }
    }
    store_rows(&mut spaces, batch)?;
    inbox::commit(connection, thread, also)?;
    held.touch(connection)
}

/// Refuses deltas whose base does not exist.
fn check_bases(spaces: &mut NamespaceKeys<'_>, thread: &str, bases: &Bases) -> Result<(), Fault> {
    let (connection, space) = (spaces.connection, spaces.known(&bases.namespace)?);
    if let (Some(space), Some(parent)) = (space, bases.parent) {
        let mut statement = connection.prepare_cached("select 1 from checkpoints where space = ? and id = ?")?;
        if statement.exists(params![space, parent.as_bytes()])? {
            return Ok(());
        }
    }
    check_values(connection, space, thread, &bases.values)
}

fn check_values(connection: &Connection, space: Option<i64>, thread: &str, values: &[Base]) -> Result<(), Fault> {
    let mut statement =
        connection.prepare_cached("select 1 from blobs where space = ? and version = ? and channel = ?")?;
    for base in values {
        let is_there = match space {
            Some(space) => statement.exists(params![space, base.version.as_bytes(), &*base.channel])?,
            None => false,
        };
        if !is_there {
            return Err(base.gone(thread).into());
        }
    }
    Ok(())
}

/// Stores a batch in the thread with this key.
pub(super) fn store(connection: &Connection, thread: i64, batch: &Batch) -> Result<(), Fault> {
    store_rows(&mut NamespaceKeys { connection, thread, last: None }, batch)
}

fn store_rows(spaces: &mut NamespaceKeys<'_>, batch: &Batch) -> Result<(), Fault> {
    let connection = spaces.connection;
    for row in &batch.checkpoints {
        store_checkpoint(connection, spaces.key(&row.namespace)?, row)?;
    }
    for row in &batch.pieces {
        store_piece(connection, spaces.key(&row.namespace)?, row)?;
    }
    for row in &batch.writes {
        store_write(connection, spaces.key(&row.namespace)?, row)?;
    }
    Ok(())
}

pub(super) fn store_checkpoint(connection: &Connection, space: i64, row: &CheckpointRow) -> Result<(), Fault> {
    let sql = "insert into blobs (space, channel, version, value) values (?, 0, ?, ?)
        on conflict do update set value = excluded.value";
    connection.prepare_cached(sql)?.execute(params![space, row.id.as_bytes(), row.body])?;
    Ok(())
}

fn store_piece(connection: &Connection, space: i64, row: &PieceRow) -> Result<(), Fault> {
    let PieceRow { channel, version, base, value, .. } = row;
    let base = base.as_ref().map(uuid::Uuid::as_bytes);
    let sql = "insert into blobs (space, channel, version, base, value) values (?, ?, ?, ?, ?)
        on conflict do update set base = excluded.base, value = excluded.value";
    connection.prepare_cached(sql)?.execute(params![space, &**channel, version.as_bytes(), base, value])?;
    Ok(())
}

fn store_write(connection: &Connection, space: i64, row: &WriteRow) -> Result<(), Fault> {
    let WriteRow { checkpoint, task, slot, path, channel, value, .. } = row;
    // A write with a negative slot replaces the existing write.
    let sql = if *slot < 0 {
        "insert into writes (space, checkpoint, task, slot, path, channel, value) values (?, ?, ?, ?, ?, ?, ?)
        on conflict do update set path = excluded.path, channel = excluded.channel, value = excluded.value"
    } else {
        "insert into writes (space, checkpoint, task, slot, path, channel, value) values (?, ?, ?, ?, ?, ?, ?)
        on conflict do nothing"
    };
    let (checkpoint, task) = (checkpoint.as_bytes(), task.as_bytes());
    connection.prepare_cached(sql)?.execute(params![space, checkpoint, task, slot, &**path, &**channel, value])?;
    Ok(())
}

/// The keys of a thread's namespaces. Missing namespaces are created.
struct NamespaceKeys<'a> {
    connection: &'a Connection,
    thread: i64,
    /// The last namespace and its key. Most batches have a single namespace.
    last: Option<(Arc<str>, i64)>,
}

impl NamespaceKeys<'_> {
    fn key(&mut self, namespace: &Arc<str>) -> Result<i64, Fault> {
        let key = match self.known(namespace)? {
            Some(key) => key,
            None => self.make(namespace)?,
        };
        self.last = Some((namespace.clone(), key));
        Ok(key)
    }

    fn known(&mut self, namespace: &Arc<str>) -> Result<Option<i64>, Fault> {
        if let Some((name, key)) = &self.last
            && name == namespace
        {
            return Ok(Some(*key));
        }
        let key = self.find(namespace)?;
        self.last = key.map(|key| (namespace.clone(), key));
        Ok(key)
    }

    fn find(&self, namespace: &str) -> Result<Option<i64>, Fault> {
        let sql = "select key from spaces where thread = ? and name = ?";
        let found = self.connection.prepare_cached(sql)?.query_row(params![self.thread, namespace], |row| row.get(0));
        Ok(found.optional()?)
    }

    fn make(&self, namespace: &str) -> Result<i64, Fault> {
        let sql = "insert into spaces (thread, name) values (?, ?) returning key";
        Ok(self.connection.prepare_cached(sql)?.query_row(params![self.thread, namespace], |row| row.get(0))?)
    }
}
