//! Deletion of threads in memory. A background thread is deleted with the thread to which it belongs.

use std::ops::{Bound, Range};
use std::sync::Arc;
use std::time::SystemTime;

use super::thread::StoredThread;
use super::{MemorySaver, Shard};
use crate::checkpoint::background;
use crate::sync::lock;

impl MemorySaver {
    pub(super) fn insert(&self, name: &str, thread: StoredThread) {
        self.note_background(name);
        self.shard(name).insert(name.into(), thread);
    }

    /// Records the name of a background thread, so that it is found when its outer thread is deleted.
    pub(super) fn note_background(&self, name: &str) {
        if background::outer_of(name).is_some() {
            lock(&self.0.background).insert(name.into());
        }
    }

    #[doc(hidden)]
    pub fn delete_now(&self, thread: &str) {
        self.delete_if(thread, |_| true);
    }

    /// Deletes a thread that meets the condition, and its background threads. Returns true if the thread existed.
    fn delete_if(&self, name: &str, condition: impl FnOnce(&StoredThread) -> bool) -> bool {
        let mut shard = self.shard(name);
        let thread = shard.get(name);
        let is_known = thread.is_some();
        if thread.is_some_and(|thread| !condition(thread)) {
            return false;
        }
        self.remove_from(&mut shard, name);
        drop(shard);
        self.delete_background(name, |_| true);
        is_known
    }

    pub(super) fn delete_background(&self, outer: &str, condition: impl Fn(&str) -> bool) {
        for name in self.background_of(outer).iter().filter(|name| condition(name)) {
            self.remove_from(&mut self.shard(name), name);
        }
    }

    pub(super) fn background_of(&self, outer: &str) -> Vec<Arc<str>> {
        let Range { start, end } = background::names_within(outer);
        let within = (Bound::Included(start.as_str()), Bound::Excluded(end.as_str()));
        lock(&self.0.background).range::<str, _>(within).cloned().collect()
    }

    /// Removes a thread without its background threads, ends its lease, and wakes the claims that wait.
    pub(super) fn remove_from(&self, shard: &mut Shard, name: &str) {
        shard.remove(name);
        lock(&self.0.mail).delete(name);
        lock(&self.0.background).remove(name);
        self.0.conversations.forget(name);
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.shards().flat_map(|shard| shard.keys().map(ToString::to_string).collect::<Vec<_>>()).collect()
    }

    pub(super) fn sweep_now(&self) -> u64 {
        let now = SystemTime::now();
        let mut expired: Vec<Arc<str>> = Vec::new();
        for mut shard in self.shards() {
            shard.retain(|name, thread| {
                let is_expired = thread.is_expired(now);
                expired.extend(is_expired.then(|| name.clone()));
                is_expired || !thread.is_idle_and_empty()
            });
        }
        let has_outer =
            |name: &str| background::outer_of(name).is_some_and(|outer| self.shard(outer).contains_key(outer));
        expired.retain(|name| !has_outer(name));
        let swept = expired.iter().filter(|name| self.delete_if(name, |thread| thread.is_expired(now)));
        swept.count() as u64
    }
}
