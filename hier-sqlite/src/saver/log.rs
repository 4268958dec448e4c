//! The length of the write-ahead log, and the decision when to write the log back into the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

/// The length in pages from which the log is written back. Pages that are overwritten often stay in the processor's
/// cache up to this length.
const LONG: u32 = 2_000;
/// The length in pages under contention, where all callers wait while the log is written back.
const LONG_FOR_MANY: u32 = 8_000;

pub(super) struct WriteAheadLog {
    /// `None` for a database in memory.
    database: Option<PathBuf>,
    /// The length in pages.
    length: AtomicU32,
    /// The length in pages up to which the log is not written back. Higher than usual while a reader keeps the log
    /// long.
    may_have: AtomicU32,
}

impl WriteAheadLog {
    pub(super) fn new(database: Option<&Path>) -> Self {
        let database = database.map(Path::to_owned);
        Self { database, length: AtomicU32::default(), may_have: AtomicU32::new(LONG) }
    }

    /// Records the length after each commit.
    pub(super) fn watch(self: &Arc<Self>, connection: &mut Connection) -> Result<(), rusqlite::Error> {
        let this = Arc::downgrade(self);
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            if let Some(this) = this.upgrade() {
                this.length.store(u32::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            }
            Ok(())
        }))
    }

    /// Returns true if the log should be written back.
    pub(super) fn is_long(&self, many_write: bool) -> bool {
        let length = self.length.load(Ordering::Relaxed);
        if length <= LONG {
            self.may_have.store(LONG, Ordering::Relaxed);
            return false;
        }
        length > long(many_write).max(self.may_have.load(Ordering::Relaxed))
    }

    /// Writes back most of the log with a separate connection, so that other callers can commit meanwhile.
    pub(super) fn write_back(&self, many_write: bool) {
        if self.is_long(many_write)
            && let Some(database) = &self.database
        {
            // After a failure, `shorten` writes back all pages with the connection on which SQLite handles failures.
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let _ = Connection::open_with_flags(database, flags).and_then(|connection| written_back(&connection));
        }
    }

    /// Writes back the rest of a long log, except for pages that readers still need. The next commit then restarts the
    /// log.
    pub(super) fn shorten(&self, connection: &Connection, many_write: bool) {
        if !self.is_long(many_write) {
            return;
        }
        // A slow reader keeps the log long. The next attempt follows when the log has grown by this length again.
        let length = self.length.load(Ordering::Relaxed);
        self.may_have.store(length.saturating_add(long(many_write)), Ordering::Relaxed);
        // After a failure, the next attempt only has more to write.
        let _ = written_back(connection);
    }
}

const fn long(many_write: bool) -> u32 {
    if many_write { LONG_FOR_MANY } else { LONG }
}

fn written_back(connection: &Connection) -> Result<(), rusqlite::Error> {
    connection.query_row("pragma wal_checkpoint(passive)", [], |_| Ok(()))
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::atomic::Ordering;

    use super::{LONG, LONG_FOR_MANY, WriteAheadLog};

    #[test]
    fn wal_checkpoint_is_delayed_under_load() {
        let log = WriteAheadLog::new(Some(Path::new("a.db")));
        let is_long = |length: u32, many_write| {
            log.length.store(length, Ordering::Relaxed);
            log.is_long(many_write)
        };
        assert!(!is_long(LONG, false) && is_long(LONG + 1, false));
        assert!(!is_long(LONG_FOR_MANY, true) && is_long(LONG_FOR_MANY + 1, true));
        // A reader keeps the log long.
        let connection = rusqlite::Connection::open_in_memory().expect("a connection");
        log.shorten(&connection, false);
        assert!(!is_long(LONG_FOR_MANY + LONG, false), "it was tried at this length");
        assert!(is_long(LONG_FOR_MANY + LONG + 2, false), "it has grown by as much since");
        assert!(!is_long(1, false) && is_long(LONG + 1, false), "it was begun anew");
    }
}
