//! Deletion of checkpoints. Savers share it, so that they all delete the same rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::query::{Prune, Strategy};
use super::record::Checkpoint;
use super::{Checkpointer, SaverError, background};
use crate::sync::{Mutex, lock};

type Placed<'a> = (&'a Arc<str>, &'a Checkpoint);

/// The checkpoints of a thread that a saver must delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// The namespaces and ids of the checkpoints.
    pub checkpoints: HashSet<(Arc<str>, Uuid)>,
    /// True if the deletion includes the latest checkpoint of a namespace. If a run holds the thread, the saver must
    /// then end the run's lease. The next checkpoint of this run would depend on the deleted checkpoint and could not
    /// be read.
    pub ends_lease: bool,
}

impl Deletion {
    /// Returns the checkpoints that a prune at the time `now` deletes. The argument `newest_first` must contain all
    /// checkpoints of a thread, newest first.
    pub fn by_prune<'a>(newest_first: impl IntoIterator<Item = Placed<'a>>, prune: &Prune, now: SystemTime) -> Self {
        let kept = prune.strategy.kept();
        let cutoff = prune.older_than.map(|age| now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH));
        let all: Vec<_> = newest_first.into_iter().collect();
        let root = all.iter().find(|(namespace, _)| namespace.is_empty());
        let unfinished = kept > 0 && root.is_some_and(|(_, latest)| !latest.agenda.is_empty());
        let run_of = |checkpoint: &Checkpoint| checkpoint.metadata.get("run_id").cloned();
        let latest = all.first().filter(|_| unfinished).map(|(_, checkpoint)| run_of(checkpoint));
        let earlier = all.iter().rev().filter(|(_, it)| latest.as_ref().is_some_and(|latest| run_of(it) != *latest));
        // A rollback of the latest run returns to these checkpoints, the newest before it of each namespace.
        let before: HashMap<&str, Uuid> = earlier.map(|(namespace, it)| (&***namespace, it.id)).collect();
        let before: HashSet<Uuid> = before.into_values().collect();
        let is_old = |checkpoint: &Checkpoint| cutoff.is_none_or(|cutoff| checkpoint.created_at() < cutoff);
        let goes =
            |place, checkpoint: &Checkpoint| place >= kept && !before.contains(&checkpoint.id) && is_old(checkpoint);
        Self::sparing(&all, goes)
    }

    /// Returns the checkpoints that a thread does not need to continue.
    pub(crate) fn unneeded<'a>(newest_first: impl IntoIterator<Item = Placed<'a>>) -> Self {
        Self::sparing(&newest_first.into_iter().collect::<Vec<_>>(), |place, _| place > 0)
    }

    fn sparing(newest_first: &[Placed<'_>], goes: impl Fn(usize, &Checkpoint) -> bool) -> Self {
        let mut deletion = Self::plan(newest_first.iter().copied(), goes);
        deletion.spare(newest_first);
        deletion.note_latest(newest_first);
        deletion
    }

    /// Keeps the checkpoints of subgraphs that a kept checkpoint refers to, or whose call from it is incomplete.
    fn spare(&mut self, newest_first: &[Placed<'_>]) {
        let known: HashMap<(&str, Uuid), Placed<'_>> =
            newest_first.iter().map(|place| ((&**place.0, place.1.id), *place)).collect();
        // The latest checkpoint of each call, by the namespace and the id of the checkpoint from which the call was
        // made.
        let mut calls: HashMap<(&str, Uuid), Vec<Placed<'_>>> = HashMap::new();
        let mut seen = HashSet::new();
        for place @ (namespace, checkpoint) in newest_first.iter().copied() {
            let outer = namespace.rsplit_once('|').map_or("", |(outer, _)| outer);
            if !is_per_call(namespace)
                && let Some(from) = checkpoint.parents.get(outer)
                && seen.insert((namespace, *from))
            {
                calls.entry((outer, *from)).or_default().push(place);
            }
        }
        let stays = |(namespace, checkpoint): &&Placed<'_>| !self.has(namespace, checkpoint.id);
        let mut open: Vec<Placed<'_>> = newest_first.iter().filter(stays).copied().collect();
        while let Some((namespace, checkpoint)) = open.pop() {
            let kept = checkpoint.agenda.kept.iter().flat_map(|kept| kept.iter()).filter_map(|(level, id)| {
                let inner = if namespace.is_empty() { level.to_string() } else { format!("{namespace}|{level}") };
                known.get(&(inner.as_str(), *id)).copied()
            });
            let called = calls.get(&(&**namespace, checkpoint.id)).into_iter().flatten().copied();
            for (namespace, checkpoint) in kept.chain(called) {
                if self.checkpoints.remove(&(namespace.clone(), checkpoint.id)) {
                    open.push((namespace, checkpoint));
                }
            }
        }
    }

    fn note_latest(&mut self, newest_first: &[Placed<'_>]) {
        let mut seen = HashSet::new();
        let latest = newest_first.iter().filter(|(namespace, _)| seen.insert(*namespace));
        self.ends_lease = latest
            .filter(|(namespace, _)| !is_per_call(namespace))
            .any(|(namespace, checkpoint)| self.checkpoints.contains(&((*namespace).clone(), checkpoint.id)));
    }

    /// Returns the checkpoints that [`ThreadAdmin::delete_for_runs`](super::ThreadAdmin::delete_for_runs) deletes for
    /// these runs. The argument `newest_first` must contain all checkpoints of a thread, newest first.
    pub fn by_runs<'a>(
        newest_first: impl IntoIterator<Item = (&'a Arc<str>, &'a Checkpoint)>,
        runs: &[String],
    ) -> Self {
        let all: Vec<_> = newest_first.into_iter().collect();
        let mut deletion = Self::plan(all.iter().copied(), |_, checkpoint| {
            let run = checkpoint.metadata.get("run_id").and_then(serde_json::Value::as_str);
            run.is_some_and(|run| runs.iter().any(|other| other == run))
        });
        deletion.note_latest(&all);
        deletion
    }

    /// Plans the deletion of the checkpoints for which `goes` returns true. The checkpoints of a [single
    /// call](is_per_call) are deleted with the checkpoint of the root graph at which the call began. The first argument
    /// of `goes` is the place of the checkpoint in its namespace, 0 for the latest.
    fn plan<'a>(newest_first: impl IntoIterator<Item = Placed<'a>>, goes: impl Fn(usize, &Checkpoint) -> bool) -> Self {
        let mut deletion = Self::default();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut calls = Vec::new();
        for (namespace, checkpoint) in newest_first {
            let place = places.entry(namespace).or_default();
            if goes(*place, checkpoint) {
                deletion.checkpoints.insert((namespace.clone(), checkpoint.id));
            } else if is_per_call(namespace)
                && let Some(root) = checkpoint.parents.get("")
            {
                calls.push((namespace, checkpoint.id, *root));
            }
            *place += 1;
        }
        let root: Arc<str> = Arc::from("");
        calls.retain(|(_, _, called_from)| deletion.checkpoints.contains(&(root.clone(), *called_from)));
        deletion.checkpoints.extend(calls.into_iter().map(|(namespace, id, _)| (namespace.clone(), id)));
        deletion
    }

    /// Returns true if there are no checkpoints to delete.
    pub fn is_empty(&self) -> bool {
        self.checkpoints.is_empty()
    }

    /// Returns true if the saver must delete this checkpoint.
    pub fn has(&self, namespace: &Arc<str>, id: Uuid) -> bool {
        self.checkpoints.contains(&(namespace.clone(), id))
    }
}

/// The plan of a prune: the threads to prune, and the checkpoints to delete in each of them.
///
/// The thread of a [background subagent](super::background) belongs to the thread of its supervisor. A prune of
/// selected threads ([`Prune::threads`]) includes the threads of their background subagents.
///
/// If the strategy keeps no checkpoints, checkpoints of the supervisor's thread may still remain because of
/// [`Prune::older_than`]. In this case, the prune keeps the latest checkpoint of each namespace of the subagent's
/// thread, because the supervisor may still need the report.
#[derive(Debug)]
pub struct PrunePlan {
    prune: Prune,
    now: SystemTime,
    threads: Vec<String>,
    emptied: Mutex<HashSet<String>>,
}

impl PrunePlan {
    /// Creates the plan. If [`Prune::threads`] is `None`, `stored` must contain the ids of all stored threads.
    /// Otherwise, `stored` must contain at least the ids of the threads on which background subagents of the selected
    /// threads work.
    pub fn new(prune: Prune, stored: Vec<String>) -> Self {
        let mut threads = match &prune.threads {
            None => stored,
            Some(named) => {
                let is_within = |name: &String| named.iter().any(|outer| background::is_within(name, outer));
                stored.into_iter().filter(is_within).chain(named.iter().cloned()).collect()
            }
        };
        // The name of a background thread begins with the name of its outer thread. The order therefore puts the outer
        // thread first, as `deletion` needs it.
        threads.sort_unstable();
        threads.dedup();
        Self { prune, now: SystemTime::now(), threads, emptied: Mutex::default() }
    }

    /// Returns the ids of the threads to prune. The saver must prune the threads in this order.
    pub fn threads(&self) -> &[String] {
        &self.threads
    }

    /// Returns the checkpoints of a thread that the prune deletes. The argument `newest_first` must contain all
    /// checkpoints of the thread, newest first.
    pub fn deletion<'a>(&self, thread: &str, newest_first: impl IntoIterator<Item = Placed<'a>>) -> Deletion {
        let all: Vec<_> = newest_first.into_iter().collect();
        let mut emptied = lock(&self.emptied);
        let stays =
            |outer: &str| !emptied.contains(outer) && self.threads.binary_search_by(|name| (**name).cmp(outer)).is_ok();
        let mut prune = self.prune.clone();
        if prune.strategy.kept() == 0 && background::outer_of(thread).is_some_and(stays) {
            prune.strategy = Strategy::KeepLatest;
        }
        let deletion = Deletion::by_prune(all.iter().copied(), &prune, self.now);
        if deletion.checkpoints.len() == all.len() {
            emptied.insert(thread.to_owned());
        } else {
            emptied.remove(thread);
        }
        deletion
    }
}

/// Returns true if a namespace belongs to a single call of a subgraph. The checkpoints of such a namespace are deleted
/// with the checkpoint of the root graph at which the call began.
pub fn is_per_call(namespace: &str) -> bool {
    namespace.contains(':')
}

/// Calls [`ThreadAdmin::sweep`](super::ThreadAdmin::sweep) in the background at this interval, until the returned value
/// is dropped. The task logs errors through `tracing`. Has no effect if the saver has no
/// [`ThreadAdmin`](super::ThreadAdmin). Needs a tokio runtime.
///
/// ```
/// # use std::time::Duration;
/// # use hier_checkpoint::checkpoint::{MemorySaver, sweep_every};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let saver = MemorySaver::default();
/// let sweeper = sweep_every(saver.clone(), Duration::from_mins(1));
/// // … serve …
/// drop(sweeper);
/// # }
/// ```
#[must_use = "the sweeper stops when its guard is dropped"]
pub fn sweep_every(saver: impl Checkpointer, every: Duration) -> Sweeper {
    Sweeper(AbortOnDropHandle::new(tokio::spawn(sweep_forever(saver, every))))
}

async fn sweep_forever(saver: impl Checkpointer, every: Duration) {
    loop {
        let Ok(admin) = saver.admin() else { return };
        match admin.sweep().await {
            Ok(0) => {}
            Ok(threads) => tracing::debug!(threads, "deleted threads whose time to live has passed"),
            Err(SaverError::Unusable { place, reason }) => {
                tracing::error!(place, reason, "failed to delete expired threads: the database cannot be used");
            }
            Err(error) => tracing::warn!(%error, "failed to delete expired threads; trying again later"),
        }
        tokio::time::sleep(every).await;
    }
}

/// The handle of a background task that deletes expired threads. [`sweep_every`] returns it. Dropping the handle stops
/// the task.
#[derive(Debug)]
pub struct Sweeper(AbortOnDropHandle<()>);

impl Sweeper {
    /// Returns true if the task has ended, for example because its runtime has shut down.
    pub fn has_ended(&self) -> bool {
        self.0.is_finished()
    }
}
