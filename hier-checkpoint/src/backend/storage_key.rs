//! The storage location of bytes.

use std::fmt;

use crate::checkpoint::SaverError;
use uuid::Uuid;

/// The location at which bytes are stored. Encrypted bytes can be decrypted only with the location for which they were
/// encrypted.
#[derive(Clone, Copy, Debug)]
pub enum StorageKey<'a> {
    /// A checkpoint.
    Body { thread: &'a str, namespace: &'a str, id: Uuid },
    /// A channel's value, or an addition to it.
    ChannelBlob { thread: &'a str, namespace: &'a str, channel: &'a str, version: Uuid, base: Option<Uuid> },
    /// A write of a task.
    Write {
        thread: &'a str,
        namespace: &'a str,
        checkpoint: Uuid,
        task: Uuid,
        slot: i32,
        path: &'a str,
        channel: &'a str,
    },
    /// A message in the inbox of a thread. `signal` is the name of the signal, or `None` for a message that is not a
    /// signal.
    InboxMessage { thread: &'a str, id: Uuid, signal: Option<&'a str> },
    /// The value of a store item or, if `vectors` is true, the vectors of the item's texts.
    Item { namespace: &'a str, key: &'a str, vectors: bool },
    /// A row in a table of a run store. `key` identifies the row in the table.
    Row { table: &'static str, key: &'a str },
}

impl StorageKey<'_> {
    /// Encodes the location. Different locations have different encodings, because the length of each text precedes it.
    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        };
        match *self {
            Self::Body { thread, namespace, id } => {
                bytes.push(b'b');
                text(&mut bytes, thread);
                text(&mut bytes, namespace);
                bytes.extend(id.as_bytes());
            }
            Self::ChannelBlob { thread, namespace, channel, version, base } => {
                bytes.push(b'p');
                text(&mut bytes, thread);
                text(&mut bytes, namespace);
                text(&mut bytes, channel);
                bytes.extend(version.as_bytes());
                bytes.extend(base.unwrap_or_default().as_bytes());
            }
            Self::Write { thread, namespace, checkpoint, task, slot, path, channel } => {
                bytes.push(b'w');
                text(&mut bytes, thread);
                text(&mut bytes, namespace);
                text(&mut bytes, path);
                text(&mut bytes, channel);
                bytes.extend(checkpoint.as_bytes());
                bytes.extend(task.as_bytes());
                bytes.extend(slot.to_le_bytes());
            }
            Self::InboxMessage { thread, id, signal } => {
                bytes.push(if signal.is_some() { b's' } else { b'l' });
                text(&mut bytes, thread);
                text(&mut bytes, signal.unwrap_or_default());
                bytes.extend(id.as_bytes());
            }
            Self::Item { namespace, key, vectors } => {
                bytes.push(if vectors { b'v' } else { b'i' });
                text(&mut bytes, namespace);
                text(&mut bytes, key);
            }
            Self::Row { table, key } => {
                bytes.push(b'r');
                text(&mut bytes, table);
                text(&mut bytes, key);
            }
        }
        bytes
    }

    pub fn damaged(&self, reason: impl fmt::Display) -> SaverError {
        let (thread, place) = match *self {
            Self::Body { thread, namespace, id } => (thread, format!("checkpoint `{id}` of namespace `{namespace}`")),
            Self::ChannelBlob { thread, namespace, channel, version, .. } => {
                let of = format!("that checkpoint `{version}` of namespace `{namespace}` brought");
                (thread, format!("the value of channel `{channel}` {of}"))
            }
            Self::Write { thread, namespace, checkpoint, task, slot, .. } => {
                let of = format!("at checkpoint `{checkpoint}` of namespace `{namespace}`");
                (thread, format!("write {slot} of task `{task}` {of}"))
            }
            Self::Row { table, key } => {
                return SaverError::Unusable {
                    place: format!("row `{key}` of `{table}`"),
                    reason: format!("it {reason}"),
                };
            }
            Self::InboxMessage { thread, id, .. } => (thread, format!("message `{id}`")),
            Self::Item { namespace, key, .. } => {
                let place = format!("item `{key}` of namespace `{namespace}`");
                return SaverError::Unusable { place, reason: format!("it {reason}") };
            }
        };
        SaverError::Damaged { thread: thread.to_owned(), reason: format!("{place} {reason}") }
    }
}
