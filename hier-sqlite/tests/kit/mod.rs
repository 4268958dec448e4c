//! Checkpoints to test with.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hier_core::checkpoint::{ChannelBlob, Checkpoint, PendingWrite, Schema, Source, TaskWrites, WriteRecord};
use serde_json::{Map, json};
use uuid::{Timestamp, Uuid};

/// Each greater than the one before, and different from those of other processes.
pub(crate) fn new_id() -> Uuid {
    static LAST: AtomicU64 = AtomicU64::new(140_000_000_000_000_000);
    let [a, b, c, d] = std::process::id().to_be_bytes();
    Uuid::new_v6(Timestamp::from_gregorian_time(LAST.fetch_add(1, Ordering::Relaxed), 0), &[1, 1, a, b, c, d])
}

/// The checkpoint after `parent`. Each change has the channel, true if the bytes are an addition, and the bytes.
pub(crate) fn next(
    parent: Option<&Checkpoint>,
    changes: &[(usize, bool, Vec<u8>)],
    channels: usize,
) -> (Checkpoint, WriteRecord) {
    let id = new_id();
    let mut versions = parent.map_or_else(|| vec![Uuid::nil(); channels], |parent| parent.versions.to_vec());
    let mut pieces: Vec<ChannelBlob> = Vec::new();
    for (channel, adds, bytes) in changes {
        if pieces.iter().any(|piece| piece.channel == *channel) {
            continue;
        }
        let before = std::mem::replace(&mut versions[*channel], id);
        let base = Some(before).filter(|before| *adds && !before.is_nil());
        pieces.push(ChannelBlob { channel: *channel, base, bytes: bytes.clone() });
    }
    let names = (0..channels).map(|number| Arc::from(format!("channel {number}"))).collect();
    let step = parent.map_or(-1, |parent| parent.step + 1);
    let mut checkpoint = Checkpoint::new(id, step, Source::Loop, names);
    checkpoint.parent = parent.map(|parent| parent.id);
    checkpoint.versions = versions.into();
    checkpoint.schema = Arc::new(Schema::new("Test", 1, 7));
    checkpoint.metadata = Arc::new(Map::from_iter([("secret".to_owned(), json!("in the metadata"))]));
    let record = WriteRecord::Checkpoint { namespace: "".into(), checkpoint: Box::new(checkpoint.clone()), pieces };
    (checkpoint, record)
}

/// The write of a task in one slot.
pub(crate) fn write(checkpoint: Uuid, slot: i32, value: &[u8]) -> WriteRecord {
    let write = PendingWrite { slot, channel: "channel 0".into(), value: value.to_vec() };
    let writes = TaskWrites { checkpoint, task: Uuid::from_u128(7), path: "a".into(), writes: vec![write] };
    WriteRecord::Writes { namespace: "".into(), writes }
}
