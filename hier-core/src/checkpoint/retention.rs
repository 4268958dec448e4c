//! What goes when checkpoints are deleted. Savers share it, so that they all delete the same.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use super::query::Prune;
use super::record::Checkpoint;
use super::{Checkpointer, SaverError};

/// The checkpoints of one thread that are to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deletion {
    /// Their namespaces and ids.
    pub checkpoints: HashSet<(Arc<str>, Uuid)>,
    /// Whether a run that holds the thread builds on one of them: the latest of the root, or of a subgraph that keeps its
    /// state between calls. Such a run is superseded, since what it commits next could not be read.
    pub ends_lease: bool,
}

impl Deletion {
    /// What a prune deletes, of all checkpoints of a thread, newest first.
    pub fn by_prune<'a>(
        newest_first: impl IntoIterator<Item = (&'a Arc<str>, &'a Checkpoint)>,
        prune: &Prune,
        now: SystemTime,
    ) -> Self {
        let kept = prune.strategy.kept();
        let cutoff = prune.older_than.map(|age| now.checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH));
        Self::plan(newest_first, |place, checkpoint| {
            place >= kept && cutoff.is_none_or(|cutoff| checkpoint.created_at() < cutoff)
        })
    }

    /// What is deleted with these runs, of all checkpoints of a thread, newest first.
    pub fn by_runs<'a>(
        newest_first: impl IntoIterator<Item = (&'a Arc<str>, &'a Checkpoint)>,
        runs: &[String],
    ) -> Self {
        Self::plan(newest_first, |_, checkpoint| {
            let run = checkpoint.metadata.get("run_id").and_then(serde_json::Value::as_str);
            run.is_some_and(|run| runs.iter().any(|other| other == run))
        })
    }

    /// `goes` is given a checkpoint's place in its namespace, from 0 for the latest.
    fn plan<'a>(
        newest_first: impl IntoIterator<Item = (&'a Arc<str>, &'a Checkpoint)>,
        goes: impl Fn(usize, &Checkpoint) -> bool,
    ) -> Self {
        let mut deletion = Self::default();
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut calls = Vec::new();
        for (namespace, checkpoint) in newest_first {
            let place = places.entry(namespace).or_default();
            if goes(*place, checkpoint) {
                deletion.checkpoints.insert((namespace.clone(), checkpoint.id));
                deletion.ends_lease |= *place == 0 && !is_per_call(namespace);
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

    /// Whether nothing is deleted.
    pub fn is_empty(&self) -> bool {
        self.checkpoints.is_empty()
    }

    /// Whether this checkpoint is deleted.
    pub fn has(&self, namespace: &Arc<str>, id: Uuid) -> bool {
        self.checkpoints.contains(&(namespace.clone(), id))
    }
}

/// Whether a namespace belongs to one call of a subgraph, and goes with the root checkpoint from which it was called.
///
/// The namespaces of calls carry the id of the calling task, `node:task`; those of subgraphs that keep their state between
/// calls are the bare names of nodes.
pub fn is_per_call(namespace: &str) -> bool {
    namespace.contains(':')
}

/// Sweeps a saver in the background, again and again after `every`, until the guard is dropped.
///
/// A sweep that fails is reported through `tracing` and tried again after the next wait. Needs a tokio runtime.
///
/// ```
/// # use std::time::Duration;
/// # use hier_core::checkpoint::{MemorySaver, sweep_every};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let saver = MemorySaver::default();
/// let sweeper = sweep_every(saver.clone(), Duration::from_secs(60));
/// // … serve …
/// drop(sweeper);
/// # }
/// ```
#[must_use = "the sweeper stops when its guard is dropped"]
pub fn sweep_every(saver: impl Checkpointer, every: Duration) -> Sweeper {
    Sweeper { _task: AbortOnDropHandle::new(tokio::spawn(sweep_forever(saver, every))) }
}

async fn sweep_forever(saver: impl Checkpointer, every: Duration) {
    loop {
        match saver.sweep().await {
            Ok(0) => {}
            Ok(threads) => tracing::debug!(threads, "swept threads whose time to live has passed"),
            Err(SaverError::Unusable { place, reason }) => tracing::error!(place, reason, "cannot sweep"),
            Err(error) => tracing::warn!(%error, "cannot sweep; trying again later"),
        }
        tokio::time::sleep(every).await;
    }
}

/// A sweeper in the background; it stops when this is dropped.
#[derive(Debug)]
pub struct Sweeper {
    _task: AbortOnDropHandle<()>,
}
