//! Opens the database that the arguments name. It is never made: a command that looks at threads makes no files.

use std::env;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use hier_core::runs::RunStore;
use hier_postgres::Postgres;
use hier_sqlite::Key;
use hier_sqlite::Sqlite;

use super::args::Database;
use super::{Error, Saver};

/// The variable with the key of an encrypted database.
const KEY: &str = "HIER_KEY";

/// The saver of the database.
pub(super) async fn saver(arguments: &Database) -> Result<Saver, Error> {
    open(arguments).await.map(<dyn RunStore>::as_checkpointer)
}

/// The database, with its runs.
pub(crate) async fn open(arguments: &Database) -> Result<Arc<dyn RunStore>, Error> {
    let key = key(arguments)?;
    match place(&arguments.db) {
        Place::File(path) => open_file(Path::new(path), key).await,
        Place::Server(url) => {
            let options = Postgres::options().schema(&arguments.schema);
            let options = match key {
                Some(key) => options.encrypt(&key),
                None => options,
            };
            Ok(Arc::new(options.connect(url).await?))
        }
    }
}

enum Place<'a> {
    File(&'a str),
    Server(&'a str),
}

/// `postgres:URL` and a URL by itself are both understood, and so are `sqlite:PATH` and a path by itself.
fn place(db: &str) -> Place<'_> {
    match db.split_once(':') {
        Some(("sqlite", path)) => Place::File(path),
        Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => Place::Server(db),
        Some(("postgres" | "postgresql", url)) => Place::Server(url),
        _ => Place::File(db),
    }
}

async fn open_file(path: &Path, key: Option<Key>) -> Result<Arc<dyn RunStore>, Error> {
    let unusable = |reason: &str| Err(Error::Usage(format!("`{}` {reason}", path.display())));
    if path == Path::new(":memory:") {
        return unusable(
            "is a database in the memory of one process, which no other can read: give the path of a file",
        );
    }
    match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return unusable("is not there: give the file of a database");
        }
        Err(error) => return unusable(&format!("cannot be looked at: {error}")),
        Ok(file) if file.is_file() && file.len() == 0 => {
            return unusable("is empty: no thread has been kept there yet");
        }
        Ok(_) => {}
    }
    let options = match key {
        Some(key) => Sqlite::options().encrypt(&key),
        None => Sqlite::options(),
    };
    Ok(Arc::new(options.open(path).await?))
}

/// The key, if one is given. No message quotes it.
fn key(arguments: &Database) -> Result<Option<Key>, Error> {
    let (digits, from) = match &arguments.key_file {
        Some(path) => {
            let from = format!("the key file `{}`", path.display());
            let digits =
                fs::read_to_string(path).map_err(|error| Error::Usage(format!("{from} cannot be read: {error}")))?;
            (digits, from)
        }
        None => match env::var(KEY) {
            Ok(digits) => (digits, format!("the variable `{KEY}`")),
            Err(_) => return Ok(None),
        },
    };
    Key::from_hex(&digits).map(Some).map_err(|error| Error::Usage(format!("{from} has no key: {error}")))
}
