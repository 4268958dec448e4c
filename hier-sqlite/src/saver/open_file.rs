//! The identity of the database file and of its log.
//!
//! If a file of an open connection is deleted, moved or replaced, SQLite continues to write to it, and does not report
//! this. The commits in such a database are lost with the last connection, and those in such a log with a kill of the
//! process. A file that is overwritten in place keeps its identity, so this is not noticed.
//!
//! The identity is the device and the inode, which do not change while a file is open. SQLite itself relies on this.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::Connection;
use rusqlite::config::DbConfig;

pub(crate) struct OpenFile {
    database: NamedFile,
    log: NamedFile,
    /// The index of the log, which processes share. It exists only while the file is open.
    index: NamedFile,
}

struct NamedFile {
    path: PathBuf,
    id: Option<FileId>,
}

type FileId = (u64, u64);

impl NamedFile {
    fn new(path: PathBuf) -> Self {
        Self { id: id_of(&path).ok(), path }
    }

    /// Returns true also if the answer is not known, such as without permission to read the folder.
    fn is_same(&self) -> bool {
        match id_of(&self.path) {
            Ok(id) => self.id == Some(id),
            Err(error) => error.kind() != ErrorKind::NotFound || self.id.is_none(),
        }
    }

    fn is_replaced(&self) -> bool {
        id_of(&self.path).is_ok_and(|id| self.id != Some(id))
    }
}

impl OpenFile {
    /// Returns `None` for a database in memory, and on systems without file ids.
    pub(crate) fn of(connection: &Connection) -> Option<Self> {
        let path = connection.path().filter(|path| !path.is_empty())?;
        let with_end = |end: &str| {
            let mut name = OsString::from(path);
            name.push(end);
            NamedFile::new(name.into())
        };
        let (database, log, index) = (NamedFile::new(path.into()), with_end("-wal"), with_end("-shm"));
        database.id.map(|_| Self { database, log, index })
    }

    /// Fails if the path of the database no longer leads to its file.
    pub(crate) fn check_database(&self, place: &str) -> Result<(), SaverError> {
        if self.database.is_same() {
            return Ok(());
        }
        let reason = "it was deleted, moved or replaced while it was open, so new commits would be lost: put the file back, or restart \
             the program";
        Err(SaverError::Unusable { place: place.to_owned(), reason: reason.to_owned() })
    }

    /// Fails if a path no longer leads to its file.
    pub(crate) fn check(&self, place: &str) -> Result<(), SaverError> {
        self.check_database(place)?;
        let reason = if !self.log.is_same() || !self.index.is_same() {
            let (file, fix) = if self.log.is_same() && self.index.is_replaced() {
                // The commits are in the log, which the other process has read.
                (&self.index, "restart the program")
            } else if self.has_foreign_log() {
                (&self.log, "put it back, or restore a backup")
            } else {
                let file = if self.log.is_same() { &self.index } else { &self.log };
                (file, "stop the program without killing it, so that it keeps earlier commits, and start it again")
            };
            let file = file.path.display();
            format!(
                "its log `{file}` was deleted, moved or replaced while it was open, so new commits would be lost: {fix}"
            )
        } else {
            return Ok(());
        };
        Err(SaverError::Unusable { place: place.to_owned(), reason })
    }

    /// If the check fails, writes the log back into the file and truncates it. A kill of the process would lose a log
    /// without a name, and a log with a name would be applied to the file that replaces this one.
    pub(crate) fn save_commits(&self, connection: &Connection) {
        let is_intact = self.database.is_same() && self.log.is_same() && self.index.is_same();
        // Another process may have changed any page of the same file.
        let is_shared = self.database.is_same() && self.has_foreign_log();
        if !is_intact && !is_shared {
            // If it fails, closing the file tries again.
            let _ = connection.query_row("pragma wal_checkpoint(truncate)", [], |_| Ok(()));
        }
    }

    /// Returns true if another process has created the log or its index.
    fn has_foreign_log(&self) -> bool {
        self.log.is_replaced() || self.index.is_replaced()
    }

    /// Prepares a connection to be closed. SQLite would delete the log of another process.
    pub(crate) fn before_close(&self, connection: &Connection) {
        if self.has_foreign_log() {
            self.save_commits(connection);
            // It only sets a flag, so it does not fail in practice.
            let _ = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
        }
    }
}

/// Returns the device and the inode.
#[cfg(unix)]
fn id_of(path: &Path) -> io::Result<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Other systems do not delete or replace open files.
#[cfg(not(unix))]
fn id_of(_: &Path) -> io::Result<FileId> {
    Err(ErrorKind::Unsupported.into())
}
