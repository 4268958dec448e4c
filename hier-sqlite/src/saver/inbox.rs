//! Inboxes of threads, and the times at which threads are due.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_checkpoint::checkpoint::{
    Delivered, DueChange, DueQuery, DueThread, INBOX_BYTES, InboxMessage, SaverError, SideEffects,
};
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::fault::Fault;
use super::lease::{millis, now, time};
use super::read::uuid_at;
use hier_checkpoint::backend::storage_key::StorageKey;
use hier_checkpoint::backend::value_codec::ValueCodec;

/// Converts to milliseconds since 1970. Rounds up, so that a thread does not wake too early.
fn due_at(at: SystemTime) -> i64 {
    millis(at.duration_since(UNIX_EPOCH).unwrap_or_default().saturating_add(Duration::from_nanos(999_999)))
}

/// Adds a message to an inbox. Returns false if the inbox already has a message with this id.
pub(super) fn post(
    connection: &Connection,
    vault: &ValueCodec,
    thread: &str,
    graph: &str,
    letter: &InboxMessage,
) -> Result<bool, Fault> {
    let InboxMessage { id, signal, value, .. } = letter;
    let sql = "select 1 from mail where thread = ? and id = ?";
    if connection.prepare_cached(sql)?.exists(params![thread, id.as_bytes()])? {
        return Ok(false);
    }
    // The size of a consumed message counts until its run can no longer be rolled back.
    let sql = "select coalesce(sum(size), 0) from mail where thread = ?";
    let kept: i64 = connection.prepare_cached(sql)?.query_row([thread], |row| row.get(0))?;
    let size = letter.size();
    if usize::try_from(kept).unwrap_or(usize::MAX).saturating_add(size) > INBOX_BYTES {
        return Err(SaverError::InboxFull { thread: thread.to_owned() }.into());
    }
    let value = vault.seal(StorageKey::InboxMessage { thread, id: *id, signal: signal.as_deref() }, value.clone())?;
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    connection
        .prepare_cached("insert into mail (thread, id, signal, value, size) values (?, ?, ?, ?, ?)")?
        .execute(params![thread, id.as_bytes(), signal.as_deref(), value, size])?;
    if signal.is_some() {
        // An existing graph is kept, because the runs of a thread determine its graph.
        let sql = "insert into due (thread, graph, at) values (?1, ?2, ?3)
            on conflict (thread) do update set at = min(at, excluded.at)";
        connection.prepare_cached(sql)?.execute(params![thread, graph, now()])?;
    }
    Ok(true)
}

/// Returns the pending messages, in order.
pub(super) fn pending(connection: &Connection, vault: &ValueCodec, thread: &str) -> Result<Vec<Delivered>, Fault> {
    let sql = "select number, id, signal, value from mail where thread = ? and taken = 0 order by number";
    letters(connection, vault, thread, sql)
}

fn letters(connection: &Connection, vault: &ValueCodec, thread: &str, sql: &str) -> Result<Vec<Delivered>, Fault> {
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([thread])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let (number, id) = (row.get::<_, i64>(0)?, uuid_at(row, 1)?);
        let signal = row.get::<_, Option<String>>(2)?;
        let value = vault.open(StorageKey::InboxMessage { thread, id, signal: signal.as_deref() }, row.get(3)?)?;
        let letter = match signal {
            Some(name) => InboxMessage::signal(id, name, value),
            None => InboxMessage::message(id, value),
        };
        found.push(Delivered::new(u64::try_from(number).unwrap_or_default(), letter));
    }
    Ok(found)
}

pub(super) fn commit(connection: &Connection, thread: &str, also: &SideEffects) -> Result<(), Fault> {
    let run = also.run.as_ref().map(Uuid::as_bytes);
    for id in &also.taken {
        // The row stays, so that a repeated message with this id is ignored. The value is needed only if the run that
        // has consumed the message may be rolled back.
        let sql = "update mail set taken = 1, run = ?3, value = case when ?3 is null then x'' else value end,
            size = case when ?3 is null then 0 else size end where thread = ?1 and id = ?2 and taken = 0";
        if connection.prepare_cached(sql)?.execute(params![thread, id.as_bytes(), run])? == 0 {
            return Err(SaverError::no_message(thread, *id).into());
        }
    }
    match &also.due {
        Some(DueChange::NoLaterThan { at, graph }) => no_later_than(connection, thread, graph, due_at(*at)),
        Some(DueChange::Exactly { at, graph, seen }) => {
            let sql = "select 1 from mail where thread = ? and taken = 0 and signal is not null and number > ?";
            let seen = i64::try_from(*seen).unwrap_or(i64::MAX);
            let woken = connection.prepare_cached(sql)?.exists(params![thread, seen])?.then(now);
            connection.prepare_cached("delete from due where thread = ?")?.execute([thread])?;
            match at.map(due_at).into_iter().chain(woken).min() {
                Some(at) => no_later_than(connection, thread, graph, at),
                None => Ok(()),
            }
        }
        Some(DueChange::Driven { until, graph }) => {
            let sql = "insert into due (thread, graph, at, driven) values (?, ?, ?, 1)
                on conflict (thread) do update set graph = excluded.graph, at = min(at, excluded.at), driven = 1";
            connection.prepare_cached(sql)?.execute(params![thread, &**graph, due_at(*until)])?;
            Ok(())
        }
        Some(DueChange::Postponed { until }) => {
            let sql = "update due set at = ? where thread = ?";
            connection.prepare_cached(sql)?.execute(params![due_at(*until), thread])?;
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Copies the due time of a thread to another thread. The copy does not count as driven by a run.
pub(super) fn copy(connection: &Connection, from: &str, to: &str) -> Result<(), Fault> {
    let sql = "insert into due (thread, graph, at) select ?2, graph, at from due where thread = ?1";
    connection.prepare_cached(sql)?.execute(params![from, to])?;
    Ok(())
}

fn no_later_than(connection: &Connection, thread: &str, graph: &str, at: i64) -> Result<(), Fault> {
    let sql = "insert into due (thread, graph, at) values (?1, ?2, ?3)
        on conflict (thread) do update set graph = excluded.graph, at = min(at, excluded.at)";
    connection.prepare_cached(sql)?.execute(params![thread, graph, at])?;
    Ok(())
}

/// Returns the due threads, ordered from the longest overdue.
pub(super) fn due(connection: &Connection, query: &DueQuery) -> Result<Vec<DueThread>, Fault> {
    let by = millis(query.by.duration_since(UNIX_EPOCH).unwrap_or_default());
    let limit = i64::try_from(query.limit).unwrap_or(i64::MAX);
    let mut found = Vec::new();
    let after = query.after.as_ref();
    let since = after.map(|last| millis(last.at.duration_since(UNIX_EPOCH).unwrap_or_default()));
    let last = after.map(|last| &*last.thread);
    let mut statement = connection.prepare_cached(
        "select thread, at, driven from due where graph = ?1 and at <= ?2 and (?4 is null or (at, thread) > (?4, ?5))
        order by at, thread limit ?3",
    )?;
    for graph in &query.graphs {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(DueThread::new(row.get::<_, String>(0)?, time(row.get(1)?)).driven(row.get(2)?))
        };
        found
            .extend(statement.query_map(params![graph, by, limit, since, last], read)?.collect::<Result<Vec<_>, _>>()?);
    }
    found.sort_by(|a, b| (a.at, &a.thread).cmp(&(b.at, &b.thread)));
    found.truncate(query.limit);
    Ok(found)
}

pub(super) fn delete(connection: &Connection, thread: &str) -> Result<(), Fault> {
    connection.prepare_cached("delete from mail where thread = ?")?.execute([thread])?;
    connection.prepare_cached("delete from due where thread = ?")?.execute([thread])?;
    Ok(())
}

/// Encrypts the inbox of a thread with the current key.
#[cfg(feature = "encryption")]
pub(super) fn reencrypt(connection: &Connection, vault: &ValueCodec, thread: &str) -> Result<(), Fault> {
    let sql = "select number, id, signal, value from mail where thread = ? and (taken = 0 or run is not null)";
    for posted in letters(connection, vault, thread, sql)? {
        let InboxMessage { id, signal, value, .. } = posted.message;
        let value = vault.seal(StorageKey::InboxMessage { thread, id, signal: signal.as_deref() }, value)?;
        let sql = "update mail set value = ? where thread = ? and id = ?";
        connection.prepare_cached(sql)?.execute(params![value, thread, id.as_bytes()])?;
    }
    Ok(())
}
