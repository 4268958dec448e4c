//! Threads in a database. Restate repeats work if a worker dies, or if the answer of the database is lost. Then an
//! earlier attempt may have stored a part of the work, which must not be stored again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::checkpoint::{
    Checkpointer, Claim, ListQuery, PendingWrite, SaverError, TaskWrites, WhenRunning, codec, slot,
};
use hier_core::drive::{self, Settings};
use hier_core::graph::{DynGraph, DynInput};
use hier_core::{Question, RunError};
use uuid::Uuid;
use xxhash_rust::xxh3::Xxh3;

use crate::error::RunFailure;
use crate::host::Host;
use crate::slice::Slice;
use crate::wire::UpdateState;
use crate::work::{EarlierThread, SliceWork, WorkEnd, holder_of, millis};

/// The part of a first slice that earlier attempts have stored.
enum StoredPart {
    Nothing,
    /// The command, but no superstep.
    Command,
    /// The input and this number of supersteps.
    Supersteps(i64),
}

impl Host {
    /// Returns the thread before a run or an update. Returns an error if Restate should repeat the call.
    pub(crate) async fn find(
        &self,
        graph: &dyn DynGraph,
        saver: &dyn Checkpointer,
        thread: &str,
    ) -> Result<WorkEnd, SaverError> {
        Ok(match newest(saver, thread).await {
            Ok(found) => WorkEnd::Found(found),
            Err(error) => WorkEnd::Run(Err(self.refused_by_saver(graph, error)?)),
        })
    }

    /// Prepares the first slice of a run. If an earlier attempt has stored the input, the slice continues from there.
    /// Other runs on the thread are not ended, because the engine has not checked the input yet.
    pub(crate) async fn begin_slice(
        &self,
        graph: &dyn DynGraph,
        saver: &dyn Checkpointer,
        work: &mut SliceWork,
    ) -> Result<Result<Slice, RunFailure>, SaverError> {
        let SliceWork { input, piece, before, .. } = work;
        let slice = Slice::first();
        let Some(before) = before.filter(|_| graph.check(input).is_ok()) else { return Ok(Ok(slice)) };
        let now = match newest_after_attempts(saver, &piece.settings.thread, piece.run).await {
            Ok(now) => now,
            Err(error) => return Ok(Err(self.refused_by_saver(graph, error)?)),
        };
        let own = Slice::first().stopped_clock(Duration::from_millis(piece.clock), piece.run);
        Ok(Ok(match StoredPart::between(&before, &now, &own, input) {
            StoredPart::Nothing => slice,
            StoredPart::Command => {
                (*input, piece.settings.checkpoint) = (DynInput::Continue, None);
                slice
            }
            StoredPart::Supersteps(count) => {
                (*input, piece.settings.checkpoint) = (DynInput::Continue, None);
                Slice::repeated(count)
            }
        }))
    }

    /// Applies the supersteps of an update that no earlier attempt has stored.
    pub(crate) async fn update(
        &self,
        graph: &dyn DynGraph,
        saver: Arc<dyn Checkpointer>,
        update: UpdateState,
        before: Option<(EarlierThread, Uuid)>,
    ) -> Result<WorkEnd, SaverError> {
        let UpdateState { mut settings, mut supersteps } = update;
        let mut policy = None;
        if let Some((before, id)) = before {
            let slice = Slice::first().stopped_clock(Duration::from_millis(before.now), id);
            let stored = match stored_supersteps(&*saver, &settings, &slice, id, supersteps.len()).await {
                Ok(stored) => stored,
                Err(error) => return Ok(WorkEnd::Updated(Err(self.refused_by_saver(graph, error)?))),
            };
            supersteps.drain(..stored.len());
            if let Some(newest) = stored.first() {
                if supersteps.is_empty() {
                    return Ok(WorkEnd::Updated(Ok((settings.namespace, Some(*newest)))));
                }
                settings.checkpoint = Some(*newest);
            }
            policy = Some((Arc::new(slice), id));
        }
        let (mut config, mut holder) = (settings.config(), None);
        if let Some((slice, id)) = policy {
            let when_running = settings.when_running.unwrap_or(WhenRunning::Reject);
            config = drive::with_policy(config, slice).when_running(when_running).holder(holder_of(id));
            holder = Some(id);
        }
        let updated = graph.update_state(saver, config, supersteps).await;
        Ok(WorkEnd::Updated(match updated {
            Ok(config) => Ok((config.checkpoint_namespace().to_owned(), config.checkpoint_id())),
            Err(error) => Err(self.refused(&error, holder)?),
        }))
    }

    fn refused_by_saver(&self, graph: &dyn DynGraph, error: SaverError) -> Result<RunFailure, SaverError> {
        self.refused(&RunError::Saver { graph: graph.spec().name.to_string(), error }, None)
    }
}

impl StoredPart {
    fn between(before: &EarlierThread, now: &EarlierThread, own: &Slice, input: &DynInput) -> Self {
        if now.checkpoint != before.checkpoint {
            let is_own = now.checkpoint.is_some_and(|id| own.has_made("", id));
            // A run that begins at an older checkpoint may make a checkpoint with a smaller number.
            return if is_own { Self::Supersteps((now.step - before.step).max(0)) } else { Self::Nothing };
        }
        let is_command = matches!(input, DynInput::Command(_)) && now.writes != before.writes;
        if is_command { Self::Command } else { Self::Nothing }
    }
}

/// Ends an earlier attempt of this run or update that still holds the thread. Does not end other runs.
async fn end_attempts(saver: &dyn Checkpointer, thread: &str, work: Uuid) -> Result<(), SaverError> {
    let (holder, when_running) = (holder_of(work), WhenRunning::Reject);
    let claim = Claim { holder, when_running, keeps_time_to_live: true, ..Claim::default() };
    let lease = match saver.acquire(thread, claim.clone()).await {
        Err(SaverError::Busy { holder, .. }) if holder == claim.holder => {
            saver.acquire(thread, Claim { when_running: WhenRunning::TakeOver, ..claim }).await?
        }
        // The other run ended earlier attempts when it claimed the thread.
        Err(SaverError::Busy { .. }) => return Ok(()),
        claimed => claimed?,
    };
    if let Err(error) = saver.release(&lease).await {
        tracing::debug!(thread, %error, "cannot release the lease of a thread");
    }
    Ok(())
}

async fn newest_after_attempts(saver: &dyn Checkpointer, thread: &str, run: Uuid) -> Result<EarlierThread, SaverError> {
    end_attempts(saver, thread, run).await?;
    newest(saver, thread).await
}

async fn newest(saver: &dyn Checkpointer, thread: &str) -> Result<EarlierThread, SaverError> {
    let now = millis(SystemTime::now());
    let Some(latest) = saver.get(thread, "", None).await? else {
        return Ok(EarlierThread { checkpoint: None, step: -2, writes: 0, now });
    };
    let (checkpoint, step) = (Some(latest.checkpoint.id), latest.checkpoint.step);
    Ok(EarlierThread { checkpoint, step, writes: hash_of(&latest.writes), now })
}

/// Returns a hash of the writes of clients: commands, and answers to questions of persons. It does not depend on the
/// results of tasks, timers and signals, which a sweeper may store at the same time.
fn hash_of(writes: &[TaskWrites]) -> u64 {
    let mut hash = Xxh3::new();
    for TaskWrites { task, writes, .. } in writes {
        if task.is_nil() {
            writes.iter().filter(|write| write.slot != slot::ATTEMPTS).for_each(|write| add(&mut hash, write));
            continue;
        }
        for write in writes.iter().filter(|write| write.slot == slot::INTERRUPT) {
            match codec::decode::<Vec<Question>>(&write.value) {
                Ok(questions) => {
                    let answered = questions.iter().filter(|question| question.answered && question.kind.is_person());
                    answered.for_each(|question| hash.update(question.id.as_bytes()));
                }
                Err(_) => add(&mut hash, write),
            }
        }
    }
    hash.digest()
}

fn add(hash: &mut Xxh3, write: &PendingWrite) {
    hash.update(&write.slot.to_le_bytes());
    hash.update(&write.value.len().to_le_bytes());
    hash.update(&write.value);
}

/// Ends earlier attempts of an update, and returns the ids of the checkpoints that they have made, newest first.
async fn stored_supersteps(
    saver: &dyn Checkpointer,
    settings: &Settings,
    update: &Slice,
    id: Uuid,
    limit: usize,
) -> Result<Vec<Uuid>, SaverError> {
    end_attempts(saver, &settings.thread, id).await?;
    let query = ListQuery {
        namespace: Some(settings.namespace.clone()),
        limit: Some(limit),
        ..ListQuery::thread(&settings.thread)
    };
    let newest = saver.list(query).await?.into_iter().map(|listed| listed.checkpoint.id);
    Ok(newest.take_while(|id| update.has_made(&settings.namespace, *id)).collect())
}
