//! Opens the database that the arguments name. A database file must already exist, because the commands do not create
//! one.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use hier_core::runs::RunStore;
use hier_postgres::Postgres;
use hier_sqlite::Key;
use hier_sqlite::Sqlite;

use super::args::DatabaseArgs;
use super::{SharedSaver, ThreadsError};

/// The environment variable with the key of an encrypted database.
const KEY: &str = "HIER_KEY";

pub(super) async fn saver(arguments: &DatabaseArgs) -> Result<SharedSaver, ThreadsError> {
    open(arguments).await.map(<dyn RunStore>::as_checkpointer)
}

pub(crate) async fn open(arguments: &DatabaseArgs) -> Result<Arc<dyn RunStore>, ThreadsError> {
    let key = key(arguments)?;
    match location(&arguments.db) {
        DatabaseLocation::File(path) => open_file(Path::new(path), key).await,
        DatabaseLocation::Server(url) => {
            let options = Postgres::options().schema(&arguments.schema);
            let options = match key {
                Some(key) => options.encrypt(&key),
                None => options,
            };
            Ok(Arc::new(options.connect(url).await?))
        }
        // The URL may contain a password.
        DatabaseLocation::Unknown(scheme) => Err(ThreadsError::Usage(format!(
            "`{scheme}://…` is not the URL of a database of hier: give the path of a SQLite file, or `postgres://…`"
        ))),
    }
}

enum DatabaseLocation<'a> {
    File(&'a str),
    Server(&'a str),
    /// A URL with this scheme.
    Unknown(&'a str),
}

/// Parses the location of a database: `postgres:URL`, a URL, `sqlite:PATH` or a path.
fn location(db: &str) -> DatabaseLocation<'_> {
    match db.split_once(':') {
        Some(("sqlite", path)) => DatabaseLocation::File(path),
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => DatabaseLocation::Server(db),
        Some(("postgres" | "postgresql", url)) => DatabaseLocation::Server(url),
        Some((scheme, rest)) if rest.starts_with("//") => DatabaseLocation::Unknown(scheme),
        _ => DatabaseLocation::File(db),
    }
}

async fn open_file(path: &Path, key: Option<Key>) -> Result<Arc<dyn RunStore>, ThreadsError> {
    let unusable = |reason: &str| Err(ThreadsError::Usage(format!("`{}` {reason}", path.display())));
    if path == Path::new(":memory:") {
        return unusable(
            "is a database in the memory of one process, which other processes cannot read: give the path of a file",
        );
    }
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return unusable("does not exist: give the file of a database");
        }
        Err(error) => return unusable(&format!("cannot be read: {error}")),
        Ok(file) if file.is_file() && file.len() == 0 => {
            return unusable("is empty: it contains no threads yet");
        }
        Ok(_) => {}
    }
    let options = match key {
        Some(key) => Sqlite::options().encrypt(&key),
        None => Sqlite::options(),
    };
    Ok(Arc::new(options.open(path).await?))
}

/// Reads the key, if the user passes one. Error messages do not contain the key.
fn key(arguments: &DatabaseArgs) -> Result<Option<Key>, ThreadsError> {
    let (digits, from) = match &arguments.key_file {
        Some(path) => {
            let from = format!("the key file `{}`", path.display());
            let digits = fs::read_to_string(path)
                .map_err(|error| ThreadsError::Usage(format!("{from} cannot be read: {error}")))?;
            (digits, from)
        }
        None => match env::var(KEY) {
            Ok(digits) => (digits, format!("the environment variable `{KEY}`")),
            Err(_) => return Ok(None),
        },
    };
    Key::from_hex(&digits)
        .map(Some)
        .map_err(|error| ThreadsError::Usage(format!("{from} does not contain a key: {error}")))
}
