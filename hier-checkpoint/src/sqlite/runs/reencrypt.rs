//! Seals the rows of the runs anew.

use hier_core::checkpoint::SaverError;
use rusqlite::{Connection, params};
use uuid::Uuid;

use super::super::fault::Fault;
use super::super::read::uuid_at;
use crate::place::Place;
use crate::retention::UnreadRows;
use crate::run_rows::{DOCUMENTS, EVENTS, RUNS, THREADS, VALUES, document_key, event_key, number};
use crate::unreadable::Unreadable;
use crate::vault::Vault;

/// Seals every row anew. Those that cannot be read stay as they are.
pub(in super::super) fn reencrypt(
    connection: &Connection,
    vault: &Vault,
    unreadable: &Unreadable,
) -> Result<UnreadRows, Fault> {
    let mut unread = UnreadRows::default();
    let mut again = |table, key: &str, stored: Vec<u8>| -> Result<Option<Vec<u8>>, SaverError> {
        let place = Place::Row { table, key };
        let opened = unread.pass(vault.open(place, stored), |error| unreadable.tell(error))?;
        opened.map(|opened| vault.seal(place, opened)).transpose()
    };
    let blobs = |sql: &str| -> Result<Vec<(i64, String, Vec<u8>)>, Fault> {
        let mut statement = connection.prepare(sql)?;
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<Result<_, _>>()?)
    };
    for (key, name, body) in blobs("select rowid, name, body from run_threads")? {
        let Some(body) = again(THREADS, &name, body)? else { continue };
        connection.execute("update run_threads set body = ? where rowid = ?", params![body, key])?;
    }
    for (key, name, values) in blobs("select rowid, name, vals from run_threads where vals is not null")? {
        let Some(values) = again(VALUES, &name, values)? else { continue };
        connection.execute("update run_threads set vals = ? where rowid = ?", params![values, key])?;
    }
    for (number_, thread, body) in blobs("select number, thread, body from events")? {
        let Some(body) = again(EVENTS, &event_key(&thread, number(number_)), body)? else { continue };
        connection
            .execute("update events set body = ? where thread = ? and number = ?", params![body, thread, number_])?;
    }
    let mut statement = connection.prepare("select id, body from runs")?;
    let runs = statement.query_map([], |row| Ok((uuid_at(row, 0)?, row.get(1)?)))?;
    for (id, body) in runs.collect::<Result<Vec<(Uuid, Vec<u8>)>, _>>()? {
        let Some(body) = again(RUNS, &id.to_string(), body)? else { continue };
        connection.execute("update runs set body = ? where id = ?", params![body, id.as_bytes()])?;
    }
    let mut statement = connection.prepare("select kind, id, body from documents")?;
    let documents = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    for (kind, id, body) in documents.collect::<Result<Vec<(String, String, Vec<u8>)>, _>>()? {
        let Some(body) = again(DOCUMENTS, &document_key(&kind, &id), body)? else { continue };
        connection.execute("update documents set body = ? where kind = ? and id = ?", params![body, kind, id])?;
    }
    Ok(unread)
}
