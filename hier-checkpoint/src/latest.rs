//! Which checkpoint of a thread was stored last: what follows it need not have each of its values looked for.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hier_core::checkpoint::{Checkpoint, Piece, builds_only_on};
use uuid::Uuid;

/// How many are kept. Of two in one place the later one is; the other's next commit has its values looked for, and on Postgres its next
/// run reads them by a statement of their own.
const PLACES: usize = 4_096;

/// The checkpoints that this process stored last, or tried to: that one is stored still is for the database to say.
pub(crate) struct Latest(Box<[Mutex<Option<Entry>>]>);

struct Entry {
    thread: Arc<str>,
    namespace: Arc<str>,
    known: Known,
}

/// A checkpoint as far as others build on it.
#[derive(Clone)]
pub(crate) struct Known {
    id: Uuid,
    channels: Arc<[Arc<str>]>,
    versions: Arc<[Uuid]>,
    /// How many bytes its values have, or those of one before it.
    bytes: usize,
}

impl Default for Latest {
    fn default() -> Self {
        Self((0..PLACES).map(|_| Mutex::default()).collect())
    }
}

impl Latest {
    fn place(&self, thread: &str, namespace: &str) -> MutexGuard<'_, Option<Entry>> {
        let mut hasher = DefaultHasher::new();
        (thread, namespace).hash(&mut hasher);
        let place = usize::try_from(hasher.finish() % PLACES as u64).unwrap_or_default();
        self.0[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last one of this thread and namespace.
    #[cfg(feature = "postgres")]
    pub(crate) fn get(&self, thread: &str, namespace: &str) -> Option<Known> {
        let entry = self.place(thread, namespace);
        let entry = entry.as_ref().filter(|entry| *entry.thread == *thread && *entry.namespace == *namespace);
        entry.map(|entry| entry.known.clone())
    }

    /// The last one of this thread and namespace, in whose place this one comes.
    pub(crate) fn replace(&self, thread: &Arc<str>, namespace: &Arc<str>, mut known: Known) -> Option<Known> {
        let mut entry = self.place(thread, namespace);
        match &mut *entry {
            Some(entry) if entry.thread == *thread && entry.namespace == *namespace => {
                known.bytes = known.bytes.max(entry.known.bytes);
                Some(std::mem::replace(&mut entry.known, known))
            }
            other => {
                *other = Some(Entry { thread: thread.clone(), namespace: namespace.clone(), known });
                None
            }
        }
    }
}

impl Known {
    pub(crate) fn of(checkpoint: &Checkpoint, pieces: &[Piece]) -> Self {
        let (channels, versions) = (checkpoint.channels.clone(), checkpoint.versions.clone());
        Self { id: checkpoint.id, channels, versions, bytes: pieces.iter().map(|piece| piece.bytes.len()).sum() }
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it is the checkpoint with this id.
    #[cfg(feature = "postgres")]
    pub(crate) fn is(&self, id: Uuid) -> bool {
        self.id == id
    }

    /// The channels that have a value, each with its version.
    #[cfg(feature = "postgres")]
    pub(crate) fn present(&self) -> impl Iterator<Item = (&Arc<str>, Uuid)> {
        let all = self.channels.iter().zip(self.versions.iter().copied());
        all.filter(|(_, version)| !version.is_nil())
    }

    /// Whether this is the checkpoint's parent, and all that it builds on is what this one has.
    pub(crate) fn is_all_of(&self, checkpoint: &Checkpoint, pieces: &[Piece]) -> bool {
        let is_parent = checkpoint.parent == Some(self.id);
        let has_channels = || Arc::ptr_eq(&self.channels, &checkpoint.channels) || self.channels == checkpoint.channels;
        is_parent && has_channels() && builds_only_on(&self.versions, checkpoint, pieces)
    }
}
