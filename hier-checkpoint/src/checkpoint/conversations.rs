//! Conversations that stay in memory between the runs of a thread.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use uuid::Uuid;

use crate::message::Messages;
use crate::sync::{Mutex, MutexGuard, lock};

/// Estimated memory of a message in addition to its stored bytes: its parts, and its places in the list and the index.
const MESSAGE: usize = 400;
/// Estimated memory of a thread in addition to its messages, in bytes.
const THREAD: usize = 512;
/// Number of groups of threads. A deletion discards the conversations of the runs in progress in its group.
const GROUPS: usize = 64;

/// A cache of the conversations of recent runs. With this cache, the next run of a thread need not read and decode the
/// thread's conversation again.
///
/// A saver owns the cache and returns it from
/// [`CheckpointCache::conversations`](super::CheckpointCache::conversations). A run claims its thread and reads the
/// latest checkpoint. The run uses a cached conversation only if this checkpoint names the same version of the
/// conversation, so a stale cache does no harm.
///
/// If the cache reaches its limit of bytes, it drops the least recently used conversations. A thread enters the cache
/// when its second run ends. When a saver deletes a thread, it must call [`forget`](Self::forget).
pub struct Conversations {
    bytes: usize,
    kept: Mutex<KeptThreads>,
}

struct KeptThreads {
    threads: HashMap<Arc<str>, ThreadConversations>,
    /// The threads by the numbers of their entries, the least recently kept thread first.
    order: BTreeMap<u64, Arc<str>>,
    last: u64,
    bytes: usize,
    forgotten: [u64; GROUPS],
}

struct ThreadConversations {
    number: u64,
    bytes: usize,
    conversations: Vec<Conversation>,
}

/// A cached conversation: one version of a channel's value.
pub struct Conversation {
    /// The name of the channel.
    pub channel: Arc<str>,
    /// The version of the channel's value in `messages`.
    pub version: Uuid,
    /// The number of additions in the stored value.
    pub parts: usize,
    /// The size of the stored value in bytes, including the additions.
    pub bytes: usize,
    /// The messages.
    pub messages: Messages,
}

/// The time at which a run took its conversations from the cache. If the run's thread is forgotten after this time, the
/// cache does not keep the conversations of the run.
#[derive(Clone, Copy)]
pub struct Since(u64);

impl Conversations {
    /// The default limit in bytes: 32 MiB.
    pub const BYTES: usize = 32 << 20;

    /// Creates a cache with this limit in bytes. The cache estimates the memory that a conversation takes. With the
    /// limit 0, the cache stays empty.
    pub fn new(bytes: usize) -> Self {
        let (threads, order) = (HashMap::new(), BTreeMap::new());
        Self { bytes, kept: Mutex::new(KeptThreads { threads, order, last: 0, bytes: 0, forgotten: [0; GROUPS] }) }
    }

    /// Returns the number of threads whose conversations are in the cache.
    pub fn len(&self) -> usize {
        self.kept().threads.len()
    }

    /// Returns true if the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes the conversations of a thread. A saver calls this method when it has deleted the thread or replaced its
    /// history. A run that has called [`take`](Self::take) before cannot add its conversations again.
    pub fn forget(&self, thread: &str) {
        let mut kept = self.kept();
        kept.forgotten[group(thread)] += 1;
        drop(kept.remove(thread));
    }

    /// Removes the conversations of all threads, as [`forget`](Self::forget) does for a single thread.
    pub fn forget_all(&self) {
        let kept = &mut *self.kept();
        kept.forgotten.iter_mut().for_each(|times| *times += 1);
        (kept.threads, kept.order, kept.bytes) = (HashMap::new(), BTreeMap::new(), 0);
    }

    /// Removes the conversations of a thread from the cache, and returns them to a run that starts. If the run
    /// succeeds, it passes its conversations and the returned [`Since`] to [`keep`](Self::keep).
    #[doc(hidden)]
    pub fn take(&self, thread: &str) -> (Since, Vec<Conversation>) {
        let mut kept = self.kept();
        let since = Since(kept.forgotten[group(thread)]);
        (since, kept.remove(thread))
    }

    /// Adds the conversations of a run to the cache. Does nothing if the thread was forgotten after `since`, or if the
    /// conversations exceed the limit of the cache.
    #[doc(hidden)]
    pub fn keep(&self, thread: &Arc<str>, since: Since, conversations: Vec<Conversation>) {
        let size = |one: &Conversation| one.bytes + MESSAGE * one.messages.len();
        let bytes = THREAD + conversations.iter().map(size).sum::<usize>();
        if conversations.is_empty() || bytes > self.bytes {
            return;
        }
        let mut kept = self.kept();
        if kept.forgotten[group(thread)] != since.0 {
            return;
        }
        let mut dropped = vec![kept.remove(thread)];
        kept.last += 1;
        kept.bytes += bytes;
        let number = kept.last;
        kept.order.insert(number, thread.clone());
        kept.threads.insert(thread.clone(), ThreadConversations { number, bytes, conversations });
        while kept.bytes > self.bytes
            && let Some((_, oldest)) = kept.order.pop_first()
        {
            dropped.push(kept.remove(&oldest));
        }
        // Releases the lock before `dropped` is dropped, because dropping a long conversation takes a while.
        drop(kept);
    }

    fn kept(&self) -> MutexGuard<'_, KeptThreads> {
        lock(&self.kept)
    }
}

impl KeptThreads {
    fn remove(&mut self, thread: &str) -> Vec<Conversation> {
        let Some(thread) = self.threads.remove(thread) else { return Vec::new() };
        self.order.remove(&thread.number);
        self.bytes -= thread.bytes;
        thread.conversations
    }
}

fn group(thread: &str) -> usize {
    let hash = BuildHasherDefault::<DefaultHasher>::default().hash_one(thread);
    usize::try_from(hash % GROUPS as u64).unwrap_or_default()
}

impl Default for Conversations {
    fn default() -> Self {
        Self::new(Self::BYTES)
    }
}

impl fmt::Debug for Conversations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversations").field("threads", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[path = "../../tests/unit/conversations.rs"]
mod tests;
