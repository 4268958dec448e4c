//! Deletes and copies threads.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use hier_checkpoint::checkpoint::{Checkpoint, Deletion, background};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::fault::Fault;
use super::inbox;
use super::read::{NamespaceReader, optional_uuid_at, uuid_at};
use super::store::{store, store_checkpoint};
use hier_checkpoint::backend::retention::{PAGE_BYTES, PAGE_ROWS, PieceKey, unneeded};
use hier_checkpoint::backend::rows::{Batch, CheckpointRow, PieceRow, open_body, seal_body};
use hier_checkpoint::backend::value_codec::ValueCodec;

/// Checkpoints with their namespaces. The checkpoints of each namespace are ordered from newest to oldest.
pub(super) type History = Vec<(Arc<str>, Checkpoint)>;

pub(super) fn history(connection: &Connection, vault: &ValueCodec, thread: &str) -> Result<History, Fault> {
    let mut all = Vec::new();
    for space in NamespaceReader::all(connection, vault, thread)? {
        let checkpoints = space.checkpoints()?;
        all.extend(checkpoints.into_iter().map(|checkpoint| (space.namespace.clone(), checkpoint)));
    }
    Ok(all)
}

/// Deletes the parts of a thread that the plan selects. Returns the number of deleted checkpoints.
pub(super) fn delete_some(
    connection: &Connection,
    vault: &ValueCodec,
    thread: &str,
    plan: impl FnOnce(&History) -> Deletion,
) -> Result<u64, Fault> {
    let history = history(connection, vault, thread)?;
    let deletion = plan(&history);
    if deletion.is_empty() {
        return Ok(0);
    }
    let mut checkpoints: HashMap<&str, Vec<&Checkpoint>> = HashMap::new();
    for (namespace, checkpoint) in &history {
        checkpoints.entry(namespace).or_default().push(checkpoint);
    }
    for space in NamespaceReader::all(connection, vault, thread)? {
        delete_in(&space, checkpoints.remove(&*space.namespace).unwrap_or_default(), &deletion)?;
    }
    if deletion.ends_lease {
        let sql = "update threads set token = 0, holder = null, leased_until = null where name = ?";
        connection.prepare_cached(sql)?.execute([thread])?;
    }
    Ok(deletion.checkpoints.len() as u64)
}

fn delete_in(space: &NamespaceReader<'_>, checkpoints: Vec<&Checkpoint>, deletion: &Deletion) -> Result<(), Fault> {
    let (gone, kept): (Vec<_>, Vec<_>) = checkpoints.into_iter().partition(|it| deletion.has(&space.namespace, it.id));
    if gone.is_empty() {
        return Ok(());
    }
    if kept.is_empty() {
        return delete_space(space.connection, space.key);
    }
    for checkpoint in gone {
        for sql in [
            "delete from blobs where space = ? and version = ? and channel = 0",
            "delete from writes where space = ? and checkpoint = ?",
            "delete from overwritten where space = ? and checkpoint = ?",
        ] {
            space.connection.prepare_cached(sql)?.execute(params![space.key, checkpoint.id.as_bytes()])?;
        }
    }
    for checkpoint in &kept {
        if checkpoint.parent.is_some_and(|parent| deletion.has(&space.namespace, parent)) {
            cut_off(space, checkpoint)?;
        }
    }
    for (channel, version) in unneeded(kept, &piece_keys(space)?) {
        let sql = "delete from blobs where space = ? and channel = ? and version = ?";
        space.connection.prepare_cached(sql)?.execute(params![space.key, &*channel, version.as_bytes()])?;
    }
    Ok(())
}

/// Stores a checkpoint again, without its parent.
fn cut_off(space: &NamespaceReader<'_>, checkpoint: &Checkpoint) -> Result<(), Fault> {
    let mut checkpoint = checkpoint.clone();
    checkpoint.parent = None;
    let body = seal_body(space.vault, space.thread, &space.namespace, &checkpoint)?;
    let row = CheckpointRow { namespace: space.namespace.clone(), id: checkpoint.id, body };
    store_checkpoint(space.connection, space.key, &row)
}

fn piece_keys(space: &NamespaceReader<'_>) -> Result<Vec<PieceKey>, Fault> {
    let mut statement =
        space.connection.prepare_cached("select channel, version, base from blobs where space = ? and channel <> 0")?;
    let rows =
        statement.query_map([space.key], |row| Ok((row.get(0)?, uuid_at(row, 1)?, optional_uuid_at(row, 2)?)))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn delete_space(connection: &Connection, space: i64) -> Result<(), Fault> {
    for sql in [
        "delete from blobs where space = ?",
        "delete from writes where space = ?",
        "delete from overwritten where space = ?",
        "delete from spaces where key = ?",
    ] {
        connection.prepare_cached(sql)?.execute([space])?;
    }
    Ok(())
}

/// Deletes a thread with all its data, and its background threads. Their leases are superseded.
pub(super) fn delete_thread(connection: &Connection, thread: &str) -> Result<(), Fault> {
    for inner in background_threads(connection, thread)? {
        delete_one(connection, &inner)?;
    }
    delete_one(connection, thread)
}

fn background_threads(connection: &Connection, thread: &str) -> Result<Vec<String>, Fault> {
    let sql = "select name from threads where name >= ?1 and name < ?2
        union select thread from mail where thread >= ?1 and thread < ?2";
    let Range { start, end } = background::names_within(thread);
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_map([start, end], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

fn delete_one(connection: &Connection, thread: &str) -> Result<(), Fault> {
    inbox::delete(connection, thread)?;
    let sql = "select key from threads where name = ?";
    let Some(key) = connection.prepare_cached(sql)?.query_row([thread], |row| row.get::<_, i64>(0)).optional()? else {
        return Ok(());
    };
    let spaces = {
        let mut statement = connection.prepare_cached("select key from spaces where thread = ?")?;
        statement.query_map([key], |row| row.get(0))?.collect::<Result<Vec<i64>, _>>()?
    };
    for space in spaces {
        delete_space(connection, space)?;
    }
    connection.prepare_cached("delete from threads where key = ?")?.execute([key])?;
    Ok(())
}

/// Replaces the history of `to` and of its background threads by a copy of the history of `from`. The copy is sealed
/// again, because encrypted values are bound to their thread.
pub(super) fn copy_thread(connection: &Connection, vault: &ValueCodec, from: &str, to: &str) -> Result<(), Fault> {
    let mut replaced = background_threads(connection, to)?;
    replaced.retain(|name| name != from && !background::is_within(name, from));
    for thread in replaced.iter().map(String::as_str).chain([to]) {
        delete_one(connection, thread)?;
    }
    let spaces = NamespaceReader::all(connection, vault, from)?;
    let newest = spaces.iter().map(|space| space.checkpoint(None)).collect::<Result<Vec<_>, _>>()?;
    if newest.iter().all(Option::is_none) {
        return Ok(());
    }
    let sql = "insert into threads (name, token, time_to_live, expires)
        select ?2, 0, time_to_live, expires from threads where name = ?1 returning key";
    let key: i64 = connection.prepare_cached(sql)?.query_row([from, to], |row| row.get(0))?;
    for space in spaces {
        seal_for(&space, to, |batch| store(connection, key, batch))?;
    }
    inbox::copy(connection, from, to)
}

/// Seals all records of a namespace for the thread `to`, and passes them to `store`. Reads pages of limited size, because
/// the records may exceed the memory.
fn seal_for(space: &NamespaceReader<'_>, to: &str, store: impl Fn(&Batch) -> Result<(), Fault>) -> Result<(), Fault> {
    let mut last = Some((Uuid::nil(), Value::Null));
    while let Some(after) = last {
        let mut batch = Batch::default();
        last = seal_blobs(space, to, &after, &mut batch)?;
        store(&batch)?;
    }
    let mut last = Some((Uuid::nil(), Uuid::nil(), i32::MIN));
    while let Some(after) = last {
        let mut batch = Batch::default();
        last = seal_writes(space, to, after, &mut batch)?;
        store(&batch)?;
    }
    Ok(())
}

/// The bytes that a row of a page costs in addition to its value.
const ROW: usize = PAGE_BYTES / PAGE_ROWS;

/// Seals the page of checkpoints and values that follows a version and a channel. Returns the last version and channel,
/// or `None` at the end.
fn seal_blobs(
    space: &NamespaceReader<'_>,
    to: &str,
    (version, channel): &(Uuid, Value),
    batch: &mut Batch,
) -> Result<Option<(Uuid, Value)>, Fault> {
    let sql = "select version, channel, base, value from blobs
        where space = ?1 and (version, channel) > (?2, ?3) order by version, channel";
    let mut statement = space.connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![space.key, version.as_bytes(), channel])?;
    let (mut last, mut bytes) = (None, 0);
    while bytes < PAGE_BYTES
        && let Some(row) = rows.next()?
    {
        let (namespace, version, value) = (space.namespace.clone(), uuid_at(row, 0)?, row.get::<_, Vec<u8>>(3)?);
        bytes += ROW + value.len();
        let channel: Value = row.get(1)?;
        if let Value::Text(channel) = &channel {
            let (channel, base) = (channel.as_str().into(), optional_uuid_at(row, 2)?);
            let piece = PieceRow { namespace, channel, version, base, value };
            batch.pieces.push(piece.open(space.vault, space.thread)?.seal(space.vault, to)?);
        } else {
            let checkpoint = open_body(space.vault, space.thread, &namespace, version, value)?;
            let body = seal_body(space.vault, to, &namespace, &checkpoint)?;
            batch.checkpoints.push(CheckpointRow { namespace, id: version, body });
        }
        last = Some((version, channel));
    }
    Ok(last)
}

/// Seals the page of writes that follows a checkpoint, a task and a slot. Returns the last checkpoint, task and slot, or
/// `None` at the end.
fn seal_writes(
    space: &NamespaceReader<'_>,
    to: &str,
    (checkpoint, task, slot): (Uuid, Uuid, i32),
    batch: &mut Batch,
) -> Result<Option<(Uuid, Uuid, i32)>, Fault> {
    let sql = "select checkpoint, task, slot, path, channel, value from writes
        where space = ?1 and (checkpoint, task, slot) > (?2, ?3, ?4) order by checkpoint, task, slot";
    let mut statement = space.connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![space.key, checkpoint.as_bytes(), task.as_bytes(), slot])?;
    let (mut last, mut bytes) = (None, 0);
    while bytes < PAGE_BYTES
        && let Some(row) = rows.next()?
    {
        let write = space.write_at(row, row.get(5)?)?;
        bytes += ROW + write.value.len();
        last = Some((write.checkpoint, write.task, write.slot));
        batch.writes.push(write.seal(space.vault, to)?);
    }
    Ok(last)
}

/// Encrypts a thread with the current key.
#[cfg(feature = "encryption")]
pub(super) fn reencrypt(connection: &Connection, vault: &ValueCodec, thread: &str) -> Result<(), Fault> {
    for space in NamespaceReader::all(connection, vault, thread)? {
        let key = connection
            .prepare_cached("select thread from spaces where key = ?")?
            .query_row([space.key], |row| row.get(0))?;
        seal_for(&space, thread, |batch| {
            // Storing the writes would not replace existing ones.
            let sql = "delete from writes where space = ? and checkpoint = ? and task = ? and slot = ?";
            for write in &batch.writes {
                let (checkpoint, task) = (write.checkpoint.as_bytes(), write.task.as_bytes());
                connection.prepare_cached(sql)?.execute(params![space.key, checkpoint, task, write.slot])?;
            }
            store(connection, key, batch)
        })?;
        super::undo::reencrypt(connection, vault, &space)?;
    }
    inbox::reencrypt(connection, vault, thread)
}

/// Returns all threads, or the background threads of these threads.
pub(super) fn names(connection: &Connection, within: Option<&[String]>) -> Result<Vec<String>, Fault> {
    if let Some(outer) = within {
        let found = outer.iter().map(|thread| background_threads(connection, thread));
        return Ok(found.collect::<Result<Vec<_>, _>>()?.concat());
    }
    let mut statement = connection
        .prepare_cached("select name from threads union select thread from mail where taken = 0 or run is not null")?;
    Ok(statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?)
}

/// Checks the integrity of the file and decodes the checkpoints with their values. Returns the problem, if any.
pub(super) fn check(connection: &Connection, vault: &ValueCodec) -> Result<Option<String>, Fault> {
    let report: String = connection.query_row("pragma integrity_check(1)", [], |row| row.get(0))?;
    if report != "ok" {
        return Ok(Some(report));
    }
    for thread in names(connection, None)? {
        for space in NamespaceReader::all(connection, vault, &thread)? {
            let ids: Vec<Uuid> = space.checkpoints()?.iter().map(|checkpoint| checkpoint.id).collect();
            for id in ids {
                let Some(saved) = space.saved(Some(id), &[])? else { continue };
                if let Some((channel, _)) = saved.values.iter().find(|(_, chain)| chain.full.is_none()) {
                    let name = &saved.checkpoint.channels[*channel];
                    return Ok(Some(format!(
                        "checkpoint `{id}` of thread `{thread}` lacks the value of channel `{name}`"
                    )));
                }
            }
        }
    }
    Ok(None)
}
