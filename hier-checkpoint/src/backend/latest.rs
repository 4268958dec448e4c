//! The latest checkpoint of each thread that this process has stored. If the next checkpoint builds only on this one,
//! the saver need not look up the values.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use crate::checkpoint::{ChannelBlob, Checkpoint, builds_only_on};
use crate::sync::{Mutex, MutexGuard, lock};
use uuid::Uuid;

/// Maximum number of remembered checkpoints. If two threads share a place, only the later checkpoint is remembered.
const PLACES: usize = 4_096;

/// The latest checkpoint of each thread and namespace that this process has stored or tried to store. Only the database
/// knows if such a checkpoint is still stored.
pub struct Latest(Box<[Mutex<Option<LatestCheckpoint>>]>);

struct LatestCheckpoint {
    thread: Arc<str>,
    namespace: Arc<str>,
    known: Known,
}

/// The id of a checkpoint in [`Latest`], with the versions and sizes of its channels' values.
#[derive(Clone)]
pub struct Known {
    id: Uuid,
    channels: Arc<[Arc<str>]>,
    versions: Arc<[Uuid]>,
    /// The size of each channel's value, or of its last part, in bytes. 0 if the size is unknown.
    sizes: Vec<u32>,
}

impl Default for Latest {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

impl Latest {
    fn place(&self, thread: &str, namespace: &str) -> MutexGuard<'_, Option<LatestCheckpoint>> {
        let mut hasher = DefaultHasher::new();
        (thread, namespace).hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % PLACES as u64).unwrap_or_default();
        lock(&self.0[place])
    }

    /// Returns the latest checkpoint of this thread and namespace. Returns `None` if this process knows no such
    /// checkpoint.
    pub fn get(&self, thread: &str, namespace: &str) -> Option<Known> {
        let entry = self.place(thread, namespace);
        let entry = entry.as_ref().filter(|entry| *entry.thread == *thread && *entry.namespace == *namespace);
        entry.map(|entry| entry.known.clone())
    }

    /// Records `checkpoint` as the latest of its thread and namespace, with the sizes of the values in `pieces`.
    /// Returns the checkpoint that was recorded before, or `None` if there was none.
    pub fn replace(
        &self,
        thread: &Arc<str>,
        namespace: &Arc<str>,
        checkpoint: &Checkpoint,
        pieces: &[ChannelBlob],
    ) -> Option<Known> {
        let mut entry = self.place(thread, namespace);
        let mut known = Known::of(checkpoint);
        let mut before = entry.take().filter(|entry| entry.thread == *thread && entry.namespace == *namespace);
        if let Some(before) = &mut before
            && before.known.has_channels_of(checkpoint)
        {
            known.sizes = std::mem::take(&mut before.known.sizes);
        }
        known.sizes.resize(known.versions.len(), 0);
        for piece in pieces {
            if let Some(size) = known.sizes.get_mut(piece.channel) {
                *size = u32::try_from(piece.bytes.len()).unwrap_or(u32::MAX);
            }
        }
        *entry = Some(LatestCheckpoint { thread: thread.clone(), namespace: namespace.clone(), known });
        before.map(|before| before.known)
    }
}

impl Known {
    fn of(checkpoint: &Checkpoint) -> Self {
        let (channels, versions) = (checkpoint.channels.clone(), checkpoint.versions.clone());
        Self { id: checkpoint.id, channels, versions, sizes: Vec::new() }
    }

    fn has_channels_of(&self, checkpoint: &Checkpoint) -> bool {
        Arc::ptr_eq(&self.channels, &checkpoint.channels) || self.channels == checkpoint.channels
    }

    /// Returns true if the checkpoint has this id.
    pub fn is(&self, id: Uuid) -> bool {
        self.id == id
    }

    /// Returns the name of each channel that has a value, and the version of the value. Also returns the size in bytes
    /// of the whole value or, if later additions are stored, of the last addition. The size is 0 if it is unknown.
    pub fn present(&self) -> impl Iterator<Item = (&Arc<str>, Uuid, usize)> {
        let all = self.channels.iter().zip(self.versions.iter().copied()).zip(&self.sizes);
        let all = all.map(|((name, version), size)| (name, version, usize::try_from(*size).unwrap_or(usize::MAX)));
        all.filter(|(_, version, _)| !version.is_nil())
    }

    /// Returns true if this checkpoint is the parent of `checkpoint` and has all values that `checkpoint` needs and
    /// that are not in `pieces`. `pieces` contains the values that are stored with `checkpoint`.
    pub fn is_all_of(&self, checkpoint: &Checkpoint, pieces: &[ChannelBlob]) -> bool {
        let is_parent = checkpoint.parent == Some(self.id);
        is_parent && self.has_channels_of(checkpoint) && builds_only_on(&self.versions, checkpoint, pieces)
    }
}
