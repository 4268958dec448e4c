use hier_checkpoint::checkpoint::SaverError;
use rusqlite::ErrorCode;

#[derive(Debug)]
pub(crate) enum Fault {
    Sql(rusqlite::Error),
    Saver(SaverError),
    /// The data exceeds the limit of a single read.
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
    /// Converts an unreadable row into an error of its thread, since the file itself is not damaged.
    pub(crate) fn of_thread(self, thread: &str) -> Self {
        let reason = match &self {
            Self::Saver(error @ SaverError::Unusable { .. }) => error.to_string(),
            Self::Sql(error) if is_foreign_value(error) => {
                format!("a column contains a value that hier never writes: {error}")
            }
            _ => return self,
        };
        SaverError::Damaged { thread: thread.to_owned(), reason }.into()
    }

    /// Returns the error for the caller. `place` names the file.
    pub(crate) fn into_saver_error(self, place: &str) -> SaverError {
        match self {
            Self::Saver(error) => error,
            Self::Sql(error) => sql_error(error, place),
            // Callers that set a limit handle this error themselves and read the data in another way.
            Self::Long => SaverError::Invalid(format!("{place} has more data than a single read may return")),
        }
    }
}

fn sql_error(error: rusqlite::Error, place: &str) -> SaverError {
    const DAMAGED: &str = "it is damaged: restore a backup, or recover data with `sqlite3 FILE .recover`";
    let unusable = |reason: &str| SaverError::Unusable { place: place.to_owned(), reason: reason.to_owned() };
    if is_foreign_value(&error) {
        return unusable(DAMAGED);
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            unusable("it is not a SQLite database, or its header is damaged: give another path, or restore a backup")
        }
        Some(ErrorCode::DatabaseCorrupt) => unusable(DAMAGED),
        Some(ErrorCode::ReadOnly) => unusable("it is read-only: check the permissions of the file and of its folder"),
        Some(ErrorCode::CannotOpen) => {
            unusable("SQLite cannot open it: check that its folder exists, and check the permissions of both")
        }
        Some(ErrorCode::DiskFull) => {
            let what = format!(
                "{place} cannot grow, and the call stored nothing: free space on its disk, and repeat the call"
            );
            SaverError::database(what, error)
        }
        Some(ErrorCode::SystemIoFailure) => SaverError::database(
            format!("{place} cannot be read or written: check whether its disk is full or damaged"),
            error,
        ),
        Some(ErrorCode::DatabaseBusy) => {
            let what = format!(
                "{place} is locked by another process, and the call stored nothing: end the transaction of that process, and \
                 repeat the call (a program can also raise `SqliteOptions::busy_timeout`)"
            );
            SaverError::database(what, error)
        }
        _ => SaverError::database(place, error),
    }
}

/// Returns true for a value that the columns never contain. SQLite reads a damaged page without an error if its cells
/// still look valid: a truncated row appears as nulls.
fn is_foreign_value(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType, Utf8Error};
    matches!(error, InvalidColumnType(..) | FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | Utf8Error(..))
}
