//! The commands that read and change the threads in a program's database.
//!
//! The commands do not know the program's types and show values as JSON.

mod args;
mod database;
mod error;
mod fork;
mod history;
mod inbox;
mod list;
mod prune;
mod record;
mod secrets;
mod state;
mod text;

use std::io::Write;
use std::sync::Arc;

use hier_core::checkpoint::{Checkpointer, ListQuery, SaverError};
use serde_json::Value;

use crate::progress::during;

pub use args::{DatabaseArgs, InboxCommand, ThreadCommand};
pub(crate) use database::open;
pub use error::ThreadsError;
pub(crate) use text::safe_json;
pub use text::safe_lines;

/// Runs a command and writes its results to `out`.
pub fn run_command(command: &ThreadCommand, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ThreadsError::Runtime)?;
    runtime.block_on(async {
        match command {
            ThreadCommand::Threads(arguments) => {
                during("reading the threads", list::list_threads(arguments, out)).await
            }
            ThreadCommand::History(arguments) => {
                during("reading the history", history::list_checkpoints(arguments, out)).await
            }
            ThreadCommand::State(arguments) => during("reading the state", state::show_state(arguments, out)).await,
            ThreadCommand::Fork(arguments) => during("copying", fork::fork(arguments, out)).await,
            ThreadCommand::Prune(arguments) => during("deleting", prune::prune(arguments, out)).await,
            ThreadCommand::Inbox(InboxCommand::List(arguments)) => {
                during("reading the inbox", inbox::list(arguments, out)).await
            }
            ThreadCommand::Inbox(InboxCommand::Discard(arguments)) => {
                during("discarding", inbox::discard(arguments, out)).await
            }
        }
    })
}

type SharedSaver = Arc<dyn Checkpointer>;

/// Checks that the thread exists. The error suggests the thread with the most similar id.
async fn expect_thread(saver: &SharedSaver, thread: &str) -> Result<(), ThreadsError> {
    // Reading a list of all threads takes long if there are many.
    let any = ListQuery { namespace: None, limit: Some(1), ..ListQuery::thread(thread) };
    match saver.list(any).await {
        Ok(found) if found.is_empty() => {}
        Ok(_) | Err(SaverError::Damaged { .. }) => return Ok(()),
        Err(error) => return Err(error.into()),
    }
    let threads = saver.admin()?.threads(None).await?;
    let known = hier_spec::did_you_mean(thread, threads.iter().map(|info| &*info.thread));
    Err(ThreadsError::NotFound(format!("no thread named `{}`{}", text::safe(thread), text::safe(&known))))
}

fn write_json(out: &mut dyn Write, value: &Value) -> Result<(), ThreadsError> {
    writeln!(out, "{}", text::safe_json(value)).map_err(ThreadsError::Write)
}

impl From<SaverError> for ThreadsError {
    fn from(error: SaverError) -> Self {
        Self::Saver(error)
    }
}
