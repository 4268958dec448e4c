mod deleting;
mod inbox;
mod names;
mod namespace;
mod thread;

use std::collections::{BTreeSet, HashMap};
use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use uuid::Uuid;

use super::lease::{check_new_thread, check_thread};
use super::record::check;
use super::{
    Capabilities, CheckpointCache, Checkpointer, Claim, CodecError, Commit, Conversations, Deletion, Delivered,
    DueQuery, DueThread, Inbox, InboxMessage, Lease, LeaseState, ListQuery, Listed, PostOutcome, Prune, PrunePlan,
    Saved, SaverError, SideEffects, SupersededBy, ThreadAdmin, ThreadInfo, WhenRunning, WriteRecord, background, codec,
};
use crate::sync::{Mutex, MutexGuard, lock};
use inbox::MemoryInboxes;
use names::NameHash;
use thread::StoredThread;

/// Number of parts of the map of threads. Each part has its own lock, so runs of different threads seldom wait.
const SHARDS: usize = 16;

/// A saver that keeps checkpoints in memory. They are lost when the process ends. Clones share the stored threads.
///
/// A lease does not expire. It ends when its holder releases it, or when another claim takes over the thread. A commit
/// or a release takes effect at the first poll of its future, even if the future is dropped afterwards.
#[derive(Clone, Debug, Default)]
pub struct MemorySaver(Arc<SaverState>);
type Shard = HashMap<Arc<str>, StoredThread, NameHash>;

#[derive(Debug, Default)]
struct SaverState {
    shards: [Mutex<Shard>; SHARDS],
    /// The last token of all threads. It is a single counter, so tokens also increase after a deletion.
    last_token: AtomicU64,
    /// The inboxes of all threads. Locked after a shard.
    mail: Mutex<MemoryInboxes>,
    /// The names of background threads. Locked after a shard.
    background: Mutex<BTreeSet<Arc<str>>>,
    conversations: Conversations,
}

impl MemorySaver {
    /// Creates an empty saver.
    pub fn new() -> Self {
        Self::default()
    }

    /// Exports a thread and its inbox as bytes. Another process can import them with [`load`](Self::load) and continue
    /// the thread. If `whole` is true, the bytes contain the whole history. Otherwise, they contain only the
    /// checkpoints that the thread needs to continue.
    #[doc(hidden)]
    pub fn dump(&self, thread: &str, whole: bool) -> Result<Vec<u8>, CodecError> {
        let mut copy = self.shard(thread).get(thread).map(StoredThread::history).unwrap_or_default();
        if !whole {
            copy.delete(|thread| Deletion::unneeded(thread.newest_first()));
        }
        codec::encode_record(&(copy.dump(), lock(&self.0.mail).inbox(thread)))
    }

    /// Imports a thread that [`dump`](Self::dump) has exported. Replaces an existing thread with this id.
    #[doc(hidden)]
    pub fn load(&self, thread: &str, dump: &[u8]) -> Result<(), CodecError> {
        let (history, inbox): (thread::Dump<'static>, inbox::StoredInbox) = codec::decode(dump)?;
        self.insert(thread, StoredThread::load(history));
        lock(&self.0.mail).put(thread, inbox);
        Ok(())
    }

    /// Returns a new saver with a copy of this thread and its inbox. Later changes of one saver do not affect the
    /// other.
    #[doc(hidden)]
    #[must_use]
    pub fn apart(&self, thread: &str) -> Self {
        let copy = Self::new();
        if let Some(history) = self.shard(thread).get(thread).map(StoredThread::history) {
            copy.insert(thread, history);
        }
        lock(&copy.0.mail).put(thread, lock(&self.0.mail).inbox(thread));
        copy
    }

    fn shard(&self, thread: &str) -> MutexGuard<'_, Shard> {
        let hash = NameHash::default().hash_one(thread);
        // The map of a shard uses the low bits of the hash.
        #[allow(clippy::cast_possible_truncation)]
        let shard = (hash >> 32) as usize % SHARDS;
        lock(&self.0.shards[shard])
    }

    fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.0.shards.iter().map(lock)
    }

    /// Returns the thread of a lease, if no other claim has taken it over.
    fn held<'a>(shard: &'a mut Shard, lease: &Lease) -> Result<&'a mut StoredThread, SaverError> {
        match shard.get_mut(&lease.thread) {
            Some(thread) if thread.token == lease.token => Ok(thread),
            other => {
                let current = other.map(|thread| thread.token);
                Err(SaverError::superseded(&lease.thread, lease.token, current))
            }
        }
    }

    fn try_claim(&self, thread: &str, claim: &Claim) -> Result<Lease, thread::Taken> {
        let mut shard = self.shard(thread);
        let name = shard.get_key_value(thread).map_or_else(|| Arc::from(thread), |(name, _)| name.clone());
        self.note_background(&name);
        let thread = shard.entry(name.clone()).or_default();
        if claim.when_running != WhenRunning::TakeOver
            && let Some(taken) = thread.taken()
        {
            return Err(taken);
        }
        let token = self.0.last_token.fetch_add(1, Ordering::Relaxed) + 1;
        thread.claim(token, claim, SystemTime::now());
        let driven = lock(&self.0.mail).is_driven(&name);
        Ok(Lease::new(name, token, claim.lasts).driven(driven))
    }

    async fn wait_and_claim(&self, thread: &str, claim: &Claim, at_most: Duration) -> Result<Lease, SaverError> {
        let mut holder = String::new();
        let waiting = async {
            loop {
                match self.try_claim(thread, claim) {
                    Ok(lease) => return lease,
                    Err(taken) => {
                        holder = taken.holder;
                        taken.freed.await;
                    }
                }
            }
        };
        let lease = tokio::time::timeout(at_most, waiting).await;
        lease.map_err(|_| SaverError::Busy { thread: thread.to_owned(), holder })
    }

    #[doc(hidden)]
    pub fn post_now(&self, thread: &str, graph: &str, message: InboxMessage) -> Result<PostOutcome, SaverError> {
        check_thread(thread)?;
        self.note_background(thread);
        lock(&self.0.mail).post(thread, graph, message, SystemTime::now()).map(PostOutcome::from)
    }

    #[doc(hidden)]
    pub fn claim_now(&self, thread: &str, claim: &Claim) -> Option<Lease> {
        self.try_claim(thread, claim).ok()
    }

    #[doc(hidden)]
    pub fn check_held(&self, lease: &Lease) -> Result<(), SaverError> {
        match Self::held(&mut self.shard(&lease.thread), lease)?.taken() {
            Some(_) => Ok(()),
            None => Err(SaverError::Superseded { thread: lease.thread.to_string(), by: SupersededBy::Claim }),
        }
    }

    /// Stores records and side effects at once, without a future. Fails if the lease is no longer valid, even if there
    /// is nothing to store.
    #[doc(hidden)]
    pub fn commit_now(&self, lease: &Lease, records: Vec<WriteRecord>, also: &SideEffects) -> Result<(), SaverError> {
        self.commit_and(lease, records, Some(also), |_| {})
    }

    #[doc(hidden)]
    pub fn copy_now(&self, from: &str, to: &str) -> Result<(), SaverError> {
        check_new_thread(to)?;
        if from != to {
            let history = self.shard(from).get(from).filter(|thread| !thread.is_empty()).map(StoredThread::history);
            self.delete_background(to, |name| name != from && !background::is_within(name, from));
            let mut shard = self.shard(to);
            self.remove_from(&mut shard, to);
            if let Some(history) = history {
                let name = Arc::from(to);
                self.note_background(to);
                lock(&self.0.mail).copy(from, &name);
                shard.insert(name, history);
            }
        }
        Ok(())
    }

    #[doc(hidden)]
    pub fn undo(&self, thread: &str, run: Uuid) {
        let mut shard = self.shard(thread);
        if let Some(thread) = shard.get_mut(thread) {
            thread.undo(run);
        }
        lock(&self.0.mail).undo(thread, run);
        self.0.conversations.forget(thread);
    }

    /// Deletes the data with which [`undo`](Self::undo) could roll back the run's changes to the thread.
    #[doc(hidden)]
    pub fn settle(&self, thread: &str, run: Uuid) {
        let mut shard = self.shard(thread);
        if let Some(thread) = shard.get_mut(thread) {
            thread.settle(run);
        }
        lock(&self.0.mail).settle(thread, run);
    }

    /// Commits, and calls a function with the thread before another caller can lock it.
    fn commit_and(
        &self,
        lease: &Lease,
        records: Vec<WriteRecord>,
        also: Option<&SideEffects>,
        then: impl FnOnce(&mut StoredThread),
    ) -> Result<(), SaverError> {
        for record in &records {
            check(record)?;
        }
        let mut shard = self.shard(&lease.thread);
        let thread = Self::held(&mut shard, lease)?;
        thread.check_bases(&lease.thread, &records)?;
        if let Some(also) = also.filter(|also| !also.is_empty()) {
            lock(&self.0.mail).commit(&lease.thread, also, SystemTime::now())?;
        }
        if let Some(run) = also.and_then(|also| also.run) {
            thread.keep_overwritten(run, &records);
        }
        thread.store(records);
        then(thread);
        Ok(())
    }

    fn list_now(&self, query: &ListQuery) -> Vec<Listed> {
        let mut found: Vec<Listed> = match &query.thread {
            Some(name) => match self.shard(name).get_key_value(name.as_str()) {
                Some((name, thread)) => thread.list(name, query),
                None => Vec::new(),
            },
            None => self
                .shards()
                .flat_map(|shard| shard.iter().flat_map(|(name, thread)| thread.list(name, query)).collect::<Vec<_>>())
                .collect(),
        };
        found.sort_by(|a, b| {
            b.checkpoint
                .id
                .cmp(&a.checkpoint.id)
                .then_with(|| (&a.thread, &a.namespace).cmp(&(&b.thread, &b.namespace)))
        });
        found.truncate(query.limit.unwrap_or(usize::MAX));
        found
    }

    fn threads_now(&self, limit: Option<usize>) -> Vec<ThreadInfo> {
        let mut found: Vec<_> = self
            .shards()
            .flat_map(|shard| shard.iter().filter_map(|(name, thread)| thread.info(name)).collect::<Vec<_>>())
            .collect();
        found.sort_by(|(newest, a), (other, b)| other.cmp(newest).then_with(|| a.thread.cmp(&b.thread)));
        found.truncate(limit.unwrap_or(usize::MAX));
        found.into_iter().map(|(_, info)| info).collect()
    }
}

#[async_trait]
impl Checkpointer for MemorySaver {
    async fn acquire(&self, thread: &str, claim: Claim) -> Result<Lease, SaverError> {
        check_thread(thread)?;
        match claim.when_running {
            WhenRunning::Wait(at_most) => self.wait_and_claim(thread, &claim, at_most).await,
            WhenRunning::TakeOver | WhenRunning::Reject => self
                .try_claim(thread, &claim)
                .map_err(|taken| SaverError::Busy { thread: thread.to_owned(), holder: taken.holder }),
        }
    }

    async fn renew(&self, lease: &Lease) -> Result<(), SaverError> {
        Self::held(&mut self.shard(&lease.thread), lease).map(|_| ())
    }

    async fn release(&self, lease: &Lease) -> Result<(), SaverError> {
        if let Ok(thread) = Self::held(&mut self.shard(&lease.thread), lease) {
            thread.free();
        }
        Ok(())
    }

    async fn commit(&self, lease: &Lease, commit: Commit) -> Result<LeaseState, SaverError> {
        let also = commit.also.as_deref();
        if commit.release {
            self.commit_and(lease, commit.records, also, StoredThread::free).map(|()| LeaseState::Released)
        } else {
            self.commit_and(lease, commit.records, also, |_| {}).map(|()| LeaseState::Held)
        }
    }

    async fn get(&self, thread: &str, namespace: &str, id: Option<Uuid>) -> Result<Option<Saved>, SaverError> {
        Ok(self.shard(thread).get(thread).and_then(|thread| thread.get(namespace, id, &[])))
    }

    async fn list(&self, query: ListQuery) -> Result<Vec<Listed>, SaverError> {
        Ok(self.list_now(&query))
    }

    async fn delete_thread(&self, thread: &str) -> Result<(), SaverError> {
        self.delete_now(thread);
        Ok(())
    }

    fn capabilities(&self) -> Capabilities<'_> {
        Capabilities::default()
            .with_inbox(self)
            .with_admin(self)
            .with_cache(self)
            .with_leases_expiring(false)
            .with_protected_values(true)
    }
}

#[async_trait]
impl Inbox for MemorySaver {
    async fn post(&self, thread: &str, graph: &str, message: InboxMessage) -> Result<PostOutcome, SaverError> {
        self.post_now(thread, graph, message)
    }

    async fn messages(&self, thread: &str) -> Result<Vec<Delivered>, SaverError> {
        Ok(lock(&self.0.mail).of(thread))
    }

    async fn due(&self, query: DueQuery) -> Result<Vec<DueThread>, SaverError> {
        Ok(lock(&self.0.mail).due(&query))
    }
}

#[async_trait]
impl ThreadAdmin for MemorySaver {
    async fn threads(&self, limit: Option<usize>) -> Result<Vec<ThreadInfo>, SaverError> {
        Ok(self.threads_now(limit))
    }

    async fn copy_thread(&self, from: &str, to: &str) -> Result<(), SaverError> {
        self.copy_now(from, to)
    }

    async fn delete_for_runs(&self, runs: &[String]) -> Result<(), SaverError> {
        let plan = |thread: &StoredThread| Deletion::by_runs(thread.newest_first(), runs);
        self.shards().for_each(|mut shard| shard.values_mut().for_each(|thread| _ = thread.delete(plan)));
        self.0.conversations.forget_all();
        Ok(())
    }

    async fn prune(&self, prune: Prune) -> Result<u64, SaverError> {
        let stored = match &prune.threads {
            None => self.names(),
            Some(named) => named.iter().flat_map(|name| self.background_of(name)).map(|it| it.to_string()).collect(),
        };
        let plan = PrunePlan::new(prune, stored);
        let pruned = plan.threads().iter().map(|name| {
            let pruned = if let Some(thread) = self.shard(name).get_mut(name.as_str()) {
                thread.delete(|it| plan.deletion(name, it.newest_first()))
            } else {
                // The plan must learn that the thread has no checkpoints.
                plan.deletion(name, []);
                0
            };
            self.0.conversations.forget(name);
            pruned
        });
        Ok(pruned.sum())
    }

    async fn sweep(&self) -> Result<u64, SaverError> {
        Ok(self.sweep_now())
    }
}

#[async_trait]
impl CheckpointCache for MemorySaver {
    async fn get_changed(
        &self,
        thread: &str,
        namespace: &str,
        id: Option<Uuid>,
        known: &[(Arc<str>, Uuid)],
    ) -> Result<Option<Saved>, SaverError> {
        Ok(self.shard(thread).get(thread).and_then(|thread| thread.get(namespace, id, known)))
    }

    fn conversations(&self) -> Option<&Conversations> {
        Some(&self.0.conversations)
    }
}
