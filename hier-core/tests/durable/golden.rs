//! Threads as older programs have stored them: files of records.
//!
//! `HIER_GOLDEN=write cargo test -p hier-core --test durable golden` writes them again. That is for new files: the old ones stand
//! for threads in the databases of users, and must stay readable without changes.

use std::path::PathBuf;
use std::sync::Arc;

use hier_core::checkpoint::{
    ChannelBlob, Checkpoint, Checkpointer, Claim, MemorySaver, PendingWrite, TaskWrites, WriteRecord,
};
use hier_core::prelude::*;
use serde_json::{Value, json};
use uuid::Uuid;

use super::faulty::Faulty;

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/durable/golden").join(format!("{name}.json"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn unhex(text: &Value) -> Vec<u8> {
    let text = text.as_str().expect("bytes");
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("a byte")).collect()
}

fn to_json(record: &WriteRecord) -> Value {
    match record {
        WriteRecord::Checkpoint { namespace, checkpoint, pieces } => {
            let piece = |piece: &ChannelBlob| json!([piece.channel, piece.base, hex(&piece.bytes)]);
            let pieces: Vec<Value> = pieces.iter().map(piece).collect();
            json!({ "namespace": namespace, "checkpoint": checkpoint, "pieces": pieces })
        }
        WriteRecord::Writes { namespace, writes } => {
            let write = |write: &PendingWrite| json!([write.slot, write.channel, hex(&write.value)]);
            let list: Vec<Value> = writes.writes.iter().map(write).collect();
            let TaskWrites { checkpoint, task, path, .. } = writes;
            json!({ "namespace": namespace, "at": checkpoint, "task": task, "path": path, "writes": list })
        }
    }
}

fn from_json(record: &Value) -> WriteRecord {
    let text = |value: &Value| -> Arc<str> { value.as_str().expect("a text").into() };
    let id = |value: &Value| -> Uuid { value.as_str().expect("an id").parse().expect("an id") };
    let namespace = text(&record["namespace"]);
    let list = |name: &str| record[name].as_array().cloned().unwrap_or_default();
    if record["checkpoint"].is_null() {
        let write = |write: &Value| PendingWrite {
            slot: i32::deserialize(&write[0]).expect("a slot"),
            channel: text(&write[1]),
            value: unhex(&write[2]),
        };
        let writes = list("writes").iter().map(write).collect();
        let (checkpoint, task, path) = (id(&record["at"]), id(&record["task"]), text(&record["path"]));
        return WriteRecord::Writes { namespace, writes: TaskWrites { checkpoint, task, path, writes } };
    }
    let checkpoint = Box::new(Checkpoint::deserialize(&record["checkpoint"]).expect("a checkpoint"));
    let piece = |piece: &Value| ChannelBlob {
        channel: usize::deserialize(&piece[0]).expect("a channel"),
        base: Option::deserialize(&piece[1]).expect("a version"),
        bytes: unhex(&piece[2]),
    };
    WriteRecord::Checkpoint { namespace, checkpoint, pieces: list("pieces").iter().map(piece).collect() }
}

/// A saver that has the thread `t` of this file.
pub(crate) async fn stored(name: &str) -> MemorySaver {
    let text = std::fs::read_to_string(path(name)).expect("the file is there");
    let records: Vec<Value> = serde_json::from_str(&text).expect("the file is JSON");
    let saver = MemorySaver::new();
    let lease = saver.acquire("t", Claim::default()).await.expect("memory does not fail");
    saver
        .commit(&lease, records.iter().map(from_json).collect::<Vec<_>>().into())
        .await
        .expect("the records are whole");
    saver.release(&lease).await.expect("memory does not fail");
    saver
}

/// Writes the records of a saver, if requested.
pub(crate) fn write(name: &str, saver: &Faulty) {
    if std::env::var_os("HIER_GOLDEN").is_some_and(|what| what == "write") {
        let records: Vec<Value> = saver.records.lock().expect("no test panics here").iter().map(to_json).collect();
        let lines: Vec<String> = records.iter().map(Value::to_string).collect();
        std::fs::write(path(name), format!("[\n{}\n]\n", lines.join(",\n"))).expect("the file can be written");
    }
}
