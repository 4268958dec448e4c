//! `hier inbox`, which lists or discards messages and signals.

use std::io::Write;

use hier_core::checkpoint::{self, Claim, Delivered, WhenRunning, codec};
use serde_json::{Value, json};

use super::args::{InboxDiscardArgs, InboxListArgs};
use super::{ThreadsError, database, expect_thread, text, write_json};

pub(super) async fn list(arguments: &InboxListArgs, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let saver = database::saver(&arguments.database).await?;
    let letters = saver.inbox()?.messages(&arguments.thread).await?;
    if letters.is_empty() {
        expect_thread(&saver, &arguments.thread).await?;
    }
    if arguments.database.json {
        return write_json(out, &letters.iter().map(as_json).collect::<Value>());
    }
    if letters.is_empty() {
        let thread = text::safe(&arguments.thread);
        return Err(ThreadsError::NotFound(format!("the inbox of `{thread}` is empty")));
    }
    for Delivered { message: letter, .. } in &letters {
        let what = letter
            .signal
            .as_ref()
            .map_or_else(|| "message".to_owned(), |name| format!("signal `{}`", text::safe(name)));
        let value = value(&letter.value).to_string();
        writeln!(out, "{}  {what}  {}", letter.id, text::safe(&value)).map_err(ThreadsError::Write)?;
    }
    Ok(())
}

/// Decodes a value. Returns null if this program cannot read it.
fn value(bytes: &[u8]) -> Value {
    codec::decode_json(bytes).unwrap_or_default()
}

fn as_json(posted: &Delivered) -> Value {
    let letter = &posted.message;
    json!({ "id": letter.id, "signal": letter.signal.as_deref(), "value": value(&letter.value) })
}

pub(super) async fn discard(arguments: &InboxDiscardArgs, out: &mut dyn Write) -> Result<(), ThreadsError> {
    let InboxDiscardArgs { database, thread, id } = arguments;
    let saver = database::saver(database).await?;
    let holder = "hier inbox discard".to_owned();
    let claim = Claim { holder, when_running: WhenRunning::Reject, ..Claim::default() };
    if !checkpoint::discard(&*saver, thread, claim, *id).await? {
        expect_thread(&saver, thread).await?;
        let thread = text::safe(thread);
        return Err(ThreadsError::NotFound(format!(
            "the inbox of `{thread}` has no signal or message with the id `{id}`: `hier inbox list` shows the ids"
        )));
    }
    if database.json {
        return write_json(out, &json!({ "thread": thread, "discarded": id }));
    }
    writeln!(out, "discarded `{id}` from the inbox of `{}`", text::safe(thread)).map_err(ThreadsError::Write)
}
