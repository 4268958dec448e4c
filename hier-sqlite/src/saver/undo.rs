//! Undoes runs. Until a run ends, the saver keeps the writes that the run overwrites and the messages that it consumes.

use rusqlite::{Connection, params};
use uuid::Uuid;

use super::fault::Fault;
use hier_checkpoint::backend::rows::WriteRow;
#[cfg(feature = "encryption")]
use {super::read::NamespaceReader, super::read::uuid_at, hier_checkpoint::backend::value_codec::ValueCodec};

/// Keeps the write that a run is about to change.
pub(super) fn keep(connection: &Connection, run: Uuid, space: i64, row: &WriteRow) -> Result<(), Fault> {
    let sql = "insert into overwritten (run, space, checkpoint, task, slot, path, channel, value)
        select ?1, ?2, ?3, ?4, ?5, old.path, old.channel, old.value from (select 1) left join writes old
            on old.space = ?2 and old.checkpoint = ?3 and old.task = ?4 and old.slot = ?5
        where true on conflict do nothing";
    let (checkpoint, task) = (row.checkpoint.as_bytes(), row.task.as_bytes());
    connection.prepare_cached(sql)?.execute(params![run.as_bytes(), space, checkpoint, task, row.slot])?;
    Ok(())
}

/// Restores the writes that a run has overwritten and the messages that it has consumed.
pub(super) fn undo(connection: &Connection, thread: &str, run: Uuid) -> Result<(), Fault> {
    for sql in [
        "delete from writes where (space, checkpoint, task, slot) in
            (select space, checkpoint, task, slot from overwritten where run = ? and value is null)",
        "insert or replace into writes (space, checkpoint, task, slot, path, channel, value)
            select space, checkpoint, task, slot, path, channel, value from overwritten
            where run = ? and value is not null",
        "delete from overwritten where run = ?",
    ] {
        connection.prepare_cached(sql)?.execute([run.as_bytes()])?;
    }
    let sql = "update mail set taken = 0, run = null where thread = ? and run = ?";
    connection.prepare_cached(sql)?.execute(params![thread, run.as_bytes()])?;
    Ok(())
}

/// Discards the kept records of an ended run.
pub(super) fn settle(connection: &Connection, run: Uuid) -> Result<(), Fault> {
    for sql in
        ["delete from overwritten where run = ?", "update mail set value = x'', size = 0, run = null where run = ?"]
    {
        connection.prepare_cached(sql)?.execute([run.as_bytes()])?;
    }
    Ok(())
}

/// Encrypts the kept records of a namespace with the current key.
#[cfg(feature = "encryption")]
pub(super) fn reencrypt(connection: &Connection, vault: &ValueCodec, space: &NamespaceReader<'_>) -> Result<(), Fault> {
    let sql = "select run, checkpoint, task, slot, path, channel, value from overwritten
        where space = ? and value is not null";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([space.key])?;
    let mut kept = Vec::new();
    while let Some(row) = rows.next()? {
        let write = WriteRow {
            namespace: space.namespace.clone(),
            checkpoint: uuid_at(row, 1)?,
            task: uuid_at(row, 2)?,
            slot: row.get(3)?,
            path: row.get(4)?,
            channel: row.get(5)?,
            value: row.get(6)?,
        };
        kept.push((uuid_at(row, 0)?, write.open(vault, space.thread)?.seal(vault, space.thread)?));
    }
    let sql =
        "update overwritten set value = ? where run = ? and space = ? and checkpoint = ? and task = ? and slot = ?";
    for (run, WriteRow { checkpoint, task, slot, value, .. }) in kept {
        let (run, checkpoint, task) = (run.as_bytes(), checkpoint.as_bytes(), task.as_bytes());
        connection.prepare_cached(sql)?.execute(params![value, run, space.key, checkpoint, task, slot])?;
    }
    Ok(())
}
