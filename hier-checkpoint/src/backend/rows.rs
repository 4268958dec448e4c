//! Converts records to rows of tables and back, for all databases.

use std::sync::Arc;

use crate::checkpoint::{Checkpoint, PendingWrite, SaverError, TaskWrites, WriteRecord, builds_on, codec};
use uuid::Uuid;

use crate::backend::latest::Latest;
use crate::backend::storage_key::StorageKey;
use crate::backend::value_codec::ValueCodec;

/// The rows of one commit.
#[derive(Debug, Default)]
pub struct Batch {
    pub checkpoints: Vec<CheckpointRow>,
    pub pieces: Vec<PieceRow>,
    pub writes: Vec<WriteRow>,
    /// The values that the commit needs from earlier commits. If one of them is not stored, the saver must refuse the
    /// commit with [`SaverError::Gone`].
    pub bases: Vec<Bases>,
}

/// The values that a checkpoint of a commit needs and that the commit does not contain.
#[derive(Debug)]
pub struct Bases {
    pub namespace: Arc<str>,
    /// The parent of the checkpoint, if all `values` are values of the parent. If the parent is stored, all `values`
    /// are stored, so the saver need not check each value. `None` if the saver must check each value.
    pub parent: Option<Uuid>,
    pub values: Vec<Base>,
}

/// The channel and the version of a value that a commit needs.
#[derive(Debug)]
pub struct Base {
    pub channel: Arc<str>,
    pub version: Uuid,
}

impl Base {
    pub fn gone(&self, thread: &str) -> SaverError {
        SaverError::Gone { thread: thread.to_owned(), channel: self.channel.to_string(), version: self.version }
    }
}

/// Estimates the number of rows for these records, and the size of the rows in bytes.
pub fn size(records: &[WriteRecord]) -> (usize, usize) {
    let sizes = records.iter().map(|record| match record {
        WriteRecord::Checkpoint { checkpoint, pieces, .. } => {
            let values = pieces.iter().map(|piece| piece.bytes.len()).sum::<usize>();
            let sends = checkpoint.agenda.sends.iter().map(|send| send.payload.len()).sum::<usize>();
            (1 + pieces.len(), values + sends)
        }
        WriteRecord::Writes { writes, .. } => {
            (writes.writes.len(), writes.writes.iter().map(|write| write.value.len()).sum::<usize>())
        }
    });
    sizes.fold((0, 0), |(rows, bytes), (more_rows, more_bytes)| (rows + more_rows, bytes + more_bytes))
}

#[derive(Debug)]
pub struct CheckpointRow {
    pub namespace: Arc<str>,
    pub id: Uuid,
    pub body: Vec<u8>,
}

/// A row with a whole value of a channel, or with an addition to an earlier version of the value.
#[derive(Debug)]
pub struct PieceRow {
    pub namespace: Arc<str>,
    pub channel: Arc<str>,
    pub version: Uuid,
    pub base: Option<Uuid>,
    pub value: Vec<u8>,
}

#[derive(Debug)]
pub struct WriteRow {
    pub namespace: Arc<str>,
    pub checkpoint: Uuid,
    pub task: Uuid,
    pub slot: i32,
    pub path: Arc<str>,
    pub channel: Arc<str>,
    pub value: Vec<u8>,
}

impl Batch {
    /// Returns the number of rows, and the total size of their values in bytes.
    pub fn size(&self) -> (usize, usize) {
        let bodies = self.checkpoints.iter().map(|row| row.body.len());
        let values = self.pieces.iter().map(|row| row.value.len()).chain(self.writes.iter().map(|row| row.value.len()));
        bodies.chain(values).fold((0, 0), |(rows, bytes), length| (rows + 1, bytes + length))
    }

    /// Returns the namespace and the parent of the first entry in `bases`. If `bases` is empty, returns the namespace
    /// of the first checkpoint or write, and no parent. A saver can look up both in the query that checks the lease.
    pub fn first(&self) -> (Option<&Arc<str>>, Option<Uuid>) {
        if let Some(bases) = self.bases.first() {
            return (Some(&bases.namespace), bases.parent);
        }
        let namespaces = self.checkpoints.iter().map(|row| &row.namespace);
        (namespaces.chain(self.writes.iter().map(|row| &row.namespace)).next(), None)
    }

    /// Splits the batch into batches of at most `most` bytes. A larger row gets its own batch. The new batches have no
    /// `bases`.
    pub fn split(self, most: usize) -> Vec<Self> {
        let (mut parts, mut bytes) = (vec![Self::default()], 0);
        let mut part = |size: usize| {
            bytes += size;
            if bytes > most && bytes > size {
                bytes = size;
                return true;
            }
            false
        };
        macro_rules! spread {
            ($rows:ident, $value:ident) => {
                for row in self.$rows {
                    if part(row.$value.len()) {
                        parts.push(Self::default());
                    }
                    if let Some(last) = parts.last_mut() {
                        last.$rows.push(row);
                    }
                }
            };
        }
        spread!(checkpoints, body);
        spread!(pieces, value);
        spread!(writes, value);
        parts
    }

    /// Encodes the records of a commit as rows of the thread, and records the checkpoints in `latest`. The caller must
    /// first check each record with [`check`](crate::checkpoint::check).
    pub fn of(
        vault: &ValueCodec,
        latest: &Latest,
        thread: &Arc<str>,
        records: Vec<WriteRecord>,
    ) -> Result<Self, SaverError> {
        let mut batch = Self::default();
        for record in records {
            batch.add_bases(latest, thread, &record);
            match record {
                WriteRecord::Checkpoint { namespace, checkpoint, pieces } => {
                    let body = seal_body(vault, thread, &namespace, &checkpoint)?;
                    for piece in pieces {
                        let channel = checkpoint.channels[piece.channel].clone();
                        let (version, base) = (checkpoint.id, piece.base);
                        let row = PieceRow { namespace: namespace.clone(), channel, version, base, value: piece.bytes };
                        batch.pieces.push(row.seal(vault, thread)?);
                    }
                    batch.checkpoints.push(CheckpointRow { namespace, id: checkpoint.id, body });
                }
                WriteRecord::Writes { namespace, writes } => batch.add_writes(vault, thread, &namespace, writes)?,
            }
        }
        Ok(batch)
    }

    fn add_bases(&mut self, latest: &Latest, thread: &Arc<str>, record: &WriteRecord) {
        let WriteRecord::Checkpoint { namespace, checkpoint, pieces } = record else { return };
        let before = latest.replace(thread, namespace, checkpoint, pieces);
        let parent = before.filter(|before| before.is_all_of(checkpoint, pieces)).and(checkpoint.parent);
        let is_of_batch =
            |id| self.checkpoints.iter().rev().any(|row| Some(row.id) == id && row.namespace == *namespace);
        if parent.is_some() && is_of_batch(parent) {
            return;
        }
        let mut values: Vec<Base> = Vec::new();
        for (channel, version) in builds_on(record) {
            let base = Base { channel: checkpoint.channels[channel].clone(), version };
            let brings = |piece: &PieceRow| {
                piece.version == version && piece.channel == base.channel && piece.namespace == *namespace
            };
            // An earlier record of the batch may store the value. It is mostly a recent record, so the search starts at
            // the end. `values` has no duplicates: `builds_on` lists a channel either by name or as the base of an
            // addition.
            if !self.pieces.iter().rev().any(brings) {
                values.push(base);
            }
        }
        if !values.is_empty() {
            self.bases.push(Bases { namespace: namespace.clone(), parent, values });
        }
    }

    fn add_writes(
        &mut self,
        vault: &ValueCodec,
        thread: &str,
        namespace: &Arc<str>,
        writes: TaskWrites,
    ) -> Result<(), SaverError> {
        let TaskWrites { checkpoint, task, path, writes } = writes;
        for PendingWrite { slot, channel, value } in writes {
            let (namespace, path) = (namespace.clone(), path.clone());
            let row = WriteRow { namespace, checkpoint, task, slot, path, channel, value };
            self.writes.push(row.seal(vault, thread)?);
        }
        Ok(())
    }
}

pub fn seal_body(
    vault: &ValueCodec,
    thread: &str,
    namespace: &str,
    checkpoint: &Checkpoint,
) -> Result<Vec<u8>, SaverError> {
    let mut body = Vec::with_capacity(body_size(checkpoint));
    codec::encode_record_into(checkpoint, &mut body)
        .map_err(|error| SaverError::Invalid(format!("checkpoint `{}` cannot be encoded: {error}", checkpoint.id)))?;
    vault.seal(StorageKey::Body { thread, namespace, id: checkpoint.id }, body)
}

/// Estimates the encoded size of a checkpoint in bytes, for the capacity of a buffer.
fn body_size(checkpoint: &Checkpoint) -> usize {
    let channels = checkpoint.channels.iter().map(|name| name.len() + 20).sum::<usize>();
    let sends = checkpoint.agenda.sends.iter().map(|send| send.payload.len() + 64).sum::<usize>();
    240 + channels + sends
}

pub fn open_body(
    vault: &ValueCodec,
    thread: &str,
    namespace: &str,
    id: Uuid,
    body: Vec<u8>,
) -> Result<Checkpoint, SaverError> {
    let damaged = |reason: String| SaverError::Damaged {
        thread: thread.to_owned(),
        reason: format!("checkpoint `{id}` of namespace `{namespace}`: {reason}"),
    };
    let body = vault.open(StorageKey::Body { thread, namespace, id }, body)?;
    let checkpoint: Checkpoint = codec::decode(&body).map_err(|error| damaged(error.to_string()))?;
    if checkpoint.id != id {
        return Err(damaged(format!("its row contains checkpoint `{}` instead", checkpoint.id)));
    }
    if checkpoint.channels.len() != checkpoint.versions.len() {
        return Err(damaged("its channels and versions differ in number".to_owned()));
    }
    Ok(checkpoint)
}

/// Returns true if `known` contains this version of the channel. A reader then already has the value.
pub fn is_known(known: &[(Arc<str>, Uuid)], channel: &Arc<str>, version: &Uuid) -> bool {
    known.iter().any(|(name, known)| known == version && name == channel)
}

impl PieceRow {
    fn place<'a>(&'a self, thread: &'a str) -> StorageKey<'a> {
        let Self { namespace, channel, version, base, .. } = self;
        StorageKey::ChannelBlob { thread, namespace, channel, version: *version, base: *base }
    }
}

impl WriteRow {
    fn place<'a>(&'a self, thread: &'a str) -> StorageKey<'a> {
        let Self { namespace, checkpoint, task, slot, path, channel, .. } = self;
        StorageKey::Write { thread, namespace, checkpoint: *checkpoint, task: *task, slot: *slot, path, channel }
    }
}

/// Implements the methods that seal and open the value of a row.
macro_rules! sealed_value {
    ($($row:ty)*) => {$(impl $row {
        pub fn seal(mut self, vault: &ValueCodec, thread: &str) -> Result<Self, SaverError> {
            let value = std::mem::take(&mut self.value);
            self.value = vault.seal(self.place(thread), value)?;
            Ok(self)
        }

        pub fn open(mut self, vault: &ValueCodec, thread: &str) -> Result<Self, SaverError> {
            let value = std::mem::take(&mut self.value);
            self.value = vault.open(self.place(thread), value)?;
            Ok(self)
        }
    })*};
}

sealed_value! { PieceRow WriteRow }

/// Groups the decoded writes of one checkpoint by task. Sorts them by path, then by task and then by slot.
pub fn by_task(mut rows: Vec<WriteRow>) -> Vec<TaskWrites> {
    rows.sort_by(|a, b| (&a.path, a.task, a.slot).cmp(&(&b.path, b.task, b.slot)));
    let mut tasks: Vec<TaskWrites> = Vec::new();
    for WriteRow { checkpoint, task, slot, path, channel, value, .. } in rows {
        let write = PendingWrite { slot, channel, value };
        match tasks.last_mut() {
            Some(last) if last.task == task && last.path == path => last.writes.push(write),
            _ => tasks.push(TaskWrites { checkpoint, task, path, writes: vec![write] }),
        }
    }
    tasks
}
