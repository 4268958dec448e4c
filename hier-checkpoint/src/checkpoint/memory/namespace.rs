use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::checkpoint::{ChannelBlob, Checkpoint, Deletion, DeltaChain, PendingWrite, Saved, TaskWrites};

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Namespace {
    entries: Vec<StoredCheckpoint>,
    writes: HashMap<Uuid, HashMap<Uuid, TaskWrites>>,
    /// The values of deleted checkpoints that other checkpoints still need, by the id of the deleted checkpoint.
    remains: HashMap<Uuid, Remains>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StoredCheckpoint {
    checkpoint: Box<Checkpoint>,
    pieces: Vec<ChannelBlob>,
}

/// A write of a task as it was before a run changed it.
#[derive(Clone, Debug)]
pub(super) struct Overwritten {
    pub(super) path: Arc<str>,
    pub(super) old: Option<PendingWrite>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Remains {
    channels: Arc<[Arc<str>]>,
    pieces: Vec<ChannelBlob>,
}

impl Namespace {
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Checkpoint> {
        self.entries.iter().rev().map(|entry| &*entry.checkpoint)
    }

    pub(super) fn put(&mut self, checkpoint: Box<Checkpoint>, pieces: Vec<ChannelBlob>) {
        let mut entry = StoredCheckpoint { checkpoint, pieces };
        let id = entry.checkpoint.id;
        // The map is empty in most cases. Hashing the id to find that out would cost more than everything else here.
        if !self.remains.is_empty()
            && let Some(remains) = self.remains.remove(&id)
        {
            entry.inherit(&remains.channels, remains.pieces);
        }
        if self.entries.last().is_none_or(|last| last.checkpoint.id < id) {
            self.entries.push(entry);
            return;
        }
        match self.place(id) {
            Ok(place) => {
                let old = std::mem::replace(&mut self.entries[place], entry);
                self.entries[place].inherit(&old.checkpoint.channels, old.pieces);
            }
            Err(place) => self.entries.insert(place, entry),
        }
    }

    pub(super) fn put_writes(&mut self, writes: TaskWrites) {
        let tasks = self.writes.entry(writes.checkpoint).or_default();
        let TaskWrites { checkpoint, task, path, writes } = writes;
        let old = tasks.entry(task).or_insert_with(|| TaskWrites { checkpoint, task, path, writes: Vec::new() });
        for write in writes {
            put_write(&mut old.writes, write);
        }
    }

    pub(super) fn write(&self, checkpoint: Uuid, task: Uuid, slot: i32) -> Option<&PendingWrite> {
        let writes = &self.writes.get(&checkpoint)?.get(&task)?.writes;
        writes.binary_search_by_key(&slot, |write| write.slot).ok().map(|place| &writes[place])
    }

    /// Restores an earlier write of a task, if the checkpoint still exists.
    pub(super) fn put_back(&mut self, checkpoint: Uuid, task: Uuid, slot: i32, overwritten: Overwritten) {
        let Overwritten { path, old } = overwritten;
        if self.place(checkpoint).is_err() {
            return;
        }
        let tasks = self.writes.entry(checkpoint).or_default();
        let record = tasks.entry(task).or_insert_with(|| TaskWrites { checkpoint, task, path, writes: Vec::new() });
        record.writes.retain(|write| write.slot != slot);
        if let Some(old) = old {
            put_write(&mut record.writes, old);
        }
        if record.writes.is_empty() {
            tasks.remove(&task);
        }
    }

    pub(super) fn get(&self, id: Option<Uuid>, known: &[(Arc<str>, Uuid)]) -> Option<Saved> {
        let entry = match id {
            Some(id) => &self.entries[self.place(id).ok()?],
            None => self.entries.last()?,
        };
        let checkpoint = entry.checkpoint.as_ref().clone();
        let is_known = |channel: usize, version: &Uuid| {
            known.iter().any(|(name, known)| known == version && *name == checkpoint.channels[channel])
        };
        let versions = checkpoint.versions.iter().enumerate();
        let versions = versions.filter(|(channel, version)| !version.is_nil() && !is_known(*channel, version));
        let values = versions.map(|(channel, version)| (channel, self.chain(&checkpoint.channels[channel], *version)));
        let values = values.collect();
        Some(Saved { values, writes: self.writes_of(checkpoint.id), checkpoint })
    }

    /// Deletes checkpoints, the values that only they need, and the references to them as parents.
    pub(super) fn delete(&mut self, name: &Arc<str>, deletion: &Deletion) {
        let gone = |id: Uuid| deletion.has(name, id);
        if !self.entries.iter().any(|entry| gone(entry.checkpoint.id)) {
            return;
        }
        let (deleted, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.entries).into_iter().partition(|entry| gone(entry.checkpoint.id));
        self.entries = kept;
        for entry in deleted {
            self.writes.remove(&entry.checkpoint.id);
            let remains = Remains { channels: entry.checkpoint.channels, pieces: entry.pieces };
            self.remains.insert(entry.checkpoint.id, remains);
        }
        for entry in &mut self.entries {
            entry.checkpoint.parent = entry.checkpoint.parent.filter(|parent| !gone(*parent));
        }
        self.drop_unneeded();
    }

    /// Returns the parent if it is stored and shares the list of channels, so that their versions have equal indices.
    pub(super) fn parent_of(&self, checkpoint: &Checkpoint) -> Option<&Checkpoint> {
        let id = checkpoint.parent?;
        // In most cases, the parent is the newest checkpoint, which needs no search.
        let entry = match self.entries.last() {
            Some(newest) if newest.checkpoint.id == id => newest,
            _ => &self.entries[self.place(id).ok()?],
        };
        let parent = &*entry.checkpoint;
        Arc::ptr_eq(&parent.channels, &checkpoint.channels).then_some(parent)
    }

    pub(super) fn has(&self, channel: &str, version: Uuid) -> bool {
        self.piece(channel, version).is_some()
    }

    fn place(&self, id: Uuid) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| entry.checkpoint.id.cmp(&id))
    }

    fn chain(&self, channel: &str, version: Uuid) -> DeltaChain {
        let mut chain = DeltaChain::default();
        let mut next = Some(version);
        while let Some(version) = next {
            let Some(piece) = self.piece(channel, version) else { break };
            next = piece.base;
            if next.is_some() {
                chain.deltas.push(piece.bytes.clone());
            } else {
                chain.full = Some(piece.bytes.clone());
            }
        }
        chain.deltas.reverse();
        chain
    }

    fn piece(&self, channel: &str, version: Uuid) -> Option<&ChannelBlob> {
        let (channels, pieces) = match self.place(version) {
            Ok(place) => (&self.entries[place].checkpoint.channels, &self.entries[place].pieces),
            Err(_) => self.remains.get(&version).map(|remains| (&remains.channels, &remains.pieces))?,
        };
        pieces.iter().find(|piece| &*channels[piece.channel] == channel)
    }

    fn writes_of(&self, checkpoint: Uuid) -> Vec<TaskWrites> {
        let tasks = self.writes.get(&checkpoint).map(HashMap::values);
        let mut tasks: Vec<_> = tasks.into_iter().flatten().cloned().collect();
        tasks.sort_by(|a, b| (&a.path, a.task).cmp(&(&b.path, b.task)));
        tasks
    }

    /// Drops the values of deleted checkpoints on which no remaining checkpoint builds.
    fn drop_unneeded(&mut self) {
        let mut needed: HashSet<(Uuid, &str)> = HashSet::new();
        for entry in &self.entries {
            for (channel, version) in entry.checkpoint.channels.iter().zip(entry.checkpoint.versions.iter()) {
                let mut next = Some(*version).filter(|version| !version.is_nil());
                // A version in `needed` has already been followed to the end of its chain.
                while let Some(version) = next.filter(|version| needed.insert((*version, channel))) {
                    next = self.piece(channel, version).and_then(|piece| piece.base);
                }
            }
        }
        let mut remains = std::mem::take(&mut self.remains);
        remains.retain(|id, it| {
            it.pieces.retain(|piece| needed.contains(&(*id, &*it.channels[piece.channel])));
            !it.pieces.is_empty()
        });
        self.remains = remains;
    }
}

impl StoredCheckpoint {
    /// Takes over the values of an earlier checkpoint with this id, unless this checkpoint brings them.
    fn inherit(&mut self, channels: &[Arc<str>], pieces: Vec<ChannelBlob>) {
        for mut piece in pieces {
            let name = &channels[piece.channel];
            let Some(channel) = self.checkpoint.channels.iter().position(|other| other == name) else { continue };
            piece.channel = channel;
            if self.pieces.iter().all(|other| other.channel != channel) {
                self.pieces.push(piece);
            }
        }
    }
}

/// Inserts a write in the order of slots. An existing write in a slot from 0 upwards stays.
fn put_write(writes: &mut Vec<PendingWrite>, write: PendingWrite) {
    match writes.binary_search_by_key(&write.slot, |old| old.slot) {
        Ok(place) if write.slot < 0 => writes[place] = write,
        Ok(_) => {}
        Err(place) => writes.insert(place, write),
    }
}
