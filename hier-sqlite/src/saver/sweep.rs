//! Deletes expired threads.

use std::time::SystemTime;

use hier_checkpoint::checkpoint::{SaverError, background};
use hier_runs::rows::micros;
use rusqlite::{Connection, params};

use super::fault::Fault;
use super::lease::now;
use super::runs::tables::remove;
use super::writer::JobClass;
use super::{Sqlite, delete};

impl Sqlite {
    /// Deletes expired threads and returns their number. A background thread expires with its outer thread. Also
    /// deletes rows of threads without namespaces and without a holder.
    ///
    /// First reads the names. Then deletes each thread in a separate transaction, so that writers wait only briefly.
    pub(super) async fn sweep_threads(&self) -> Result<u64, SaverError> {
        let found = self.read(|connection| Ok((expired(connection)?, has_empty(connection)?)));
        let (threads, has_empty) = found.await?;
        let swept = self.delete_expired(threads).await;
        if !matches!(swept, Ok(0)) {
            self.0.conversations.forget_all();
        }
        if has_empty {
            self.0.writer.submit(JobClass::Alone, delete_empty).await?;
        }
        swept
    }

    async fn delete_expired(&self, threads: Vec<String>) -> Result<u64, SaverError> {
        let mut deleted = 0;
        for thread in threads {
            let work = move |connection: &Connection| delete_if_expired(connection, &thread);
            deleted += u64::from(self.0.writer.submit(JobClass::Alone, work).await?);
        }
        Ok(deleted)
    }
}

/// Expired threads of the run store. The parameter is the time in microseconds.
const EXPIRED_ROWS: &str = "select name from run_threads where expires < ?1";
/// Expired threads that no run holds. The parameter is the time in milliseconds.
const EXPIRED_THREADS: &str = "select name from threads where expires <= ?1 and (holder is null or leased_until <= ?1)";
const EMPTY: &str = "holder is null and not exists (select 1 from spaces where thread = threads.key)";

/// Returns the names of expired threads. An outer thread precedes its background threads.
fn expired(connection: &Connection) -> Result<Vec<String>, Fault> {
    let mut names = Vec::new();
    for (sql, now) in [(EXPIRED_ROWS, micros(SystemTime::now())), (EXPIRED_THREADS, now())] {
        let mut statement = connection.prepare_cached(sql)?;
        for name in statement.query_map([now], |row| row.get::<_, String>(0))? {
            names.push(name?);
        }
    }
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Deletes a thread if it is still expired. Returns true if it was.
fn delete_if_expired(connection: &Connection, thread: &str) -> Result<bool, Fault> {
    let is_among =
        |sql: &str, now: i64| connection.prepare_cached(&format!("{sql} and name = ?2"))?.exists(params![now, thread]);
    if is_among(EXPIRED_ROWS, micros(SystemTime::now()))? {
        remove(connection, thread)?;
    } else if !is_among(EXPIRED_THREADS, now())? || has_outer(connection, thread)? {
        return Ok(false);
    }
    delete::delete_thread(connection, thread)?;
    Ok(true)
}

/// Returns true for a background thread whose outer thread exists.
fn has_outer(connection: &Connection, thread: &str) -> Result<bool, Fault> {
    let Some(outer) = background::outer_of(thread) else { return Ok(false) };
    Ok(connection.prepare_cached("select 1 from threads where name = ?")?.exists([outer])?)
}

/// Returns true if there are threads without namespaces and without a holder.
fn has_empty(connection: &Connection) -> Result<bool, Fault> {
    Ok(connection.prepare_cached(&format!("select 1 from threads where {EMPTY}"))?.exists([])?)
}

fn delete_empty(connection: &Connection) -> Result<(), Fault> {
    connection.prepare_cached(&format!("delete from threads where {EMPTY}"))?.execute([])?;
    Ok(())
}
