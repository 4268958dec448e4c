//! What can go wrong inside, and how it is told.

use hier_checkpoint::checkpoint::SaverError;
use rusqlite::ErrorCode;

/// An error of SQLite's or of ours.
#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Saver(SaverError),
    /// There is more to be read than was allowed at once.
    Long,
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<SaverError> for Fault {
    fn from(error: SaverError) -> Self {
        Self::Saver(error)
    }
}

impl Fault {
    /// The same of rows of this thread: it is damaged, and not the file.
    pub(crate) fn of_thread(self, thread: &str) -> Self {
        let reason = match &self {
            Self::Saver(error @ SaverError::Unusable { .. }) => error.to_string(),
            Self::Sql(error) if is_foreign_value(error) => format!("a column holds what hier never writes ({error})"),
            _ => return self,
        };
        SaverError::Damaged { thread: thread.to_owned(), reason }.into()
    }

    /// The error for the caller; `place` is the file.
    pub(crate) fn tell(self, place: &str) -> SaverError {
        match self {
            Self::Saver(error) => error,
            Self::Sql(error) => tell(error, place),
            // Whoever allows so much only reads the rest another way.
            Self::Long => SaverError::Invalid(format!("{place} has more of this than is read at once")),
        }
    }
}

fn tell(error: rusqlite::Error, place: &str) -> SaverError {
    const DAMAGED: &str = "it is damaged: restore a backup, or save what can be saved with `sqlite3 FILE .recover`";
    let unusable = |reason: &str| SaverError::Unusable { place: place.to_owned(), reason: reason.to_owned() };
    if is_foreign_value(&error) {
        return unusable(DAMAGED);
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            unusable("it is no SQLite database, or its beginning is damaged: give another path, or restore a backup")
        }
        Some(ErrorCode::DatabaseCorrupt) => unusable(DAMAGED),
        Some(ErrorCode::ReadOnly) => {
            unusable("it cannot be written: check the permissions of the file and of its folder")
        }
        Some(ErrorCode::CannotOpen) => {
            unusable("it cannot be opened: check that its folder exists, and the permissions of both")
        }
        Some(ErrorCode::DiskFull) => SaverError::database(format!("{place} cannot grow: the disk is full"), error),
        Some(ErrorCode::DatabaseBusy) => {
            SaverError::database(format!("{place} is being written by another process that does not end"), error)
        }
        _ => SaverError::database(place, error),
    }
}

/// A value that the columns of our tables never hold. SQLite reads a damaged page without complaint when its cells still look like
/// cells: a row that has lost its end shows as nulls.
fn is_foreign_value(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, InvalidColumnType(..) | FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | Utf8Error(..))
}
