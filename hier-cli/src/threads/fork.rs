//! `hier fork`, which copies a thread.

use std::io::Write;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hier_core::checkpoint::{Claim, ThreadInfo};
use serde_json::json;
use uuid::Uuid;

use super::args::ForkArgs;
use super::{SharedSaver, ThreadsError, database, expect_thread, text, write_json};

/// The beginning of the id of a draft. A UUID with the time follows.
const DRAFT: &str = "hier fork ";
/// The age of a draft from which its command is considered killed.
const ABANDONED: Duration = Duration::from_hours(1);

pub(super) async fn fork(arguments: &ForkArgs, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let saver = database::saver(&arguments.database).await?;
    let ForkArgs { thread, new_thread, checkpoint, replace, .. } = arguments;
    if thread == new_thread {
        return Err(ThreadsError::Usage("a thread cannot be copied to itself: choose another name".to_owned()));
    }
    expect_thread(&saver, thread).await?;
    if let Some(id) = checkpoint
        && saver.get(thread, "", Some(*id)).await?.is_none()
    {
        return Err(missing(thread, *id));
    }
    let threads = saver.admin()?.threads(None).await?;
    let taken = threads.iter().any(|info| *info.thread == **new_thread);
    if !replace {
        let name = text::safe(new_thread);
        let refused = |reason: &str| Err(ThreadsError::Usage(format!("thread `{name}` {reason}")));
        if taken {
            return refused("already exists: choose another name, or add `--replace`");
        }
        if !saver.inbox()?.messages(new_thread).await?.is_empty() {
            return refused("has unread messages: choose another name, or delete the messages with `--replace`");
        }
    }
    match checkpoint {
        None => saver.admin()?.copy_thread(thread, new_thread).await?,
        Some(from) => fork_from(&saver, thread, *from, new_thread, taken).await?,
    }
    let others = threads.iter().filter(|info| *info.thread != **thread && *info.thread != **new_thread);
    delete_abandoned_drafts(&saver, others).await?;
    let latest = saver.get(new_thread, "", None).await?.map(|saved| saved.checkpoint.id);
    if arguments.database.json {
        return write_json(out, &json!({ "thread": new_thread, "checkpoint": latest }));
    }
    let (thread, new_thread) = (text::safe(thread), text::safe(new_thread));
    writeln!(out, "copied `{thread}` to `{new_thread}`").map_err(ThreadsError::Write)
}

/// Copies a thread, and appends a copy of an earlier checkpoint, so that the new thread continues from its values and
/// next tasks. If a step fails, the new thread does not exist. If it exists already, a draft is completed first, so that
/// a failure does not change the thread.
async fn fork_from(
    saver: &SharedSaver,
    thread: &str,
    from: Uuid,
    new_thread: &str,
    exists: bool,
) -> Result<(), ThreadsError> {
    let draft = exists.then(|| format!("{DRAFT}{}", Uuid::now_v6(&[0; 6])));
    let target = draft.as_deref().unwrap_or(new_thread);
    saver.admin()?.copy_thread(thread, target).await?;
    let branched = async {
        if !branch_off(saver, target, from).await? {
            return Err(missing(thread, from));
        }
        if exists {
            saver.admin()?.copy_thread(target, new_thread).await?;
        }
        Ok(())
    };
    let branched = branched.await;
    let deleted = if exists || branched.is_err() { saver.delete_thread(target).await } else { Ok(()) };
    branched.and(deleted.map_err(ThreadsError::from))
}

/// Deletes the drafts of killed commands.
async fn delete_abandoned_drafts(
    saver: &SharedSaver,
    threads: impl Iterator<Item = &ThreadInfo>,
) -> Result<(), ThreadsError> {
    let made = |thread: &str| {
        let (seconds, _) = Uuid::try_parse(thread.strip_prefix(DRAFT)?).ok()?.get_timestamp()?.to_unix();
        UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
    };
    for ThreadInfo { thread, .. } in threads {
        let age = made(thread).and_then(|made| SystemTime::now().duration_since(made).ok());
        if age.is_some_and(|age| age > ABANDONED) {
            saver.delete_thread(thread).await?;
        }
    }
    Ok(())
}

async fn branch_off(saver: &SharedSaver, thread: &str, from: Uuid) -> Result<bool, ThreadsError> {
    let claim = Claim { holder: "hier fork".to_owned(), keeps_time_to_live: true, ..Claim::default() };
    let lease = saver.acquire(thread, claim).await?;
    let branched = hier_core::branch_off(saver, &lease, from).await;
    saver.release(&lease).await?;
    Ok(branched?.is_some())
}

fn missing(thread: &str, id: Uuid) -> ThreadsError {
    let thread = text::safe(thread);
    ThreadsError::NotFound(format!("thread `{thread}` has no checkpoint `{id}`: `hier history` lists its checkpoints"))
}
