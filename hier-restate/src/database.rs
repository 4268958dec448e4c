//! Threads in a database. Restate repeats work if a worker dies, or if the answer of the database is lost. Then an
//! earlier attempt may have stored a part of the work, which must not be stored again.
//!
//! All attempts of a run or an update make checkpoints with the same node field ([`has_made`]), a hash that other work
//! practically never has. The engine stores the same field with the command of a run, and therefore recognizes a stored
//! command at its checkpoint.
//!
//! If other work has made a newer checkpoint in the meantime, the input is stored again.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hier_core::RunError;
use hier_core::checkpoint::{Checkpointer, Claim, ListQuery, SaverError, WhenRunning};
use hier_core::drive;
use hier_core::graph::DynGraph;
use uuid::Uuid;

use crate::error::RunFailure;
use crate::host::Host;
use crate::slice::{Slice, has_made};
use crate::wire::UpdateState;
use crate::work::{SliceWork, WorkEnd, claims, holder_of, millis};

/// The number of checkpoints that a worker reads at once to find those of earlier attempts.
const PAGE: usize = 8;

impl Host {
    /// Prepares the first slice of a run. If an earlier attempt has stored checkpoints, the slice continues from there.
    /// Other runs on the thread are not ended, because the engine has not checked the input yet.
    pub(crate) async fn begin_slice(
        &self,
        graph: &dyn DynGraph,
        saver: &dyn Checkpointer,
        work: &mut SliceWork,
    ) -> Result<Result<Slice, RunFailure>, SaverError> {
        let SliceWork { input, piece, .. } = &*work;
        if graph.check(input).is_err() {
            return Ok(Ok(Slice::first()));
        }
        let stored = match stored_by_attempts(saver, &piece.settings.thread, "", piece.run).await {
            Ok(stored) => stored,
            Err(error) => return Ok(Err(self.refused_by_saver(graph, error)?)),
        };
        if stored.is_empty() {
            return Ok(Ok(Slice::first()));
        }
        *work = SliceWork::later(piece.clone(), None);
        Ok(Ok(Slice::repeated(i64::try_from(stored.len()).unwrap_or(i64::MAX))))
    }

    /// Applies the supersteps of an update. In a database, skips those that an earlier attempt has stored.
    pub(crate) async fn update(
        &self,
        graph: &dyn DynGraph,
        saver: Arc<dyn Checkpointer>,
        update: UpdateState,
        id: Uuid,
    ) -> Result<WorkEnd, SaverError> {
        let UpdateState { mut settings, mut supersteps } = update;
        let mut policy = None;
        if self.saver.is_some() {
            let stored = match stored_by_attempts(&*saver, &settings.thread, &settings.namespace, id).await {
                Ok(stored) => stored,
                Err(error) => return Ok(WorkEnd::Updated(Err(self.refused_by_saver(graph, error)?))),
            };
            supersteps.drain(..stored.len().min(supersteps.len()));
            if let Some(newest) = stored.first() {
                if supersteps.is_empty() {
                    return Ok(WorkEnd::Updated(Ok((settings.namespace, Some(*newest)))));
                }
                settings.checkpoint = Some(*newest);
            }
            policy = Some(Slice::first().stopped_clock(Duration::from_millis(millis(SystemTime::now())), id));
        }
        let mut config = settings.config();
        if let Some(slice) = policy {
            config = claims(drive::with_policy(config, Arc::new(slice)), settings.when_running, id);
        }
        let updated = graph.update_state(saver, config, supersteps).await;
        Ok(WorkEnd::Updated(match updated {
            Ok(config) => Ok((config.checkpoint_namespace().to_owned(), config.checkpoint_id())),
            Err(error) => Err(self.refused(&error, Some(id))?),
        }))
    }

    fn refused_by_saver(&self, graph: &dyn DynGraph, error: SaverError) -> Result<RunFailure, SaverError> {
        self.refused(&RunError::Saver { graph: graph.spec().name.to_string(), error }, None)
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

/// Ends earlier attempts of a run or an update, and returns the ids of the checkpoints that they have made, newest
/// first. Returns no ids if the newest checkpoint belongs to other work.
async fn stored_by_attempts(
    saver: &dyn Checkpointer,
    thread: &str,
    namespace: &str,
    work: Uuid,
) -> Result<Vec<Uuid>, SaverError> {
    end_attempts(saver, thread, work).await?;
    let mut stored: Vec<Uuid> = Vec::new();
    loop {
        let (before, namespace_of) = (stored.last().copied(), Some(namespace.to_owned()));
        let query = ListQuery { namespace: namespace_of, before, limit: Some(PAGE), ..ListQuery::thread(thread) };
        let page = saver.list(query).await?.into_iter().map(|listed| listed.checkpoint.id);
        let known = stored.len();
        stored.extend(page.take_while(|id| has_made(work, namespace, *id)));
        if stored.len() < known + PAGE {
            return Ok(stored);
        }
    }
}
