use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;
use uuid::Uuid;

use super::names::NameHash;
use super::namespace::{Namespace, Overwritten};
use crate::checkpoint::{
    ChannelBlob, Checkpoint, Claim, Deletion, ListQuery, Listed, PendingWrite, Saved, SaverError, TaskWrites,
    ThreadInfo, WriteRecord, builds_on, builds_only_on,
};

#[derive(Debug, Default)]
pub(super) struct StoredThread {
    /// The token of the last claim. 0 before the first claim.
    pub(super) token: u64,
    holder: Option<String>,
    freed: Freed,
    time_to_live: Option<Duration>,
    expires: Option<SystemTime>,
    /// The namespace of the root graph, which is looked up far more often than the others.
    root: Namespace,
    children: HashMap<Arc<str>, Namespace, NameHash>,
    /// Earlier values of the writes that unfinished runs have overwritten.
    overwritten: HashMap<Uuid, HashMap<WriteKey, Overwritten>>,
}

/// A write of a task: its namespace, checkpoint, task and slot.
type WriteKey = (Arc<str>, Uuid, Uuid, i32);

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Dump<'a> {
    namespaces: Vec<(Arc<str>, Cow<'a, Namespace>)>,
}

/// Wakes the claims that wait for the thread, also when the thread is deleted and this value is dropped.
#[derive(Debug, Default)]
struct Freed(Arc<Notify>);

impl Drop for Freed {
    fn drop(&mut self) {
        self.0.notify_waiters();
    }
}

pub(super) struct Taken {
    pub(super) holder: String,
    pub(super) freed: OwnedNotified,
}

impl StoredThread {
    pub(super) fn taken(&self) -> Option<Taken> {
        // The future is created while the thread is locked. `notify_waiters` reaches it even before its first poll, so
        // no release is missed.
        self.holder.clone().map(|holder| Taken { holder, freed: self.freed.0.clone().notified_owned() })
    }

    pub(super) fn claim(&mut self, token: u64, claim: &Claim, now: SystemTime) {
        self.token = token;
        self.holder = Some(claim.holder.clone());
        if !claim.keeps_time_to_live {
            self.time_to_live = claim.time_to_live;
        }
        self.expires = self.time_to_live.filter(|_| !self.is_empty()).and_then(|lives| now.checked_add(lives));
    }

    pub(super) fn free(&mut self) {
        self.holder = None;
        self.freed.0.notify_waiters();
    }

    /// Fails with [`SaverError::Gone`] if a record builds on a value that is neither stored nor in an earlier record.
    pub(super) fn check_bases(&self, name: &str, records: &[WriteRecord]) -> Result<(), SaverError> {
        for (place, record) in records.iter().enumerate() {
            let WriteRecord::Checkpoint { namespace, checkpoint, pieces } = record else { continue };
            let space = self.namespace(namespace);
            let before = space.and_then(|space| space.parent_of(checkpoint));
            if before.is_some_and(|before| builds_only_on(&before.versions, checkpoint, pieces)) {
                continue;
            }
            for (channel, version) in builds_on(record) {
                let channel = &*checkpoint.channels[channel];
                let is_there = space.is_some_and(|space| space.has(channel, version));
                if !is_there && !records[..place].iter().any(|record| brings(record, namespace, channel, version)) {
                    return Err(SaverError::Gone { thread: name.to_owned(), channel: channel.to_owned(), version });
                }
            }
        }
        Ok(())
    }

    pub(super) fn keep_overwritten(&mut self, run: Uuid, records: &[WriteRecord]) {
        let mut kept = self.overwritten.remove(&run).unwrap_or_default();
        for record in records {
            let WriteRecord::Writes { namespace, writes } = record else { continue };
            let TaskWrites { checkpoint, task, path, writes } = writes;
            let space = self.namespace(namespace);
            for PendingWrite { slot, .. } in writes {
                kept.entry((namespace.clone(), *checkpoint, *task, *slot)).or_insert_with(|| Overwritten {
                    path: path.clone(),
                    old: space.and_then(|space| space.write(*checkpoint, *task, *slot)).cloned(),
                });
            }
        }
        self.overwritten.insert(run, kept);
    }

    /// Restores what a run has overwritten, and deletes its checkpoints. The thread's lease is not affected.
    pub(super) fn undo(&mut self, run: Uuid) {
        for ((namespace, checkpoint, task, slot), overwritten) in self.overwritten.remove(&run).into_iter().flatten() {
            self.namespace_mut(namespace).put_back(checkpoint, task, slot, overwritten);
        }
        let runs = [run.to_string()];
        self.delete(|thread| Deletion { ends_lease: false, ..Deletion::by_runs(thread.newest_first(), &runs) });
    }

    pub(super) fn settle(&mut self, run: Uuid) {
        self.overwritten.remove(&run);
    }

    pub(super) fn store(&mut self, records: Vec<WriteRecord>) {
        for record in records {
            match record {
                WriteRecord::Checkpoint { namespace, checkpoint, pieces } => {
                    self.namespace_mut(namespace).put(checkpoint, pieces);
                }
                WriteRecord::Writes { namespace, writes } => self.namespace_mut(namespace).put_writes(writes),
            }
        }
        if let Some(lives) = self.time_to_live {
            self.expires = SystemTime::now().checked_add(lives);
        }
    }

    /// Returns a checkpoint without the values that the caller knows in the same version.
    pub(super) fn get(&self, namespace: &str, id: Option<Uuid>, known: &[(Arc<str>, Uuid)]) -> Option<Saved> {
        self.namespace(namespace)?.get(id, known)
    }

    pub(super) fn list(&self, name: &Arc<str>, query: &ListQuery) -> Vec<Listed> {
        let wanted = |namespace: &str| query.namespace.as_deref().is_none_or(|wanted| wanted == namespace);
        let spaces = self.namespaces().filter(|(namespace, _)| wanted(namespace));
        let found = spaces.flat_map(|(namespace, space)| {
            let checkpoints = space.newest_first().filter(|checkpoint| query.wants(checkpoint));
            checkpoints.take(query.limit.unwrap_or(usize::MAX)).map(move |checkpoint| Listed {
                thread: name.clone(),
                namespace: namespace.clone(),
                checkpoint: checkpoint.clone(),
            })
        });
        found.collect()
    }

    pub(super) fn info(&self, name: &Arc<str>) -> Option<(Uuid, ThreadInfo)> {
        let newest = self.namespaces().filter_map(|(_, space)| space.newest_first().next()).map(|it| it.id).max()?;
        let info = ThreadInfo {
            thread: name.clone(),
            checkpoints: self.namespaces().map(|(_, space)| space.len() as u64).sum(),
            latest: self.root.newest_first().next().cloned(),
            holder: self.holder.clone(),
            expires: self.expires,
        };
        Some((newest, info))
    }

    pub(super) fn newest_first(&self) -> Vec<(&Arc<str>, &Checkpoint)> {
        let all = self.namespaces().flat_map(|(name, space)| space.newest_first().map(move |it| (name, it)));
        all.collect()
    }

    pub(super) fn delete(&mut self, plan: impl Fn(&Self) -> Deletion) -> u64 {
        let deletion = plan(self);
        if deletion.is_empty() {
            return 0;
        }
        self.root.delete(&ROOT, &deletion);
        self.children.retain(|name, space| {
            space.delete(name, &deletion);
            space.len() > 0
        });
        if deletion.ends_lease {
            self.token = 0;
            self.free();
        }
        deletion.checkpoints.len() as u64
    }

    pub(super) fn history(&self) -> Self {
        Self {
            time_to_live: self.time_to_live,
            expires: self.expires,
            root: self.root.clone(),
            children: self.children.clone(),
            ..Self::default()
        }
    }

    pub(super) fn dump(&self) -> Dump<'_> {
        let rest = self.children.iter().map(|(name, space)| (name.clone(), Cow::Borrowed(space)));
        let root = std::iter::once((ROOT.clone(), Cow::Borrowed(&self.root)));
        Dump { namespaces: root.chain(rest).collect() }
    }

    pub(super) fn load(dump: Dump<'_>) -> Self {
        let mut thread = Self::default();
        for (name, space) in dump.namespaces {
            *thread.namespace_mut(name) = space.into_owned();
        }
        thread
    }

    pub(super) fn is_expired(&self, now: SystemTime) -> bool {
        self.holder.is_none() && self.expires.is_some_and(|expires| expires <= now)
    }

    pub(super) fn is_idle_and_empty(&self) -> bool {
        self.holder.is_none() && self.is_empty() && Arc::strong_count(&self.freed.0) == 1
    }

    pub(super) fn is_empty(&self) -> bool {
        self.namespaces().all(|(_, space)| space.len() == 0)
    }

    fn namespaces(&self) -> impl Iterator<Item = (&Arc<str>, &Namespace)> {
        std::iter::once((&*ROOT, &self.root)).chain(&self.children)
    }

    fn namespace(&self, name: &str) -> Option<&Namespace> {
        if name.is_empty() { Some(&self.root) } else { self.children.get(name) }
    }

    fn namespace_mut(&mut self, name: Arc<str>) -> &mut Namespace {
        if name.is_empty() { &mut self.root } else { self.children.entry(name).or_default() }
    }
}

fn brings(record: &WriteRecord, within: &str, channel: &str, version: Uuid) -> bool {
    let WriteRecord::Checkpoint { namespace, checkpoint, pieces } = record else { return false };
    let named = |piece: &ChannelBlob| &*checkpoint.channels[piece.channel] == channel;
    **namespace == *within && checkpoint.id == version && pieces.iter().any(named)
}

static ROOT: std::sync::LazyLock<Arc<str>> = std::sync::LazyLock::new(|| Arc::from(""));
