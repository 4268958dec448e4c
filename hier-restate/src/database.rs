//! Threads in a database. Restate repeats work if a worker dies, or if the answer of the database is lost. Then an
//! earlier attempt may have stored a part of the work, which must not be stored again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::RunError;
use hier_core::checkpoint::{Checkpointer, Claim, ListQuery, SaverError, TaskWrites, WhenRunning};
use hier_core::drive::{self, Settings};
use hier_core::graph::{DynGraph, DynInput};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use crate::host::Host;
use crate::slice::Slice;
use crate::wire::UpdateState;
use crate::work::{ClaimedThread, SliceWork, WorkEnd, millis};

/// The part of a first slice that earlier attempts have stored.
enum StoredPart {
    Nothing,
    /// The command, but no superstep.
    Command,
    /// The input and this number of supersteps.
    Supersteps(i64),
}

impl Host {
    /// Claims the thread as its settings demand, and returns its newest checkpoint. The attempts of the work then take
    /// over the thread from each other. Returns an error if Restate should repeat the claim.
    pub(crate) async fn claim(
        &self,
        graph: &dyn DynGraph,
        saver: &dyn Checkpointer,
        settings: &Settings,
        unless_said: WhenRunning,
    ) -> Result<WorkEnd, SaverError> {
        let when_running = settings.when_running.unwrap_or(unless_said);
        match under_lease(saver, settings, when_running, newest(saver, &settings.thread)).await {
            Ok(claimed) => Ok(WorkEnd::Claimed(claimed)),
            Err(error) => {
                let error = RunError::Saver { graph: graph.spec().name.to_string(), error };
                Ok(WorkEnd::Run(Err(self.refused(&error)?)))
            }
        }
    }

    /// Prepares the first slice of a run. If an earlier attempt has stored the input, the slice continues from there.
    pub(crate) async fn begin_slice(
        &self,
        graph: &dyn DynGraph,
        saver: &dyn Checkpointer,
        work: &mut SliceWork,
    ) -> Result<Slice, SaverError> {
        let SliceWork { input, piece, claimed, .. } = work;
        let slice = Slice::first();
        // An invalid input must not take over the thread.
        let Some(before) = claimed.filter(|_| graph.check(input).is_ok()) else { return Ok(slice) };
        let own = Slice::first().stopped_clock(Duration::from_millis(piece.clock), piece.run);
        let now = under_lease(saver, &piece.settings, WhenRunning::TakeOver, newest(saver, &piece.settings.thread));
        Ok(match StoredPart::between(&before, &now.await?, &own, input) {
            StoredPart::Nothing => slice,
            StoredPart::Command => {
                (*input, piece.settings.checkpoint) = (DynInput::Continue, None);
                slice
            }
            StoredPart::Supersteps(count) => {
                (*input, piece.settings.checkpoint) = (DynInput::Continue, None);
                Slice::repeated(count)
            }
        })
    }

    /// Applies the supersteps of an update that no earlier attempt has stored.
    pub(crate) async fn update(
        &self,
        graph: &dyn DynGraph,
        saver: Arc<dyn Checkpointer>,
        update: UpdateState,
        claimed: Option<(ClaimedThread, Uuid)>,
    ) -> Result<WorkEnd, SaverError> {
        let UpdateState { mut settings, mut supersteps } = update;
        let mut policy = None;
        if let Some((claimed, id)) = claimed {
            let slice = Slice::first().stopped_clock(Duration::from_millis(claimed.now), id);
            let stored = stored_supersteps(&*saver, &settings, &slice, supersteps.len());
            let stored = under_lease(&*saver, &settings, WhenRunning::TakeOver, stored).await?;
            supersteps.drain(..stored.len());
            if let Some(newest) = stored.first() {
                if supersteps.is_empty() {
                    return Ok(WorkEnd::Updated(Ok((settings.namespace, Some(*newest)))));
                }
                settings.checkpoint = Some(*newest);
            }
            policy = Some(Arc::new(slice));
        }
        let mut config = settings.config();
        if let Some(policy) = policy {
            config = drive::with_policy(config, policy).when_running(WhenRunning::TakeOver);
        }
        let updated = graph.update_state(saver, config, supersteps).await;
        Ok(WorkEnd::Updated(match updated {
            Ok(config) => Ok((config.checkpoint_namespace().to_owned(), config.checkpoint_id())),
            Err(error) => Err(self.refused(&error)?),
        }))
    }
}

impl StoredPart {
    fn between(before: &ClaimedThread, now: &ClaimedThread, own: &Slice, input: &DynInput) -> Self {
        if now.checkpoint != before.checkpoint {
            let is_own = now.checkpoint.is_some_and(|id| own.has_made("", id));
            // A run that begins at an older checkpoint may make a checkpoint with a smaller number.
            return if is_own { Self::Supersteps((now.step - before.step).max(0)) } else { Self::Nothing };
        }
        let is_command = matches!(input, DynInput::Command(_)) && now.writes != before.writes;
        if is_command { Self::Command } else { Self::Nothing }
    }
}

/// Reads a thread while no attempt of its work can change it.
async fn under_lease<T>(
    saver: &dyn Checkpointer,
    settings: &Settings,
    when_running: WhenRunning,
    read: impl Future<Output = Result<T, SaverError>>,
) -> Result<T, SaverError> {
    let claim = Claim { when_running, time_to_live: settings.time_to_live, ..Claim::default() };
    let lease = saver.acquire(&settings.thread, claim).await?;
    let read = read.await;
    if let Err(error) = saver.release(&lease).await {
        tracing::debug!(thread = settings.thread, %error, "cannot release the lease of a thread");
    }
    read
}

async fn newest(saver: &dyn Checkpointer, thread: &str) -> Result<ClaimedThread, SaverError> {
    let now = millis(SystemTime::now());
    let Some(saved) = saver.get(thread, "", None).await? else {
        return Ok(ClaimedThread { checkpoint: None, step: -2, writes: 0, now });
    };
    let (checkpoint, step) = (Some(saved.checkpoint.id), saved.checkpoint.step);
    Ok(ClaimedThread { checkpoint, step, writes: hash_of(&saved.writes), now })
}

fn hash_of(writes: &[TaskWrites]) -> u64 {
    let mut hash = Xxh3::new();
    for TaskWrites { task, writes, .. } in writes {
        hash.update(task.as_bytes());
        for write in writes {
            hash.update(&write.slot.to_le_bytes());
            hash.update(&write.value.len().to_le_bytes());
            hash.update(&write.value);
        }
    }
    hash.digest()
}

/// Returns the ids of the newest checkpoints of the thread that an update has made, newest first.
async fn stored_supersteps(
    saver: &dyn Checkpointer,
    settings: &Settings,
    update: &Slice,
    limit: usize,
) -> Result<Vec<Uuid>, SaverError> {
    let query = ListQuery {
        namespace: Some(settings.namespace.clone()),
        limit: Some(limit),
        ..ListQuery::thread(&settings.thread)
    };
    let newest = saver.list(query).await?.into_iter().map(|listed| listed.checkpoint.id);
    Ok(newest.take_while(|id| update.has_made(&settings.namespace, *id)).collect())
}
