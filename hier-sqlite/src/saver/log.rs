//! The write-ahead log: how long it is, and when it is written back into the file.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rusqlite::hooks::Wal;
use rusqlite::{Connection, OpenFlags};

/// From which length on it is written back, in pages: what is written over and over stays in the processor's cache.
const LONG: u32 = 2_000;
/// The same while many write: each time it is written back, all of them wait for the disk.
const LONG_FOR_MANY: u32 = 8_000;

/// The log of a database.
pub(super) struct Log {
    /// None in memory.
    database: Option<PathBuf>,
    /// In pages.
    length: AtomicU32,
    /// How long it may get before it is written back.
    may_have: AtomicU32,
}

impl Log {
    /// The log of the database in this file.
    pub(super) fn of(database: Option<&Path>) -> Self {
        let database = database.map(Path::to_owned);
        Self { database, length: AtomicU32::default(), may_have: AtomicU32::new(LONG) }
    }

    /// Keeps an eye on its length.
    pub(super) fn watch(self: &Arc<Self>, connection: &mut Connection) -> Result<(), rusqlite::Error> {
        let this = Arc::downgrade(self);
        connection.wal_hook(Some(move |_: &mut Wal, pages| {
            if let Some(this) = this.upgrade() {
                this.length.store(u32::try_from(pages).unwrap_or_default(), Ordering::Relaxed);
            }
            Ok(())
        }))
    }

    /// Whether it is to be written back.
    pub(super) fn is_long(&self, many_write: bool) -> bool {
        let length = self.length.load(Ordering::Relaxed);
        if length <= LONG {
            self.may_have.store(LONG, Ordering::Relaxed);
            return false;
        }
        length > long(many_write).max(self.may_have.load(Ordering::Relaxed))
    }

    /// Writes it back as far as it is now, with a connection of its own: that is most of the time of writing it back, and while it lasts
    /// others can commit.
    pub(super) fn write_back(&self, many_write: bool) {
        if self.is_long(many_write)
            && let Some(database) = &self.database
        {
            // If it fails, so much is left to be done at the end, where SQLite knows what follows if that fails.
            let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
            let _ = Connection::open_with_flags(database, flags).and_then(|connection| written_back(&connection));
        }
    }

    /// Writes the rest of it back into the file if it is long, as far as nobody is reading what that would change. The next commit then
    /// begins it anew.
    pub(super) fn shorten(&self, connection: &Connection, many_write: bool) {
        if !self.is_long(many_write) {
            return;
        }
        // Who reads for long keeps it from getting shorter: then it is tried again once it has grown by as much.
        let length = self.length.load(Ordering::Relaxed);
        self.may_have.store(length.saturating_add(long(many_write)), Ordering::Relaxed);
        // If it fails, the log goes on growing, which harms nothing but the next attempt's time.
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

    use super::{LONG, LONG_FOR_MANY, Log};

    #[test]
    fn the_log_may_be_longer_while_many_write_and_is_not_tried_again_at_once() {
        let log = Log::of(Some(Path::new("a.db")));
        let is_long = |length: u32, many_write| {
            log.length.store(length, Ordering::Relaxed);
            log.is_long(many_write)
        };
        assert!(!is_long(LONG, false) && is_long(LONG + 1, false));
        assert!(!is_long(LONG_FOR_MANY, true) && is_long(LONG_FOR_MANY + 1, true));
        // Somebody who reads keeps it from getting shorter.
        let connection = rusqlite::Connection::open_in_memory().expect("a connection");
        log.shorten(&connection, false);
        assert!(!is_long(LONG_FOR_MANY + LONG, false), "it was tried at this length");
        assert!(is_long(LONG_FOR_MANY + LONG + 2, false), "it has grown by as much since");
        assert!(!is_long(1, false) && is_long(LONG + 1, false), "it was begun anew");
    }
}
