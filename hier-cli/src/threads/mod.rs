//! Looks into the threads that a program keeps in a database, and changes them.
//!
//! Values are shown as JSON, without knowing the program's types.

mod args;
mod database;
mod error;
mod fork;
mod history;
mod list;
mod mail;
mod prune;
mod record;
mod state;
mod text;

use std::io::Write;
use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, SaverError};
use serde_json::Value;

use crate::progress::during;

pub use args::{Command, Database};
pub(crate) use database::open;
pub use error::Error;

/// Does a command, and writes what comes of it to `out`.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<(), Error> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(Error::Runtime)?;
    runtime.block_on(async {
        match command {
            Command::Threads(arguments) => during("reading the threads", list::run(arguments, out)).await,
            Command::History(arguments) => during("reading the history", history::run(arguments, out)).await,
            Command::State(arguments) => during("reading the state", state::run(arguments, out)).await,
            Command::Fork(arguments) => during("copying", fork::run(arguments, out)).await,
            Command::Prune(arguments) => during("deleting", prune::run(arguments, out)).await,
            Command::Mail(arguments) => during("reading the mailbox", mail::list(arguments, out)).await,
            Command::Discard(arguments) => during("discarding", mail::discard(arguments, out)).await,
        }
    })
}

/// The saver of a database.
type Saver = Arc<dyn Checkpointer>;

/// Fails with the nearest name if there is no such thread.
async fn expect_thread(saver: &Saver, thread: &str) -> Result<(), Error> {
    let threads = saver.admin()?.threads(None).await?;
    let mut names = threads.iter().map(|info| &*info.thread);
    if names.any(|name| name == thread) {
        return Ok(());
    }
    let known = hier_spec::did_you_mean(thread, threads.iter().map(|info| &*info.thread));
    Err(Error::NotFound(format!("there is no thread `{}`{}", text::safe(thread), text::safe(&known))))
}

fn write_json(out: &mut dyn Write, value: &Value) -> Result<(), Error> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(|error| Error::Write(error.into()))?;
    writeln!(out).map_err(Error::Write)
}

impl From<SaverError> for Error {
    fn from(error: SaverError) -> Self {
        Self::Saver(error)
    }
}
