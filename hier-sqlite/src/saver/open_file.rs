//! The identity of the database file.
//!
//! If the file of an open connection is deleted, moved or replaced, SQLite continues to write to it, and everything that
//! it stores is lost with the last connection. SQLite itself does not report this.

use std::path::{Path, PathBuf};

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::Connection;

pub(super) struct OpenFile {
    path: PathBuf,
    id: FileId,
}

type FileId = (u64, u64);

impl OpenFile {
    /// Returns `None` for a database in memory, and on systems without file ids.
    pub(super) fn of(connection: &Connection) -> Option<Self> {
        let path = connection.path().filter(|path| !path.is_empty()).map(PathBuf::from)?;
        let id = id_of(&path)?;
        Some(Self { path, id })
    }

    /// Fails if the path no longer leads to the file.
    pub(super) fn check(&self, place: &str) -> Result<(), SaverError> {
        if id_of(&self.path) == Some(self.id) {
            return Ok(());
        }
        let reason = "it was deleted, moved or replaced while it was open, and commits to it would be lost: put it back, \
                      or restart the program";
        Err(SaverError::Unusable { place: place.to_owned(), reason: reason.to_owned() })
    }
}

/// Returns the device and the inode.
#[cfg(unix)]
fn id_of(path: &Path) -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Other systems do not delete or replace open files.
#[cfg(not(unix))]
fn id_of(_: &Path) -> Option<FileId> {
    None
}
