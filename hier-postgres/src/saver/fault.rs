//! Internal errors: the decision whether to retry, and the conversion to the errors of callers.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use deadpool_postgres::{PoolError, TimeoutType};
use hier_checkpoint::checkpoint::SaverError;
use tokio_postgres::error::SqlState;

use super::address::unusable;

#[derive(Debug)]
pub(crate) enum PostgresFault {
    Sql(tokio_postgres::Error),
    NoConnection(String),
    /// The server did not answer within this time.
    Silent(Duration),
    Saver(SaverError),
}

impl From<tokio_postgres::Error> for PostgresFault {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<PoolError> for PostgresFault {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Sql(error),
            PoolError::Timeout(TimeoutType::Wait) => Self::NoConnection(
                "all connections of the pool are in use: allow more with `PostgresOptions::connections`".to_owned(),
            ),
            PoolError::Timeout(TimeoutType::Create) => Self::NoConnection(
                "the server accepted no connection in time: check that the server runs, or raise `connect_timeout` in the URL"
                    .to_owned(),
            ),
            other => Self::NoConnection(other.to_string()),
        }
    }
}

impl From<SaverError> for PostgresFault {
    fn from(error: SaverError) -> Self {
        Self::Saver(error)
    }
}

impl PostgresFault {
    /// Returns true if another attempt may succeed because the server is unreachable or starting, or two calls
    /// conflicted.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Saver(_) => false,
            Self::NoConnection(_) | Self::Silent(_) => true,
            Self::Sql(error) => match error.code() {
                Some(code) => is_passing(code),
                None => error.is_closed() || (is_io(error) && certificate(error).is_none()),
            },
        }
    }

    /// Returns true if the connection is closed or unusable.
    pub(crate) fn is_of_connection(&self) -> bool {
        match self {
            Self::Saver(_) | Self::NoConnection(_) => false,
            Self::Silent(_) => true,
            Self::Sql(error) => error.code().is_none_or(|code| *code == READ_ONLY || is_of_class(code, &["08", "57P"])),
        }
    }

    /// Returns true if a row or a value may exceed a limit of the server. The server reports some rows above 1 GB as an
    /// internal error.
    pub(super) fn is_of_limit(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        error.code().is_some_and(|code| [&SqlState::PROGRAM_LIMIT_EXCEEDED, &SqlState::INTERNAL_ERROR].contains(&code))
    }

    /// Returns true if the connection does not have the prepared statement or has another one under its name, because
    /// another connection has prepared it.
    pub(crate) fn is_of_prepared(&self) -> bool {
        let Self::Sql(error) = self else { return false };
        error.code().is_some_and(|code| {
            [
                &SqlState::INVALID_SQL_STATEMENT_NAME,
                &SqlState::DUPLICATE_PSTATEMENT,
                &SqlState::PROTOCOL_VIOLATION,
                &SqlState::INVALID_BINARY_REPRESENTATION,
                // The tag differs: see `Statements::own`.
                &SqlState::DIVISION_BY_ZERO,
                // The tables have changed since the statement was prepared.
                &SqlState::FEATURE_NOT_SUPPORTED,
            ]
            .contains(&code)
        })
    }

    /// Converts an error about rows that cannot be read, so that it names the thread and not the database.
    pub(crate) fn of_thread(self, thread: &str) -> Self {
        match self {
            Self::Saver(error @ SaverError::Unusable { .. }) => {
                SaverError::Damaged { thread: thread.to_owned(), reason: error.to_string() }.into()
            }
            other => other,
        }
    }

    /// Converts to an error for the caller. `place` names the database and does not contain the password.
    pub(crate) fn into_saver_error(self, place: &str) -> SaverError {
        match self {
            Self::Saver(error) => error,
            Self::NoConnection(reason) => SaverError::database(place, io::Error::other(reason)),
            Self::Silent(limit) => {
                let reason = format!(
                    "no answer within {limit:?}: check the server and the network, or raise \
                    `PostgresOptions::statement_timeout`"
                );
                SaverError::database(place, io::Error::new(io::ErrorKind::TimedOut, reason))
            }
            Self::Sql(error) => describe(error, place),
        }
    }
}

/// The error of a standby server, for example after a failover.
const READ_ONLY: SqlState = SqlState::READ_ONLY_SQL_TRANSACTION;

fn is_of_class(code: &SqlState, classes: &[&str]) -> bool {
    classes.iter().any(|class| code.code().starts_with(class))
}

fn is_passing(code: &SqlState) -> bool {
    // Errors of the connection (08), insufficient resources (53), intervention by an administrator (57P), and
    // conflicts.
    is_of_class(code, &["08", "53", "57P"])
        || [&SqlState::T_R_SERIALIZATION_FAILURE, &SqlState::T_R_DEADLOCK_DETECTED].contains(&code)
        || [&SqlState::LOCK_NOT_AVAILABLE, &SqlState::QUERY_CANCELED, &READ_ONLY].contains(&code)
        // Another process may have created the tables at the same time. The server may see a new schema late, even
        // under a lock.
        || [&SqlState::UNIQUE_VIOLATION, &SqlState::DUPLICATE_SCHEMA, &SqlState::DUPLICATE_TABLE].contains(&code)
}

fn causes(error: &tokio_postgres::Error) -> impl Iterator<Item = &(dyn Error + 'static)> {
    std::iter::successors(error.source(), |&error| error.source())
}

fn is_io(error: &tokio_postgres::Error) -> bool {
    causes(error).any(<dyn Error>::is::<io::Error>)
}

/// Returns the reason why the server's certificate was rejected.
#[cfg(feature = "tls")]
fn certificate(error: &tokio_postgres::Error) -> Option<String> {
    let inner = causes(error).find_map(|cause| cause.downcast_ref::<io::Error>()?.get_ref()?.downcast_ref());
    match inner? {
        rustls::Error::InvalidCertificate(reason) => Some(reason.to_string()),
        _ => None,
    }
}

#[cfg(not(feature = "tls"))]
fn certificate(_: &tokio_postgres::Error) -> Option<String> {
    None
}

fn describe(error: tokio_postgres::Error, place: &str) -> SaverError {
    if let Some(reason) = certificate(&error) {
        let hint = "set `sslrootcert=FILE` in the URL to the file with its root certificate, and write the host as the certificate does";
        return unusable(place, format!("this program rejects the certificate of the server ({reason}): {hint}"));
    }
    // The driver has no error code for this.
    if causes(&error).any(|cause| cause.to_string() == "server does not support TLS") {
        return unusable(
            place,
            "the server does not support encryption: set `ssl = on` in `postgresql.conf`, or remove `sslmode` from the URL",
        );
    }
    if let Some(hint) = error.code().and_then(hint_of_code) {
        return SaverError::database(format!("{place}: {hint}"), ServerError(error));
    }
    if let Some(reason) = long_name(&error) {
        return SaverError::Invalid(reason);
    }
    match reason(&error) {
        Some(reason) => unusable(place, reason),
        None => SaverError::database(place, ServerError(error)),
    }
}

/// Returns a hint for errors that were retried without success.
fn hint_of_code(code: &SqlState) -> Option<&'static str> {
    let hints = [
        (
            SqlState::QUERY_CANCELED,
            "the server cancelled the statement: raise the `statement_timeout` of the database user (`alter role … set …`)",
        ),
        (
            SqlState::LOCK_NOT_AVAILABLE,
            "a lock was not free in time: raise the `lock_timeout` of the database user, or end the session that holds the lock",
        ),
        (
            READ_ONLY,
            "this server is read-only: write the primary in the URL, or all servers with `target_session_attrs=read-write`",
        ),
    ];
    hints.into_iter().find_map(|(passing, hint)| (passing == *code).then_some(hint))
}

/// Describes the error of the server about a name that is too long for an index.
fn long_name(error: &tokio_postgres::Error) -> Option<String> {
    let error = error.as_db_error().filter(|error| *error.code() == SqlState::PROGRAM_LIMIT_EXCEEDED)?;
    // The error of an index names the index as the constraint.
    let (name, fix) = match error.table().filter(|_| error.constraint().is_some()) {
        Some("pieces") => {
            ("the name of a channel, with the namespace of its subgraph,", "shorten the name of the channel")
        }
        Some("checkpoints" | "writes" | "overwritten") => {
            ("the namespace of a subgraph", "shorten the names of the nodes that contain it, or nest fewer subgraphs")
        }
        Some("due") => ("the name of a graph, with the id of its thread,", "shorten one of them"),
        Some("documents") => {
            ("the id of a document, with its kind,", "shorten the id, or the name of the user in the kind")
        }
        // Other limits of the program have the same code.
        _ if error.routine().is_some_and(|routine| routine.starts_with("index_form_tuple")) => {
            ("a name", "shorten the names of channels, nodes, graphs and users")
        }
        _ => return None,
    };
    Some(format!("{name} is too long for an index of Postgres: {fix} ({})", error.message()))
}

/// Describes errors of the server that the caller can fix.
fn reason(error: &tokio_postgres::Error) -> Option<String> {
    let error = error.as_db_error()?;
    let said = error.message();
    let wants_tls = said.ends_with("no encryption");
    let reason = match error.code() {
        &SqlState::INVALID_AUTHORIZATION_SPECIFICATION if wants_tls => {
            "the server requires encrypted connections: add `sslmode=require` to the URL"
        }
        &SqlState::INVALID_PASSWORD | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            return Some(format!("the server rejects the user or the password of the URL: {said}"));
        }
        &SqlState::INVALID_CATALOG_NAME => "the database does not exist: create it with `createdb`",
        &SqlState::INSUFFICIENT_PRIVILEGE => "the database user lacks privileges: grant it the schema and its tables",
        &SqlState::UNDEFINED_TABLE | &SqlState::INVALID_SCHEMA_NAME => {
            "its tables are missing: call `Postgres::migrate`"
        }
        _ => return None,
    };
    Some(reason.to_owned())
}

/// An error that displays the server's message. The driver's own error shows the message only as its source.
#[derive(Debug)]
struct ServerError(tokio_postgres::Error);

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_db_error(), self.0.source()) {
            (Some(error), _) => write!(f, "{} ({})", error.message(), error.code().code()),
            (None, Some(source)) => write!(f, "{}: {source}", self.0),
            (None, None) => write!(f, "{}", self.0),
        }
    }
}

impl Error for ServerError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}
