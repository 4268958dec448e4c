//! `hier mail` and `hier discard`.

use std::io::Write;

use hier_core::checkpoint::{self, Claim, Delivered, WhenRunning, codec};
use serde_json::{Value, json};

use super::args::{Discard, Mail};
use super::{Error, database, text, write_json};

/// Lists what waits in the mailbox of a thread.
pub(super) async fn list(arguments: &Mail, out: &mut dyn Write) -> Result<(), Error> {
    let saver = database::open(&arguments.database).await?;
    let letters = saver.inbox()?.messages(&arguments.thread).await?;
    if arguments.database.json {
        return write_json(out, &letters.iter().map(shown).collect::<Value>());
    }
    if letters.is_empty() {
        let thread = text::safe(&arguments.thread);
        return Err(Error::NotFound(format!("nothing waits in the mailbox of `{thread}`")));
    }
    for Delivered { message: letter, .. } in &letters {
        let what = letter
            .signal
            .as_ref()
            .map_or_else(|| "message".to_owned(), |name| format!("signal `{}`", text::safe(name)));
        let value = value(&letter.value).to_string();
        writeln!(out, "{}  {what}  {}", letter.id, text::safe(&value)).map_err(Error::Write)?;
    }
    Ok(())
}

/// A value as JSON; null if it is none that this program can read.
fn value(bytes: &[u8]) -> Value {
    codec::decode_json(bytes).unwrap_or_default()
}

fn shown(posted: &Delivered) -> Value {
    let letter = &posted.message;
    json!({ "id": letter.id, "signal": letter.signal.as_deref(), "value": value(&letter.value) })
}

/// Takes something out of the mailbox of a thread.
pub(super) async fn discard(arguments: &Discard, out: &mut dyn Write) -> Result<(), Error> {
    let Discard { database, thread, id } = arguments;
    let saver = database::open(database).await?;
    let claim = Claim { holder: "hier discard".to_owned(), when_running: WhenRunning::Reject, ..Claim::default() };
    if !checkpoint::discard(&*saver, thread, claim, *id).await? {
        let thread = text::safe(thread);
        return Err(Error::NotFound(format!(
            "there is nothing with the id `{id}` in the mailbox of `{thread}`: `hier mail` lists it"
        )));
    }
    if database.json {
        return write_json(out, &json!({ "thread": thread, "discarded": id }));
    }
    writeln!(out, "discarded `{id}` of `{}`", text::safe(thread)).map_err(Error::Write)
}
