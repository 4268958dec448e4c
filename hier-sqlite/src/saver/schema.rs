//! The tables of the file, and the steps that open a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use uuid::Uuid;

use super::fault::Fault;
use super::options::{SqliteOptions, Survives};
use super::read::uuid_at;

/// The application id in the file: `hier`.
pub(crate) const APPLICATION: i32 = i32::from_be_bytes(*b"hier");

/// The tables of each version. A file stores the number of the versions that it has.
const VERSIONS: &[&str] = &["
    -- The id of this database. Encryption binds values to it, so that a row moved to another database is refused.
    create table identity (id blob not null) strict;
    insert into identity values (randomblob(16));

    create table tokens (last integer not null) strict;
    insert into tokens values (0);
    -- `lasts` is the duration of the lease: it ends also if the clock is set back.
    create table threads (
        key integer primary key,
        name text not null unique,
        token integer not null,
        holder text,
        leased_until integer,
        time_to_live integer,
        expires integer,
        lasts integer
    ) strict;
    create table spaces (
        key integer primary key,
        thread integer not null,
        name text not null,
        unique (thread, name)
    ) strict;
    -- The values that checkpoints bring, and the checkpoints themselves, which have the number 0 in place of a channel.
    -- A commit appends both to the same page.
    create table blobs (
        space integer not null,
        channel any not null,
        version blob not null,
        base blob,
        value blob not null,
        unique (space, version, channel)
    ) strict;
    create view checkpoints as select space, version as id, value as body from blobs where channel = 0;
    create table writes (
        space integer not null,
        checkpoint blob not null,
        task blob not null,
        slot integer not null,
        path text not null,
        channel text not null,
        value blob not null,
        primary key (space, checkpoint, task, slot)
    ) strict, without rowid;
    -- Pending writes before a run that has not ended changed them. A row without a value marks a write that did not exist.
    create table overwritten (
        run blob not null,
        space integer not null,
        checkpoint blob not null,
        task blob not null,
        slot integer not null,
        path text,
        channel text,
        value blob,
        primary key (run, space, checkpoint, task, slot)
    ) strict, without rowid;
    create index overwritten_of_spaces on overwritten (space, checkpoint);

    -- The index of threads. `ready` is the time from which a worker may claim a thread. Times are microseconds since 1970.
    create table run_threads (
        name text primary key,
        ready integer,
        graph text,
        expires integer,
        body blob not null,
        vals blob
    ) strict;
    create index run_threads_ready on run_threads (ready) where ready is not null;
    create table run_numbers (last integer not null) strict;
    insert into run_numbers values (0);
    create table runs (
        id blob primary key,
        thread text not null,
        number integer not null,
        status text not null,
        ended integer,
        body blob not null
    ) strict;
    create index runs_of_threads on runs (thread, number);
    create index runs_by_number on runs (number);
    create index runs_live on runs (thread) where ended is null;
    create index runs_ended on runs (ended) where ended is not null;
    create table events (
        thread text not null,
        number integer not null,
        at integer not null,
        run blob,
        bytes integer not null,
        body blob not null,
        primary key (thread, number)
    ) strict, without rowid;
    create index events_by_age on events (at);
    -- `due` is the time from which a document is due.
    create table documents (
        kind text not null,
        id text not null,
        revision integer not null,
        body blob not null,
        due integer,
        primary key (kind, id)
    ) strict, without rowid;
    create index documents_due on documents (kind, due) where due is not null;

    -- Messages and signals, by the name of their thread, which may not exist yet. The id of a taken row stays. `run` is the run that took
    -- it and has not ended: until then the value stays.
    create table mail (
        number integer primary key autoincrement,
        thread text not null,
        id blob not null,
        signal text,
        value blob not null,
        size integer not null,
        taken integer not null default 0,
        run blob,
        unique (thread, id)
    ) strict;
    create index mail_waiting on mail (thread, number) where taken = 0;
    create index mail_of_runs on mail (run) where run is not null;
    -- The time at which a thread is due, in milliseconds since 1970. `driven` is 1 while a run continues the thread.
    create table due (
        thread text primary key,
        graph text not null,
        at integer not null,
        driven integer not null default 0
    ) strict, without rowid;
    create index due_at on due (graph, at, thread);
"];

/// The size of a page, in bytes.
const PAGE: u32 = 8192;

/// The size in bytes to which the log file is truncated after it was written back.
const LOG: i64 = 64 << 20;
/// The page cache of the writer, in KB.
const CACHE: i32 = 16 << 10;

const TABLES: [&str; 5] = ["tokens", "threads", "spaces", "blobs", "writes"];

/// Opens the connection that writes. Creates missing tables.
pub(super) fn open_writer(path: Option<&Path>, options: &SqliteOptions) -> Result<Connection, Fault> {
    let mut connection = open_ours(path, options)?;
    migrate(&mut connection, path)?;
    connection.pragma_update(None, "cache_size", -CACHE)?;
    // All jobs of a transaction except the first have a savepoint, whose pages would otherwise go through a temporary
    // file.
    connection.pragma_update(None, "temp_store", "memory")?;
    Ok(connection)
}

/// Opens a new file or a file of hier. The file may have any tables of hier.
pub(crate) fn open_ours(path: Option<&Path>, options: &SqliteOptions) -> Result<Connection, Fault> {
    let connection = match path {
        None => Connection::open_in_memory()?,
        Some(path) if path.is_dir() => return Err(unusable(path, "it is a folder: give the path of a file")),
        Some(path) => Connection::open_with_flags(path, flags() | OpenFlags::SQLITE_OPEN_CREATE)?,
    };
    connection.busy_timeout(options.busy_timeout)?;
    keep_statements(&connection, 64)?;
    // This precedes all changes, because the file may belong to another program.
    let inspected = connection.unchecked_transaction().map_err(Fault::from).and_then(|look| inspect(&look, path));
    inspected.map_err(|fault| {
        if is_locked_in(&fault, path) { unusable(path.unwrap_or(Path::new("")), LOCKED_IN) } else { fault }
    })?;
    if let Some(path) = path {
        // This affects only new files. Smaller pages would waste half of the space for values of a few KB.
        connection.pragma_update(None, "page_size", PAGE)?;
        if use_log(&connection, options.busy_timeout)? != "wal" {
            return Err(unusable(path, "its file system does not support a write-ahead log: use a local disk"));
        }
    }
    let synchronous = if options.survives == Survives::PowerLoss { "full" } else { "normal" };
    connection.pragma_update(None, "synchronous", synchronous)?;
    // The log is not truncated further, because it would have to grow again.
    connection.pragma_update(None, "journal_size_limit", LOG)?;
    Ok(connection)
}

/// The reason why a file with a log cannot be read.
const LOCKED_IN: &str = "it has a write-ahead log, but its folder is read-only, so SQLite cannot create `-wal` and `-shm` files there: \
                         copy the file, and its `-wal` if it exists, to a writable folder";

/// Returns true if an existing file with a log cannot be read because SQLite cannot create the other files of the log.
fn is_locked_in(fault: &Fault, path: Option<&Path>) -> bool {
    let (Fault::Sql(error), Some(path)) = (fault, path) else { return false };
    let mut header = [0; 20];
    let is_read = File::open(path).and_then(|mut file| file.read_exact(&mut header)).is_ok();
    // The bytes are the versions of the formats for writing and reading. Version 2 is the format with a log.
    is_read && header[18..] == [2, 2] && error.sqlite_error_code() == Some(ErrorCode::CannotOpen)
}

/// Switches the file to a write-ahead log. Returns the resulting mode.
fn use_log(connection: &Connection, busy_timeout: Duration) -> Result<String, rusqlite::Error> {
    // A time that exceeds the range of the clock is no limit.
    let end = Instant::now().checked_add(busy_timeout);
    loop {
        match connection.query_row("pragma journal_mode = wal", [], |row| row.get(0)) {
            // If two processes open a new file at the same time, SQLite returns an error to one of them without
            // waiting.
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && end.is_none_or(|end| Instant::now() < end) =>
            {
                std::thread::sleep(Duration::from_millis(1));
            }
            mode => return mode,
        }
    }
}

/// Opens a connection for reading a file that the writer has opened.
pub(super) fn open_reader(path: &Path, busy_timeout: Duration) -> Result<Connection, Fault> {
    let connection = Connection::open_with_flags(path, flags())?;
    connection.busy_timeout(busy_timeout)?;
    connection.pragma_update(None, "query_only", true)?;
    keep_statements(&connection, 32)?;
    Ok(connection)
}

/// Caches prepared statements regardless of the bound values. By default, SQLite prepares most statements again, in
/// case new values need another plan. This is never so for the statements of hier.
fn keep_statements(connection: &Connection, most: usize) -> Result<(), rusqlite::Error> {
    connection.set_prepared_statement_cache_capacity(most);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).map(drop)
}

/// URIs are not enabled, so that a path may contain any character.
fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Returns the version of a file, or an error if it belongs to another program.
fn inspect(connection: &Connection, path: Option<&Path>) -> Result<usize, Fault> {
    let application: i32 = connection.query_row("pragma application_id", [], |row| row.get(0))?;
    let version: i64 = connection.query_row("pragma user_version", [], |row| row.get(0))?;
    let mut names = connection.prepare("select name from sqlite_schema where type = 'table'")?;
    let names = names.query_map([], |row| row.get::<_, String>(0))?.collect::<Result<Vec<_>, _>>()?;
    let refuse = |reason: &str| Err(unusable(path.unwrap_or_else(|| Path::new("the database")), reason));
    if application == 0 && version == 0 && names.is_empty() {
        return Ok(0);
    }
    if application != APPLICATION {
        return refuse("it belongs to another program: give another path");
    }
    let Some(version) = usize::try_from(version).ok().filter(|version| *version <= VERSIONS.len()) else {
        return refuse("a newer version of hier wrote it: update this program");
    };
    if version > 0 && TABLES.iter().any(|table| names.iter().all(|name| name != table)) {
        return refuse("some of its tables are missing: restore a backup");
    }
    Ok(version)
}

fn migrate(connection: &mut Connection, path: Option<&Path>) -> Result<(), Fault> {
    // The transaction provides a consistent state, because another process may be creating the tables.
    if inspect(&*connection.unchecked_transaction()?, path)? == VERSIONS.len() {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have created the tables first.
    let version = inspect(&transaction, path)?;
    for tables in &VERSIONS[version..] {
        transaction.execute_batch(tables)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", i64::try_from(VERSIONS.len()).unwrap_or(i64::MAX))?;
    transaction.commit()?;
    Ok(())
}

pub(super) fn identity(connection: &Connection) -> Result<Uuid, Fault> {
    Ok(connection.query_row("select id from identity", [], |row| uuid_at(row, 0))?)
}

fn unusable(path: &Path, reason: &str) -> Fault {
    Fault::Saver(SaverError::Unusable { place: format!("`{}`", path.display()), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use rusqlite::{OptionalExtension, StatementStatus, params};

    use super::*;

    #[test]
    fn commit_that_survives_a_power_cut_waits_for_the_disk() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("threads.db");
        // 1 is `normal`, 2 is `full`.
        for (survives, expected) in [(Survives::Crash, 1), (Survives::PowerLoss, 2)] {
            let writer = open_writer(Some(&path), &SqliteOptions::default().survives(survives)).expect("the file");
            assert_eq!(writer.query_row("pragma synchronous", [], |row| row.get(0)), Ok(expected), "{survives:?}");
        }
    }

    #[test]
    fn statement_is_prepared_once_for_all_bindings() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("threads.db");
        let writer = open_writer(Some(&path), &SqliteOptions::default()).expect("a new file");
        let reader = open_reader(&path, Duration::ZERO).expect("the file");
        let sql = "select spaces.key from threads join spaces on spaces.thread = threads.key
            where threads.name = ? and spaces.name = ?";
        for connection in [&writer, &reader] {
            for name in ["a", "b", "c"] {
                let mut statement = connection.prepare_cached(sql).expect("a statement");
                let found = statement.query_row(params![name, ""], |row| row.get::<_, i64>(0)).optional();
                assert_eq!(found, Ok(None));
                assert_eq!(statement.get_status(StatementStatus::RePrepare), 0);
            }
        }
    }
}
