//! `hier fork`.

use std::io::Write;
use std::sync::Arc;

use hier_core::checkpoint::{Checkpoint, Claim, Record, Source};
use serde_json::json;
use uuid::Uuid;

use super::args::Fork;
use super::{Error, Saver, database, expect_thread, text, write_json};

pub(super) async fn run(arguments: &Fork, out: &mut dyn Write) -> Result<(), Error> {
    let saver = database::open(&arguments.database).await?;
    let Fork { thread, new_thread, checkpoint, replace, .. } = arguments;
    if thread == new_thread {
        return Err(Error::Usage("a thread is no copy of itself: give the copy another name".to_owned()));
    }
    expect_thread(&saver, thread).await?;
    let from = match checkpoint {
        Some(id) => Some(find(&saver, thread, *id).await?),
        None => None,
    };
    let taken = saver.threads(None).await?.iter().any(|info| *info.thread == **new_thread);
    if taken && !replace {
        let name = text::safe(new_thread);
        return Err(Error::Usage(format!("there is a thread `{name}` already: give another name, or `--replace`")));
    }
    saver.copy_thread(thread, new_thread).await?;
    if let Some(from) = from {
        branch_off(&saver, new_thread, from).await?;
    }
    let latest = saver.get(new_thread, "", None).await?.map(|saved| saved.checkpoint.id);
    if arguments.database.json {
        return write_json(out, &json!({ "thread": new_thread, "checkpoint": latest }));
    }
    let (thread, new_thread) = (text::safe(thread), text::safe(new_thread));
    writeln!(out, "copied `{thread}` to `{new_thread}`").map_err(Error::Write)
}

async fn find(saver: &Saver, thread: &str, id: Uuid) -> Result<Checkpoint, Error> {
    let found = saver.get(thread, "", Some(id)).await?;
    let missing = || {
        let thread = text::safe(thread);
        Error::NotFound(format!("thread `{thread}` has no checkpoint `{id}`: `hier history` lists them"))
    };
    Ok(found.ok_or_else(missing)?.checkpoint)
}

/// Makes a copy of a checkpoint the latest one: it has the same values, and the same is to run next.
async fn branch_off(saver: &Saver, thread: &str, from: Checkpoint) -> Result<(), Error> {
    let latest = saver.get(thread, "", None).await?.map(|saved| saved.checkpoint.id);
    let id = Uuid::now_v6(&[0; 6]);
    if latest.is_some_and(|latest| latest >= id) {
        return Err(Error::Usage("the thread's last checkpoint was made in the future: set the clock".to_owned()));
    }
    let mut fork = from;
    (fork.parent, fork.id) = (Some(fork.id), id);
    (fork.source, fork.step) = (Source::Fork, fork.step + 1);
    let record = Record::Checkpoint { namespace: Arc::from(""), checkpoint: Box::new(fork), pieces: Vec::new() };
    let lease = saver.acquire(thread, Claim { holder: "hier fork".to_owned(), ..Claim::default() }).await?;
    let stored = saver.commit(&lease, vec![record]).await;
    saver.release(&lease).await?;
    Ok(stored?)
}
