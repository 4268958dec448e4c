//! Converts runs, events and threads to rows and back, for all databases.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{LOG_BYTES, NewEvent, Run, RunsError, ThreadRow};
use hier_checkpoint::checkpoint::{SaverError, SupersededBy};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use hier_checkpoint::backend::storage_key::StorageKey;
use hier_checkpoint::backend::value_codec::ValueCodec;

/// The name of the table with the rows of threads. The encryption of a value includes the names of its table and row. A
/// value that is moved to another table or row can therefore not be decrypted.
pub const THREADS: &str = "run_threads";
pub const VALUES: &str = "run_threads.vals";
pub const RUNS: &str = "runs";
pub const EVENTS: &str = "events";
pub const DOCUMENTS: &str = "documents";

/// Maximum number of due documents per lookup.
pub const DUE: usize = 256;

/// Returns the number of microseconds from 1970 to this time. Returns 0 for an earlier time.
pub fn micros(time: SystemTime) -> i64 {
    i64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_micros()).unwrap_or(i64::MAX)
}

pub fn time(micros: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

/// Converts a number to the signed integer that the database stores. A number that is too large becomes `i64::MAX`.
pub fn integer(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a signed integer from the database to a number. A negative integer becomes 0.
pub fn number(integer: i64) -> u64 {
    u64::try_from(integer).unwrap_or_default()
}

/// Returns the key of an event's row, for [`seal`] and [`open`].
pub fn event_key(thread: &str, number: u64) -> String {
    format!("{thread} {number}")
}

/// Returns the key of a document's row, for [`seal`] and [`open`].
pub fn document_key(kind: &str, id: &str) -> String {
    format!("{}:{kind}{id}", kind.len())
}

/// Encodes a value for the row `key` of a table. To decode the value, pass the same table and key to [`open`].
pub fn seal<T: Serialize>(
    vault: &ValueCodec,
    table: &'static str,
    key: &str,
    value: &T,
) -> Result<Vec<u8>, SaverError> {
    let place = StorageKey::Row { table, key };
    let json = serde_json::to_vec(value).map_err(|error| {
        SaverError::Invalid(format!("row `{key}` of `{table}` cannot be serialized to JSON: {error}"))
    })?;
    if is_deeper(&json, DEEPEST) {
        let text = "which is too deep to be read again: store its inner parts as text";
        return Err(SaverError::Invalid(format!(
            "row `{key}` of `{table}` is nested deeper than {DEEPEST} levels, {text}"
        )));
    }
    vault.seal(place, json)
}

/// Maximum nesting of lists and objects that [`open`] reads.
const DEEPEST: usize = 127;

fn is_deeper(json: &[u8], levels: usize) -> bool {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'[' | b'{' if !is_text => depth += 1,
            b']' | b'}' if !is_text => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > levels {
            return true;
        }
    }
    false
}

/// Decodes a value that [`seal`] has encoded for the row `key` of a table.
pub fn open<T: DeserializeOwned>(
    vault: &ValueCodec,
    table: &'static str,
    key: &str,
    stored: Vec<u8>,
) -> Result<T, SaverError> {
    let place = StorageKey::Row { table, key };
    serde_json::from_slice(&vault.open(place, stored)?)
        .map_err(|error| place.damaged(format!("cannot be read: {error}")))
}

/// Decodes the run stored in the row `id`. Fails if the run has another id, or if `thread` is not `None` and the run is
/// of another thread.
pub fn open_run(vault: &ValueCodec, id: Uuid, thread: Option<&str>, stored: Vec<u8>) -> Result<Run, SaverError> {
    let key = id.to_string();
    let run: Run = open(vault, RUNS, &key, stored)?;
    if run.id != id || thread.is_some_and(|thread| run.thread != thread) {
        return Err(StorageKey::Row { table: RUNS, key: &key }
            .damaged("contains a run of another thread: another program moved the row"));
    }
    Ok(run)
}

/// Decodes the run stored in the row `id`. Fails if the run has another id, is of another thread or has ended.
pub fn open_live(vault: &ValueCodec, id: Uuid, thread: &str, stored: Vec<u8>) -> Result<Run, SaverError> {
    let run = open_run(vault, id, Some(thread), stored)?;
    if run.ended.is_some() {
        let key = id.to_string();
        return Err(StorageKey::Row { table: RUNS, key: &key }
            .damaged("contains a run that has ended, but is listed as a run that has not"));
    }
    Ok(run)
}

/// Decodes the event with this number. Fails if `run` is not `None` and the event is of another run.
pub fn open_event(
    vault: &ValueCodec,
    thread: &str,
    number: u64,
    run: Option<Uuid>,
    stored: Vec<u8>,
) -> Result<NewEvent, SaverError> {
    let key = event_key(thread, number);
    let event: NewEvent = open(vault, EVENTS, &key, stored)?;
    if run.is_some() && event.run != run {
        return Err(StorageKey::Row { table: EVENTS, key: &key }
            .damaged("contains an event of another run: another program moved the row"));
    }
    Ok(event)
}

/// Returns the time at which the thread expires, in microseconds since 1970. Returns `None` if the thread has no time
/// to live or has a run that has not ended.
pub fn expires(thread: &ThreadRow) -> Option<i64> {
    let is_busy = thread.status == crate::ThreadStatus::Busy;
    let lives = thread.time_to_live.filter(|_| !is_busy)?;
    thread.updated.checked_add(lives).map(micros)
}

/// Selects the oldest events to delete so that the log is half full, and updates the row of the thread. `oldest` has
/// the number and the size in bytes of each event, oldest first. Returns the number of the last event to delete, or
/// `None` if there is nothing to delete.
pub fn trim(thread: &mut ThreadRow, oldest: impl IntoIterator<Item = (i64, i64)>) -> Option<i64> {
    let mut last = None;
    for (event, bytes) in oldest {
        if thread.event_bytes <= LOG_BYTES / 2 || number(event) >= thread.last_event {
            break;
        }
        thread.event_bytes = thread.event_bytes.saturating_sub(number(bytes));
        thread.gone_events = number(event);
        last = Some(event);
    }
    last
}

pub fn no_thread(thread: &str) -> RunsError {
    RunsError::NoThread { thread: thread.to_owned() }
}

pub fn superseded(thread: &str) -> RunsError {
    RunsError::Saver(SaverError::Superseded { thread: thread.to_owned(), by: SupersededBy::Claim })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{DEEPEST, is_deeper};

    #[test]
    fn values_within_the_depth_limit_are_read() {
        for levels in [0, 1, DEEPEST - 1, DEEPEST, DEEPEST + 1, DEEPEST + 2] {
            for inside in ["1", r#""[[[{{{\"[[[\\""#] {
                let json = format!("{}{inside}{}", "[".repeat(levels), "]".repeat(levels));
                let is_read = serde_json::from_str::<Value>(&json).is_ok();
                assert_eq!(is_read, !is_deeper(json.as_bytes(), DEEPEST), "{levels} levels");
            }
        }
    }
}
